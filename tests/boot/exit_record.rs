// SPDX-License-Identifier: GPL-2.0-only
//! What osnoise says in a guest whose host tells it of its exits, and what KVM tells the host.

use crate::{
    noise::quiet_pair,
    support::{
        base_kernel, host_spec, kernel, mode, pair, resumed, row_of, sh, text, tools, workload,
    },
};
use paratick_bench::noise::{quiet, NoiseRecorder};
use paratick_core::{
    noise::{Absence, Class, Stalls},
    size::Size,
    wire::GuestConfig,
};
use paratick_machine::{backend::EMULATED, guest::Guest, host::Host, spec::HostSpec};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};

/// One `sample_parts`: when it was written, by the guest's TSC, and its fields.
struct Gap {
    tsc: i64,
    fields: HashMap<String, u64>,
}

const PARTS: [&str; 10] =
    ["nmi", "irq", "softirq", "thread", "hv", "hv_irq", "vmm", "blocked", "steal", "hw"];

impl Gap {
    fn get(&self, name: &str) -> u64 {
        self.fields[name]
    }

    fn exits(&self) -> u64 {
        self.get("light") + self.get("heavy") + self.get("halts")
    }

    /// Those of its exits that were for timers.
    fn for_timers(&self) -> [u64; 4] {
        ["arms", "stops", "expiries", "ticks"].map(|name| self.get(name))
    }

    /// osnoise's own rule.
    fn is_hardware_s(&self) -> bool {
        self.get("interference") == 0 && self.get("hw") >= 1000
    }
}

/// Lets osnoise run for these seconds, and prints all that it has written.
fn script(more: &str, seconds: f64) -> String {
    format!(
        "mount -t tracefs none /sys/kernel/tracing 2>/dev/null; cd /sys/kernel/tracing && \
        {more} echo x86-tsc >trace_clock && echo 4096 >buffer_size_kb && \
        for e in sample_threshold sample_parts; do \
        if [ -d events/osnoise/$e ]; then echo 1 >events/osnoise/$e/enable; fi; done && \
        echo osnoise >current_tracer && sleep {seconds} && echo 0 >tracing_on && cat trace && \
        echo nop >current_tracer"
    )
}

fn osnoise(guest: &Guest, seconds: f64) -> String {
    let result = guest.exec(sh(&script("", seconds))).unwrap();
    assert_eq!(result.code, 0, "{}", text(&result.stderr));
    text(&result.stdout).to_string()
}

/// What osnoise itself says of its first period of a second: how often it met hardware noise, and
/// how long all noise was, in µs.
fn first_period(trace: &str) -> [u64; 2] {
    let columns = |line: &str| {
        let columns = line.rsplit_once(": ")?.1.split_whitespace();
        let columns = columns.map(|column| column.parse().ok()).collect::<Option<Vec<f64>>>()?;
        // A stall may make the period longer.
        (columns.len() >= 9 && columns[0] >= 1e6).then_some([columns[4] as u64, columns[1] as u64])
    };
    trace.lines().find_map(columns).unwrap_or_else(|| panic!("no whole period: {trace}"))
}

/// The stamp of a line of the trace: `TASK-PID [CPU] FLAGS STAMP: EVENT: ...`.
fn stamp(line: &str, event: &str) -> Option<i64> {
    let before = line.split_once(&format!(": {event}:"))?.0;
    before.rsplit_once(' ')?.1.parse().ok()
}

fn gaps(trace: &str) -> Vec<Gap> {
    let gap = |line: &str| {
        let tsc = stamp(line, "sample_parts")?;
        let words: Vec<_> = line.split_once("sample_parts:")?.1.split_whitespace().collect();
        let pairs =
            words.windows(2).filter_map(|pair| Some((pair[0].to_string(), pair[1].parse().ok()?)));
        Some(Gap { tsc, fields: pairs.collect() })
    };
    trace.lines().filter_map(gap).collect()
}

/// Those of the first period: what happens between two is in no gap.
fn of_one_period(trace: &str) -> Vec<Gap> {
    let end = trace.lines().find_map(|line| {
        let before = line.split_once(": 1000000 ")?.0;
        before.rsplit_once(' ')?.1.parse::<i64>().ok()
    });
    gaps(trace).into_iter().filter(|gap| end.is_none_or(|end| gap.tsc < end)).collect()
}

