// SPDX-License-Identifier: GPL-2.0-only
//! Whether a guest really is in the mode it was booted for, and its host set as it should be.
//! Kernel parameters that a kernel does
//! not know are ignored silently: an unpatched guest would be measured under a false name.

use crate::sample::report;
use anyhow::{bail, Result};
use paratick_core::{
    balancing::Balancing,
    clock_device::is_device,
    disk_device::DiskDevice,
    halts::GuestRule,
    mode::{Mode, Polling, RESTART_TWICE},
    results::Plan,
    subject::HostSetting,
    units::Nanos,
};
use paratick_machine::{exec::Exec, guest::Guest, host::Host};
use std::time::Duration;

/// A line for each, by the shell alone: every other program would take a second to load.
const PROBE: &str = "\
read -r ticks 2>/dev/null </sys/devices/system/cpu/virtual_tick/active; echo \"$ticks\"
read -r until 2>/dev/null </sys/devices/system/cpu/virtual_tick/halt_until_active; echo \"$until\"
read -r window 2>/dev/null </sys/devices/system/cpu/virtual_tick/halt_window; echo \"$window\"
read -r driver 2>/dev/null </sys/devices/system/cpu/cpuidle/current_driver; echo \"$driver\"
read -r learn 2>/dev/null </sys/module/haltpoll/parameters/guest_halt_poll_learn; echo \"$learn\"
for name in $RULE; do value=
read -r value 2>/dev/null </sys/module/haltpoll/parameters/$name; echo \"$value\"; done";

/// Parameters that make a kernel with the series behave as one without.
const UNDO: [&str; 2] = ["no-paratick", RESTART_TWICE];
/// The same of the series that hands deadlines over, which is one of its own.
const UNDO_HALT_UNTIL: &str = "no-halt-until";

#[derive(Debug, Default, PartialEq, Eq)]
struct Observed {
    /// CPUs with virtual ticks, as the kernel lists them; empty: none, or a kernel without them.
    virtual_ticks: String,
    /// Those that hand their deadline over with the halt.
    halt_until: String,
    /// `on` where they say how late that may be; empty where the kernel or the host cannot.
    halt_window: String,
    idle_driver: String,
    /// `Y` where its governor learns for how long to poll; empty where it cannot.
    learns: String,
    /// The values of [`GuestRule::parameters`], in their order.
    rule: Vec<String>,
    unknown_parameters: String,
}

pub fn check(guest: &Guest, agent: &str, mode: Mode, plan: &Plan) -> Result<()> {
    check_mode(guest, mode, plan.vcpus)?;
    check_sockets(guest, plan.sockets)?;
    check_disk_device(guest, plan.disk_device)?;
    check_card(guest, plan)?;
    check_disk(guest, agent, plan.disk_latency_ns)?;
    check_balancing(guest, plan)?;
    // Elsewhere a guest may have any.
    match plan.records_wakeups {
        true => check_timers(guest, plan),
        false => Ok(()),
    }
}

pub fn check_mode(guest: &Guest, mode: Mode, vcpus: u32) -> Result<()> {
    let names = GuestRule::DEFAULT.parameters().map(|(name, _)| name).join(" ");
    let mut probe = Exec::new(["sh", "-c", PROBE]).timeout(Duration::from_secs(60));
    probe.env.push(("RULE".into(), names));
    let probed = guest.exec(probe)?.stdout;
    let unknown = &guest.ready().unknown_parameters;
    let said = parse(&String::from_utf8_lossy(&probed), unknown);
    match fault(mode, vcpus, &said) {
        Some(fault) => bail!("the guest is not in mode {mode}: {fault}"),
        None => Ok(()),
    }
}

