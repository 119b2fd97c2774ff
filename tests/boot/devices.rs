// SPDX-License-Identifier: GPL-2.0-only
//! Every timer device that a guest may have: what it costs is named as what it is.

use crate::support::{host_spec, kernel, mode, resumed, sh, stock, text, tools, PATIENCE};
use paratick_build::kernel::DEFAULT_BASE;
use paratick_core::{
    cause::Cause, clock_device::ClockDevice, exits::WindowCounts, size::Size, wire::GuestConfig,
};
use paratick_machine::{exec::Exec, guest::Guest, host::Host};
use std::{collections::BTreeMap, path::PathBuf};

/// So many sleeps, each of them ended by a timer; 20 more come before the window.
const SLEEPS: u64 = 2_000;

struct Device {
    kernel: PathBuf,
    clock: ClockDevice,
    cpu: &'static str,
    append: &'static [&'static str],
    /// As the guest's kernel calls the clock event device, without a number.
    name: &'static str,
    /// How /proc/interrupts begins the line of its interrupt, or ends it.
    interrupt: &'static str,
}

fn ours(clock: ClockDevice, interrupt: &'static str) -> Device {
    let name = clock.device_name();
    Device { kernel: kernel(), clock, cpu: "", append: &[], name, interrupt }
}

struct Seen {
    window: WindowCounts,
    /// Interrupts of the device, by the guest's own count.
    interrupts: u64,
}

impl Seen {
    fn cause(&self, cause: Cause) -> u64 {
        self.window.cause(cause)
    }

    /// By cause, and by what each was about.
    fn about(&self) -> BTreeMap<(Cause, String), u64> {
        let mut all = BTreeMap::new();
        for exit in self.window.vcpus.iter().flat_map(|vcpu| &vcpu.exits) {
            let about = exit.about.clone().unwrap_or_else(|| exit.reason.clone());
            *all.entry((exit.cause, about)).or_default() += exit.count;
        }
        all
    }

    fn of(&self, cause: Cause, about: &str) -> u64 {
        self.about().get(&(cause, about.to_string())).copied().unwrap_or(0)
    }

    /// Not below 98 % of the guest's own count, and nothing of it elsewhere.
    fn is_armed_each_time(&self, arms: u64) {
        assert!(self.interrupts >= SLEEPS, "{} interrupts", self.interrupts);
        assert!(arms * 100 >= self.interrupts * 98, "{arms} arms, {} interrupts", self.interrupts);
        for cause in [Cause::Other, Cause::Io] {
            let few = self.cause(cause);
            assert!(few * 20 < self.interrupts, "{cause}: {few}, {:?}", self.about());
        }
    }
}

fn see(device: &Device) -> Seen {
    let (host, guest) = boot(device);
    let seen = count(&host, &guest, device.interrupt, &["sleep", "--work", &SLEEPS.to_string()]);
    println!("{}: {} interrupts, {:?}", device.name, seen.interrupts, seen.about());
    end(host, guest);
    seen
}