fn check_sums(gaps: &[Gap]) {
    for gap in gaps {
        let sum: u64 = PARTS.iter().map(|part| gap.get(part)).sum();
        assert_eq!(sum, gap.get("duration"), "{:?}", gap.fields);
    }
}

/// Starts to trace exits, by the host's TSC.
fn watch_exits(host: &Host) {
    let script =
        "mount -t tracefs none /sys/kernel/tracing 2>/dev/null; cd /sys/kernel/tracing && \
        echo x86-tsc >trace_clock && echo 8192 >buffer_size_kb && \
        echo 1 >events/kvm/kvm_exit/enable";
    assert_eq!(host.exec(sh(script)).unwrap().code, 0);
}

/// When the vCPU's exits were, by the guest's TSC.
fn exits(host: &Host) -> Vec<i64> {
    let script = "echo 0 >/sys/kernel/tracing/tracing_on; \
        mount -t debugfs none /sys/kernel/debug 2>/dev/null; \
        cat /sys/kernel/debug/kvm/*/vcpu0/tsc-offset && cat /sys/kernel/tracing/trace";
    let result = host.exec(sh(script)).unwrap();
    assert_eq!(result.code, 0, "{}", text(&result.stderr));
    let said = text(&result.stdout);
    let (offset, trace) = said.split_once('\n').unwrap();
    let offset: i64 = offset.parse().unwrap();
    trace.lines().filter_map(|line| Some(stamp(line, "kvm_exit")? + offset)).collect()
}

/// Exits from the first gap on, as host and guest have them.  One while osnoise writes of a gap is
/// in the next, so it may be the last one but some with which both end.
fn up_to_the_end(gaps: &[Gap], exits: &[i64]) -> (u64, u64) {
    let until = |last: usize| {
        let there = |&&tsc: &&i64| gaps[0].tsc < tsc && tsc <= gaps[last].tsc;
        let in_guest = gaps[1..=last].iter().map(Gap::exits).sum();
        (exits.iter().filter(there).count() as u64, in_guest)
    };
    let mut ends = (gaps.len() - 5..gaps.len()).rev().map(until);
    ends.find(|(on_host, in_guest)| on_host == in_guest).unwrap_or(until(gaps.len() - 1))
}

/// Each gap's parts add up, each exit is in the gap in which it was and has a reason if it was for
/// a timer, and what stock osnoise calls hardware is gone: the emulator's CPUs do not wait for each
/// other here.
#[test]
fn each_gap_is_split_and_each_exit_is_in_one() {
    for mode in ["tickless", "paratick"] {
        let (host, guest) = quiet_pair(kernel(), 1, mode, None);
        watch_exits(&host);
        let trace = osnoise(&guest, 1.5);
        let exits = exits(&host);
        check_sums(&gaps(&trace));
        let gaps = of_one_period(&trace);
        let (on_host, in_guest) = up_to_the_end(&gaps, &exits);
        let hardware = gaps.iter().filter(|gap| gap.is_hardware_s()).count();
        let stock = gaps.iter().filter(|gap| gap.get("interference") == 0).count();
        let of_exits = gaps.iter().filter(|gap| gap.exits() > 0).count();
        println!(
            "{mode}: {} gaps, {of_exits} of them with exits, {stock} without interference, \
             {hardware} of hardware; {in_guest} exits of {on_host}",
            gaps.len()
        );
        // Of half a second.  If the guest's ticks come with the host's, both are one gap.
        assert!(gaps.len() >= 100, "{mode}: {}", gaps.len());
        assert_eq!(in_guest, on_host, "{mode}");
        assert!(gaps.iter().all(|gap| gap.for_timers().iter().sum::<u64>() <= gap.exits()));
        let are_interrupts_in = |gap: &Gap| gap.get("ticks") == 0 || gap.get("hv_irq") > 0;
        assert!(gaps.iter().all(are_interrupts_in), "{mode}");
        let [arms, stops, expiries, ticks] =
            [0, 1, 2, 3].map(|which| gaps.iter().map(|gap| gap.for_timers()[which]).sum::<u64>());
        println!("{arms} arms, {stops} stops, {expiries} expiries, {ticks} ticks of the host");
        // At 250 Hz, of a second or what is left of it; some may be late.
        assert!((100..=300).contains(&ticks), "{mode}: {ticks}");
        let few = ticks / 10;
        let timers = if mode == "tickless" { ticks - few..=ticks + few } else { 0..=few };
        assert!(timers.contains(&arms) && timers.contains(&expiries) && stops == 0, "{mode}");
        for gap in gaps.iter().filter(|gap| gap.is_hardware_s()) {
            println!("hardware: {:?} after {} cycles", gap.fields, gap.tsc - gaps[0].tsc);
        }
        assert_eq!(hardware, 0, "{mode}");
        assert!(trace.contains("STEAL"), "{}", &trace[..2000]);
        guest.shutdown().unwrap();
        host.shutdown().unwrap();
    }
}