/// Fails where timers are not what they should be: armed with this device, and with this sampler.
fn check_timers(guest: &Guest, plan: &Plan) -> Result<()> {
    let clock = plan.clock_device;
    let (file, due) = clock.proof(plan.vcpus);
    let device = said(guest, &format!("{CLOCK_EVENTS}/{file}"))?;
    if !is_device(&device, due) {
        bail!(
            "the guest's clock event device is not {clock}: its {file} is '{device}' where '{due}' \
             should be\nhint: --kernel must name one with HPET_TIMER and PCI_MSI"
        );
    }
    for (name, value) in plan.sampler.iter().flat_map(|sampler| sampler.parameters()) {
        let found = said(guest, &format!("{SAMPLER}/{name}"))?;
        if found != value {
            bail!(
                "the guest's sampler has {name} '{found}' where {value} should be\nhint: --kernel \
                 must name one with the lab's patches"
            );
        }
    }
    Ok(())
}

/// Fails where the guest does not find its CPUs in so many packages.
pub fn check_sockets(guest: &Guest, sockets: Option<u32>) -> Result<()> {
    let Some(sockets) = sockets else { return Ok(()) };
    let count = format!("cat {PACKAGES} | sort -u | wc -l");
    let count = Exec::new(["sh", "-c", &count]).timeout(Duration::from_secs(60));
    let found = guest.exec(count)?.stdout;
    let found = String::from_utf8_lossy(&found).trim().to_string();
    if found != sockets.to_string() {
        bail!(
            "the guest has {found} sockets where {sockets} should be\n\
             hint: --cpu must not hide the topology"
        );
    }
    Ok(())
}

/// Fails where the guest's disk is not this device.
pub fn check_disk_device(guest: &Guest, device: DiskDevice) -> Result<()> {
    // Without the paravirtual one nothing can be read, and says so.
    if device == DiskDevice::VirtioBlk {
        return Ok(());
    }
    let found = said(guest, NVME_TRANSPORT)?;
    if found != "pcie" {
        bail!(
            "the guest has no disk {}: the transport of its NVMe controller is '{found}' where \
             'pcie' should be\n\
             hint: --kernel must name one with CONFIG_BLK_DEV_NVME=y, such as --kernel 6.12-nvme",
            device.path()
        );
    }
    Ok(())
}

/// Fails where guests shall talk to each other and this one has no card, or its link is down.
fn check_card(guest: &Guest, plan: &Plan) -> Result<()> {
    if plan.network.is_none() {
        return Ok(());
    }
    let found = said(guest, CARRIER)?;
    if found != "1" {
        bail!(
            "the guest has no network: the carrier of its card is '{found}' where '1' should be\n\
             hint: --kernel must name one with CONFIG_VIRTIO_NET=y, such as --kernel 6.12-net"
        );
    }
    Ok(())
}

/// Fails where reads of the guest's disk do not take as long as they shall.
pub fn check_disk(guest: &Guest, agent: &str, latency_ns: Option<u64>) -> Result<()> {
    const READS: u64 = 20;
    /// On the way there and back, however loaded its host is.
    const BESIDE_NS: u64 = 700_000;
    let Some(latency_ns) = latency_ns else { return Ok(()) };
    // Its window is no run's.
    let reads = [agent, "workload", "block", "--work", &READS.to_string(), "--window", "0"];
    let report = report(&guest.exec(Exec::new(reads).timeout(Duration::from_secs(60)))?.stdout)?;
    let took = report.duration_ns / READS;
    if took < latency_ns || took > latency_ns + BESIDE_NS {
        bail!(
            "a read of the guest's disk takes {} where the disk shall take {}",
            Nanos(took),
            Nanos(latency_ns)
        );
    }
    Ok(())
}

fn check_balancing(guest: &Guest, plan: &Plan) -> Result<()> {
    let Some(balancing) = plan.balancing else { return Ok(()) };
    let found = said(guest, Balancing::PROOF)?;
    if found != balancing.policy() {
        bail!(
            "who balances load for the guest's idle CPUs is '{found}' where {balancing} should \
             be\nhint: --kernel must name one with the lab's patches"
        );
    }
    let by_tick = said(guest, SCHEDULER)?.split(' ').any(|word| word == BY_TICK);
    if balancing == Balancing::Tick && !by_tick {
        bail!(
            "busy CPUs do not balance load in their virtual ticks\nhint: --kernel must name one \
             with the series idle-balance"
        );
    }
    Ok(())
}