fn end(host: Host, guest: Guest) {
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

fn boot(device: &Device) -> (Host, Guest) {
    let mut config = GuestConfig::new(&device.kernel, 1, Size::mib(512), mode("tickless"));
    config.clock = device.clock;
    config.cpu = device.cpu.into();
    config.append = device.append.iter().map(|word| word.to_string()).collect();
    config.pins = vec![1];
    let (host, guest) = resumed(host_spec(kernel(), 1, &[]), config);
    let armed = "cat /sys/devices/system/clockevents/clockevent0/current_device";
    let armed = text(&guest.exec(sh(armed)).unwrap().stdout);
    assert_eq!(armed.trim().trim_end_matches(|c: char| c.is_ascii_digit()), device.name);
    (host, guest)
}

/// A workload's window, with the guest's own count of just before and just after.
fn count(host: &Host, guest: &Guest, interrupt: &str, workload: &[&str]) -> Seen {
    host.counting_start().unwrap();
    let agent = tools().agent.display().to_string();
    let script = "cat /proc/interrupts; echo =; \"$@\" --window 0 >&2; cat /proc/interrupts";
    let argv = ["sh", "-c", script, "sh", &agent, "workload"];
    let argv = [&argv[..], workload].concat();
    let result = guest.exec(Exec::new(argv).timeout(PATIENCE)).unwrap();
    assert_eq!(result.code, 0, "{}", text(&result.stderr));
    let said = text(&result.stdout);
    let (before, after) = said.split_once("=\n").unwrap();
    let interrupts = own_count(after, interrupt) - own_count(before, interrupt);
    let mut windows = guest.windows().unwrap();
    assert_eq!(windows.len(), 1, "{windows:?}");
    Seen { window: windows.remove(0), interrupts }
}

/// Of the lines with that name or that end, the first CPU's counts.
fn own_count(interrupts: &str, name: &str) -> u64 {
    let mut sum = 0;
    for line in interrupts.lines() {
        let Some((label, rest)) = line.trim().split_once(':') else { continue };
        if label == name || rest.trim().ends_with(name) {
            sum += rest.split_ascii_whitespace().next().unwrap().parse::<u64>().unwrap_or(0);
        }
    }
    sum
}

#[test]
fn a_tsc_deadline_is_armed_by_an_msr() {
    let seen = see(&ours(ClockDevice::TscDeadline, "LOC"));
    seen.is_armed_each_time(seen.of(Cause::Arm, "TSC_DEADLINE"));
}

#[test]
fn the_apic_s_initial_count_is_known_as_msr_and_as_memory() {
    let x2apic = see(&ours(ClockDevice::Lapic, "LOC"));
    x2apic.is_armed_each_time(x2apic.of(Cause::Arm, "X2APIC_TMICT"));
    let xapic = see(&Device { append: &["nox2apic"], ..ours(ClockDevice::Lapic, "LOC") });
    xapic.is_armed_each_time(xapic.of(Cause::Arm, "APIC, TMICT"));
    assert_eq!(xapic.of(Cause::Arm, "X2APIC_TMICT"), 0);
}

#[test]
fn a_pit_is_armed_by_two_writes_to_its_port() {
    let seen = see(&ours(ClockDevice::Pit, "timer"));
    let arms = seen.of(Cause::Arm, "PIT, port 0x40");
    seen.is_armed_each_time(arms / 2);
    assert_eq!(seen.cause(Cause::Arm), arms);
}

#[test]
fn an_hpet_is_armed_by_a_write_and_read_again() {
    let seen = see(&ours(ClockDevice::Hpet, "timer"));
    seen.is_armed_each_time(seen.of(Cause::Arm, "HPET, 0xfed00108"));
    assert!(seen.of(Cause::Clock, "HPET, 0xfed000f0") >= SLEEPS);
}

#[test]
fn hyper_v_s_timer_is_armed_by_an_msr_of_its_own() {
    let stock = stock(DEFAULT_BASE).bzimage;
    let device = Device {
        kernel: stock,
        clock: ClockDevice::TscDeadline,
        cpu: "-tsc-deadline,kvm=off,hv-time,hv-vpindex,hv-relaxed,hv-synic,hv-stimer,\
              hv-stimer-direct,hv-vapic",
        append: &[],
        name: "Hyper-V clockevent",
        interrupt: "HVS",
    };
    let (host, guest) = boot(&device);
    let work = SLEEPS.to_string();
    let sleeps = count(&host, &guest, device.interrupt, &["sleep", "--work", &work]);
    sleeps.is_armed_each_time(sleeps.of(Cause::Arm, "HV_STIMER0_COUNT"));
    assert!(sleeps.of(Cause::Eoi, "HV_EOI") >= SLEEPS);
    // A guest that computes: the timer of each tick ends its run.  Some more interrupts come while
    // it is idle, before and after, and end halts.
    let busy = count(&host, &guest, device.interrupt, &["ticks"]);
    let ticks = busy.of(Cause::Expiry, "stimer_timer_callback");
    assert!(ticks * 100 >= busy.interrupts * 90, "{} of {}", ticks, busy.interrupts);
    println!("{:?}, {:?}", sleeps.about(), busy.about());
    end(host, guest);
}

#[test]
fn acpi_s_timer_is_a_clock_that_each_reading_exits_for() {
    let append: &[&str] = &["clocksource=acpi_pm"];
    let seen = see(&Device { append, ..ours(ClockDevice::TscDeadline, "LOC") });
    let read = seen.of(Cause::Clock, "PM timer, port 0x608");
    assert!(read >= 2 * SLEEPS, "{read}");
    // The kernel looks after the TSC now and then, too.
    assert!(seen.cause(Cause::Clock) - read < 20, "{:?}", seen.about());
}