/// Where several threads want a CPU, its scheduler looks at them after a tick.  If it stays with
/// osnoise's, none of osnoise's events tells.
#[test]
fn a_look_of_the_scheduler_s_is_no_hardware_noise() {
    let (host, guest) = quiet_pair(kernel(), 2, "tickless", None);
    let agent = tools().agent.display().to_string();
    let chores = format!(
        "{agent} workload chores --threads 4 --window 0 --work 4000 </dev/null >/dev/null 2>&1 &"
    );
    assert_eq!(guest.exec(sh(&chores)).unwrap().code, 0);
    let trace = osnoise(&guest, 1.5);
    let gaps = gaps(&trace);
    check_sums(&gaps);
    // Nothing else was there.
    let is_look = |gap: &&Gap| {
        let others = ["nmi", "irq", "softirq", "thread"].map(|part| gap.get(part));
        gap.exits() == 0 && others.iter().sum::<u64>() == 0
    };
    let looks = gaps.iter().filter(is_look).count();
    let hardware: Vec<_> =
        gaps.iter().filter(|gap| gap.is_hardware_s()).map(|gap| &gap.fields).collect();
    println!("{} gaps, {looks} of them looks, of hardware: {hardware:?}", gaps.len());
    assert!(looks > 0 && hardware.is_empty());
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// A host that does not tell, or a guest that does not ask: osnoise is what it was.
#[test]
fn without_a_record_osnoise_is_as_it_was() {
    for (image, append) in [(base_kernel(), vec![]), (kernel(), vec!["no-exit-record"])] {
        let (host, guest) = pair(host_spec(image, 1, &[]), kernel(), 1, "tickless", &append);
        let trace = osnoise(&guest, 1.5);
        let gaps = trace.lines().filter(|line| stamp(line, "sample_threshold").is_some());
        let hardware = gaps.filter(|line| line.ends_with("interference 0")).count();
        println!("{append:?}: {hardware} gaps without interference");
        let is = if append.is_empty() { "that a host does not tell" } else { "that does not ask" };
        let cells = [("a guest", json!(is)), ("taken for hardware in 1.5 s", json!(hardware))];
        row_of("stock-hardware", &cells);
        assert!(hardware > 100, "{hardware}");
        assert!(!trace.contains("sample_parts:") && !trace.contains("STEAL"));
        guest.shutdown().unwrap();
        host.shutdown().unwrap();
    }
}

/// The thesis's first verification (5.1.1).  Its board's SMIs are stalls of the emulator's here.
#[test]
fn hardware_noise_is_the_host_s_own_where_exits_are_told_apart() {
    // For one period at least.
    const WHOLE: f64 = 2.5;
    let stalls: Stalls = "30us@10007us".parse().unwrap();
    let mut counted = Vec::new();
    for append in [vec![], vec!["no-exit-record".to_string()]] {
        let mut spec = HostSpec::for_guests(EMULATED, kernel(), 1, Size::mib(1024));
        let mut config = GuestConfig::new(kernel(), 1, Size::mib(512), mode("tickless"));
        let told = append.is_empty();
        config.append = append;
        quiet(&mut spec, &mut config, Some(stalls));
        let (host, guest) = resumed(spec, config);
        if told {
            // On the pCPU of the vCPU, which idles meanwhile.
            let result = host.exec(sh(&script("echo 1 >osnoise/cpus &&", WHOLE))).unwrap();
            assert_eq!(result.code, 0, "{}", text(&result.stderr));
            counted.push(("osnoise on the host", first_period(&text(&result.stdout))));
        }
        let name = if told { "in a guest that is told" } else { "in a guest that is not" };
        counted.push((name, first_period(&osnoise(&guest, WHOLE))));
        guest.shutdown().unwrap();
        host.shutdown().unwrap();
    }
    for (name, [hardware, noise_us]) in &counted {
        let of = ("osnoise", json!(name));
        let counted = [("hardware noises", json!(hardware)), ("all noise, µs", json!(noise_us))];
        row_of("hardware-noise", &[&[of], &counted[..]].concat());
    }
    let [host, told, untold] = [0, 1, 2].map(|at| counted[at].1[0]);
    // One that falls into an interrupt or an exit is a part of that.
    assert!([host, told].iter().all(|found| (93..=102).contains(found)), "{counted:?}");
    assert!(untold > 2 * told, "{counted:?}");
}

/// A VMM that does not know the MSR restores a guest without it.
#[test]
fn a_record_that_was_lost_is_asked_for_again() {
    let (host, guest) = pair(host_spec(kernel(), 1, &[]), kernel(), 1, "tickless", &[]);
    let script =
        "mount -t tracefs none /sys/kernel/tracing 2>/dev/null; cd /sys/kernel/tracing && \
        mknod /tmp/msr c 202 0 && echo osnoise >current_tracer && sleep 1 && \
        for again in 1 2 3; do sleep 1.3 && printf '\\0\\0\\0\\0\\0\\0\\0\\0' | \
        dd of=/tmp/msr bs=8 count=1 seek=$((0x4b564d11)) oflag=seek_bytes conv=notrunc 2>&1 || \
        exit 1; done; sleep 3 && cat trace && echo nop >current_tracer";
    let result = guest.exec(sh(script)).unwrap();
    let said = text(&result.stdout);
    assert_eq!(result.code, 0, "{said}{}", text(&result.stderr));
    // TASK, CPU, flags, time; runtime, noise, share, longest, five counters; light exits.
    let light: Vec<u64> = (said.lines().filter(|line| line.contains(" 1000000 ")))
        .map(|line| line.split_whitespace().nth(13).unwrap().parse().unwrap())
        .collect();
    println!("{said}{light:?}");
    let [first, .., last] = light[..] else { panic!("{light:?}") };
    let least = *light.iter().min().unwrap();
    assert!(first > 500 && least < first - 100 && last > 500, "{light:?}");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// One `kvm_exit_parts`, in ns.
#[derive(Debug)]
struct Exit {
    entered_ns: u64,
    reason: String,
    class: String,
    cpus: [u32; 2],
    timer: String,
    kvm: u64,
    irqs: u64,
    vmm: u64,
    blocked: u64,
    steal: u64,
}

/// By the number of the vCPU.
fn traced_exits(trace: &str) -> BTreeMap<u32, Vec<Exit>> {
    let mut vcpus: BTreeMap<u32, Vec<Exit>> = BTreeMap::new();
    for line in trace.lines() {
        let Some((before, said)) = line.split_once(": kvm_exit_parts: ") else { continue };
        let seconds: f64 = before.rsplit_once(' ').unwrap().1.parse().unwrap();
        let words: Vec<_> = said.split_whitespace().collect();
        let at = |name: &str| words.iter().position(|word| *word == name).unwrap();
        let number = |place: usize| words[place].parse::<u64>().unwrap();
        let of = |name: &str| number(at(name) + 1);
        let (reason, cpus) = (at("reason"), at("cpus"));
        vcpus.entry(of("vcpu") as u32).or_default().push(Exit {
            entered_ns: (seconds * 1e9).round() as u64,
            reason: words[reason + 1].into(),
            class: words[reason + 2].into(),
            cpus: [number(cpus + 1) as u32, number(cpus + 2) as u32],
            timer: words[at("timer") + 1].into(),
            kvm: of("kvm"),
            irqs: of("irqs"),
            vmm: of("vmm"),
            blocked: of("blocked"),
            steal: of("steal"),
        });
    }
    vcpus
}

/// Do both say that the exit was for the same timer?  Where several interrupts end one, the
/// programs go by the first.
fn same_timer(exit: &Exit, seen: &Absence) -> bool {
    exit.timer == if seen.cause.is_timer() { seen.cause.name() } else { "none" }
}

/// What KVM says of an exit is what the BPF programs saw of it.  They look a little later at its
/// beginning and earlier at its end: by how much their times differ at most.
fn agrees(exit: &Exit, seen: &Absence) -> u64 {
    // A HLT that KVM need not block for is a light exit to KVM.
    let class = match seen.class {
        Class::Halt if seen.blocked_ns == 0 && exit.class == "light" => "light".into(),
        class => class.to_string(),
    };
    let said = (exit.reason.as_str(), exit.class.clone(), exit.cpus);
    // The event does not say which way.
    let reason = if seen.reason.starts_with("msr_") { "msr" } else { &seen.reason };
    let found = (reason, class, [seen.exit_cpu, seen.entry_cpu]);
    assert_eq!(said, found, "{exit:?}\n{seen:?}");
    assert_eq!(exit.irqs > 0, exit.reason == "interrupt", "{exit:?}");
    let off = exit.blocked + exit.steal;
    let on = exit.kvm + exit.irqs + exit.vmm;
    let times = [
        (on + off, seen.ns),
        (off, seen.blocked_ns + seen.waited_ns),
        (on, seen.kvm_ns + seen.vmm_ns + seen.interrupted_ns),
    ];
    times.into_iter().map(|(one, other)| one.abs_diff(other)).max().unwrap()
}

/// The event of the series and the BPF programs for stock hosts, in the same run.
#[test]
fn the_host_s_event_and_its_bpf_twin_agree_in_each_of_10_000_exits() {
    let (host, guest) = pair(host_spec(kernel(), 2, &[]), kernel(), 2, "tickless", &[]);
    let on = "mount -t tracefs none /sys/kernel/tracing 2>/dev/null; cd /sys/kernel/tracing && \
        echo mono >trace_clock && echo 32768 >buffer_size_kb && \
        echo 1 >events/kvm/kvm_exit_parts/enable";
    assert_eq!(host.exec(sh(on)).unwrap().code, 0);
    host.start::<NoiseRecorder>().unwrap();
    for (name, work) in [("pingpong", "4000"), ("sleep", "300"), ("cpu", "200")] {
        workload(&host, &guest, name, &["--work", work]);
    }
    let seen = host.read::<NoiseRecorder>().unwrap();
    let trace = host.exec(sh("cat /sys/kernel/tracing/trace")).unwrap().stdout;
    let traced = traced_exits(&text(&trace));
    let mut compared = 0;
    let mut apart = Vec::new();
    let mut other_timers = 0;
    for (vcpu, exits) in &traced {
        let seen: Vec<_> = seen.absences.iter().filter(|one| one.vcpu == *vcpu).collect();
        let first = seen[0].begin_ns + seen[0].ns;
        // Each entry is traced a little later than it was seen, by a clock of whole microseconds.
        let exits = exits.iter().skip_while(|exit| exit.entered_ns + 1_000 < first);
        for (exit, seen) in exits.zip(seen) {
            apart.push(agrees(exit, seen));
            if !same_timer(exit, seen) {
                assert_eq!(exit.reason, "interrupt", "{exit:?}\n{seen:?}");
                other_timers += 1;
            }
            compared += 1;
        }
    }
    apart.sort_unstable();
    println!(
        "{compared} exits, {other_timers} of another timer; half within {} ns, 99 % within {} ns, \
         all within {} ns",
        apart[apart.len() / 2],
        apart[apart.len() * 99 / 100],
        apart[apart.len() - 1]
    );
    assert!(compared >= 10_000, "{compared}");
    assert!(other_timers * 500 <= compared, "{other_timers}");
    // The programs themselves take time between the two looks, and the emulator pauses.
    assert!(apart[apart.len() / 2] < 5_000 && apart[apart.len() * 99 / 100] < 50_000);
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}