const CLOCK_EVENTS: &str = "/sys/devices/system/clockevents";
/// Of the controller that the disk of [`DiskDevice::Nvme`] is of.
const NVME_TRANSPORT: &str = "/sys/block/nvme0n1/device/transport";
const CARRIER: &str = "/sys/class/net/eth0/carrier";
const PACKAGES: &str = "/sys/devices/system/cpu/cpu[0-9]*/topology/physical_package_id";
const SAMPLER: &str = "/sys/module/lab_sampler/parameters";
const SCHEDULER: &str = "/sys/kernel/debug/sched/features";
/// A feature that is off has `NO_` before it.
const BY_TICK: &str = "VIRTUAL_TICK_ILB";

/// A line of a file; empty where there is none.
fn said(guest: &Guest, file: &str) -> Result<String> {
    let read = ["sh", "-c", "read -r line 2>/dev/null <\"$1\"; echo \"$line\"", "sh", file];
    let said = guest.exec(Exec::new(read).timeout(Duration::from_secs(60)))?.stdout;
    Ok(String::from_utf8_lossy(&said).trim().to_string())
}

/// Fails where a setting of the host is not what was asked for.
pub fn check_host(host: &Host) -> Result<()> {
    let rows: Vec<_> = host.settings().each().collect();
    let files: Vec<_> = rows.iter().map(|(row, _)| row.file).collect();
    for ((row, wanted), said) in rows.into_iter().zip(host.read_files(&files)?) {
        let said = said.unwrap_or_default();
        if is_in_effect(row, wanted, &said) {
            continue;
        }
        let hint = match row.needs {
            Some(series) => format!("--host-kernel must name one with the series {series}"),
            None => format!("on this machine, set it with: echo {wanted} > {}", row.file),
        };
        bail!(
            "the host's {} is '{}' where {wanted} {} should be ({})\nhint: {hint}",
            row.name,
            said,
            row.unit,
            row.file,
        );
    }
    Ok(())
}

/// A kernel that does not know a setting has its default.
fn is_in_effect(row: &HostSetting, wanted: u64, said: &str) -> bool {
    let unknown = row.needs.is_some() && said.is_empty();
    row.told(said) == Ok(wanted) || (unknown && wanted == row.default)
}

fn parse(probed: &str, unknown_parameters: &str) -> Observed {
    let mut lines = probed.lines().map(|line| line.trim().to_string());
    let mut next = || lines.next().unwrap_or_default();
    Observed {
        virtual_ticks: next(),
        halt_until: next(),
        halt_window: next(),
        idle_driver: next(),
        learns: next(),
        rule: GuestRule::DEFAULT.parameters().map(|_| next()).into(),
        unknown_parameters: unknown_parameters.into(),
    }
}

fn fault(mode: Mode, vcpus: u32, said: &Observed) -> Option<String> {
    let all = match vcpus {
        1 => "0".to_string(),
        _ => format!("0-{}", vcpus - 1),
    };
    let row = mode.tick.row();
    let due = |has: bool| has.then_some(all.as_str());
    unknown_parameter(mode, said)
        .or_else(|| wrong_cpus("virtual ticks", &said.virtual_ticks, due(row.virtual_ticks)))
        .or_else(|| wrong_cpus("halt-until", &said.halt_until, due(row.halt_until)))
        .or_else(|| wrong_window(mode, said))
        .or_else(|| wrong_driver(mode, said))
        .or_else(|| wrong_learning(mode, said))
        .or_else(|| wrong_rule(mode, said))
}

/// That the kernel does not know one that the mode needs.
fn unknown_parameter(mode: Mode, said: &Observed) -> Option<String> {
    let is_unknown =
        |parameter: &str| said.unknown_parameters.split(' ').any(|one| one == parameter);
    // On a kernel without the series there is nothing that these would have to undo.
    let stock = is_unknown("no-paratick");
    let has_nothing_to_undo = |one: &str| one == UNDO_HALT_UNTIL || (stock && UNDO.contains(&one));
    let needed = mode.kernel_parameters();
    let mut needed = needed.iter().filter(|one| !has_nothing_to_undo(one));
    let unknown = needed.find(|one| is_unknown(one))?;
    Some(format!(
        "its kernel does not know the parameter {unknown}\nhint: --kernel must name one with the \
         series and the lab's patches"
    ))
}

/// Where the CPUs that have something are not those that should: all, or none.
fn wrong_cpus(what: &str, found: &str, due: Option<&str>) -> Option<String> {
    match due {
        Some(all) if found != all => Some(format!(
            "CPUs with {what} are '{found}' where '{all}' should be\nhint: --kernel and \
             --host-kernel must both name one with the series"
        )),
        None if !found.is_empty() => Some(format!("CPUs {found} have {what}")),
        _ => None,
    }
}

fn wrong_window(mode: Mode, said: &Observed) -> Option<String> {
    let due = mode.tick.row().halt_window;
    (due != (said.halt_window == "on")).then(|| {
        format!(
            "halt_window is '{}'\nhint: --kernel and --host-kernel must both name one with the \
             series coalesce",
            said.halt_window
        )
    })
}

fn wrong_driver(mode: Mode, said: &Observed) -> Option<String> {
    let driver = &said.idle_driver;
    (mode.polls() && driver != "haltpoll").then(|| {
        format!(
            "its idle driver is '{driver}', not haltpoll\nhint: --kernel must name one with \
             CONFIG_HALTPOLL_CPUIDLE"
        )
    })
}

fn wrong_learning(mode: Mode, said: &Observed) -> Option<String> {
    let due = mode.poll == Polling::Learned;
    (due != (said.learns == "Y")).then(|| {
        format!(
            "guest_halt_poll_learn is '{}'\nhint: --kernel must name one with the series \
             halt-polling",
            said.learns
        )
    })
}

fn wrong_rule(mode: Mode, said: &Observed) -> Option<String> {
    let Polling::By(rule) = mode.poll else { return None };
    let pairs = rule.parameters().into_iter().zip(&said.rule);
    let mut wrong = pairs.filter(|((_, due), found)| due != *found);
    let ((name, due), found) = wrong.next()?;
    Some(format!(
        "{name} is '{found}' where {due} should be\nhint: --kernel must name one with \
         CONFIG_CPU_IDLE_GOV_HALTPOLL"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use paratick_core::subject::HOST_SETTINGS;

    fn fault_of(mode: &str, (probed, unknown): (&str, &str)) -> Option<String> {
        fault(mode.parse().unwrap(), 2, &parse(probed, unknown))
    }

    const PLAIN: (&str, &str) = ("\n\n\nnone\n", "HOME=/ TERM=linux");
    const TICKS: (&str, &str) = ("0-1\n\n\nhaltpoll\n", "HOME=/ TERM=linux");
    const UNTIL: (&str, &str) = ("0-1\n0-1\noff\nhaltpoll\n", "HOME=/ TERM=linux");
    const WINDOW: (&str, &str) = ("0-1\n0-1\non\nhaltpoll\n", "HOME=/ TERM=linux");
    const LEARNS: (&str, &str) = ("0-1\n0-1\noff\nhaltpoll\nY\n", "HOME=/ TERM=linux");
    const RULE: (&str, &str) =
        ("0-1\n0-1\noff\nhaltpoll\nN\n50000\n2\n10000\n2\nY\n", "HOME=/ TERM=linux");
    const STOCK: (&str, &str) =
        ("\n\n\n\n", "no-paratick tick_restart_twice tickless_stop no-halt-until HOME=/");

    #[test]
    fn a_guest_in_its_mode_has_no_fault() {
        for mode in ["periodic", "tickless", "tickless-stop"] {
            assert_eq!(fault_of(mode, PLAIN), None);
        }
        assert_eq!(fault_of("paratick-ticks+poll", TICKS), None);
        assert_eq!(fault_of("paratick-paper", TICKS), None);
        assert_eq!(fault_of("paratick+poll", UNTIL), None);
        assert_eq!(fault_of("paratick+coalesce+nopoll", WINDOW), None);
        assert_eq!(fault_of("paratick", LEARNS), None);
        assert_eq!(fault_of("paratick+nopoll", UNTIL), None);
        assert_eq!(fault_of("paratick+poll-50k", RULE), None);
    }

    #[test]
    fn a_rule_that_is_not_in_force_is_told() {
        let fault = fault_of("paratick+poll:50000:2:10000:2:n", RULE).unwrap();
        assert!(fault.starts_with("guest_halt_poll_allow_shrink is 'Y' where N"), "{fault}");
        let fault = fault_of("paratick+poll-0", RULE).unwrap();
        assert!(fault.starts_with("guest_halt_poll_ns is '50000' where 0"), "{fault}");
        // Without the module.
        assert!(fault_of("paratick+poll-0", UNTIL).unwrap().contains("'' where 0"));
    }

    #[test]
    fn only_a_setting_of_a_series_may_be_unknown_and_only_at_its_default() {
        let row = |name| HOST_SETTINGS.iter().find(|row| row.name == name).unwrap();
        assert!(is_in_effect(row("halt-poll"), 5, "5") && !is_in_effect(row("halt-poll"), 0, ""));
        let floor = row("halt-poll-floor");
        assert!(is_in_effect(floor, 0, "") && is_in_effect(floor, 2, "2"));
        assert!(!is_in_effect(floor, 2, "") && !is_in_effect(floor, 0, "2"));
        let learns = row("halt-poll-learn");
        assert!(is_in_effect(learns, 0, "N") && is_in_effect(learns, 1, "Y"));
        assert!(!is_in_effect(learns, 1, "N") && !is_in_effect(learns, 0, "Y"));
    }

    #[test]
    fn a_stock_kernel_is_tickless_without_being_told_how() {
        assert_eq!(fault_of("tickless", STOCK), None);
        // A kernel with virtual ticks alone has nothing that no-halt-until would switch off.
        assert_eq!(fault_of("paratick-ticks", (TICKS.0, "no-halt-until")), None);
        let series_only = (STOCK.0, "tick_restart_twice tickless_stop");
        assert!(fault_of("tickless", series_only).unwrap().contains("tick_restart_twice"));
    }

    #[test]
    fn a_mode_that_the_kernel_ignored_is_told() {
        assert!(fault_of("paratick", PLAIN).unwrap().contains("'0-1' should be"));
        assert!(fault_of("paratick-ticks", ("0\n\n\n", "")).is_some());
        // A kernel without the lab's patches has virtual ticks, but by our rule.
        let ours = fault_of("paratick-paper", (TICKS.0, "paper-ticks")).unwrap();
        assert!(ours.contains("paper-ticks\nhint: --kernel"), "{ours}");
        // And a host without them refuses to give any by the paper's.
        assert!(fault_of("paratick-paper", PLAIN).unwrap().contains("'0-1' should be"));
        let no_deadlines = fault_of("paratick", TICKS).unwrap();
        assert!(no_deadlines.contains("halt-until are '' where '0-1'"), "{no_deadlines}");
        assert!(fault_of("paratick", ("0-1\n0\n\n", "")).is_some());
        assert!(fault_of("paratick+coalesce", UNTIL).unwrap().contains("halt_window is 'off'"));
        assert!(fault_of("paratick", WINDOW).unwrap().contains("halt_window is 'on'"));
        assert!(fault_of("paratick-ticks", UNTIL).unwrap().contains("0-1 have halt-until"));
        assert!(fault_of("tickless-stop", STOCK).unwrap().contains("tickless_stop"));
        assert!(fault_of("tickless", TICKS).is_some());
        assert!(fault_of("tickless+poll", PLAIN).unwrap().contains("haltpoll"));
        // Unknown parameters of modules are not among those that the kernel names.
        assert!(fault_of("paratick", UNTIL).unwrap().contains("halt-polling"));
        assert!(fault_of("paratick+nopoll", LEARNS).unwrap().contains("is 'Y'"));
        assert!(fault_of("paratick+poll", LEARNS).is_some());
    }
}
