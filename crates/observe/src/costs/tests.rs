// SPDX-License-Identifier: GPL-2.0-only
use super::{
    host::Host,
    limits::Quota,
    threads::{Thread, Threads},
    *,
};
use paratick_core::{
    cause::Cause,
    observed::{Exits, Kind, Spent},
};
use paratick_instruments::kept::{Fields, Kept};
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;

fn exits(cause: Cause, about: &str, count: u64, kvm_ns: u64) -> Exits {
    let kind = Kind { cause, reason: "io".into(), about: Some(about.into()) };
    Exits { vcpu: 0, kind, spent: Spent { count, kvm_ns, ..Spent::default() } }
}

/// For two seconds.
fn seen(cpu: &str, exits: Vec<Exits>) -> Seen {
    let line = ["qemu-kvm", "-cpu", cpu].map(String::from);
    let vm = Vm {
        name: "web".into(),
        others: Vec::new(),
        process: 1,
        ended: false,
        ns: 2 * SECOND,
        lost: 0,
        exits,
    };
    let limits = |ticks| Limits {
        quotas: Some(BTreeMap::new()),
        polls: Some((0, 0)),
        jiffies: Some((ticks, ticks * SECOND / 250)),
        threads: Threads::default(),
    };
    Seen {
        machine: Machine::of(&line),
        vm,
        before: limits(0),
        after: limits(500),
        halt_poll_ns: Some(200_000),
        kept: Ok(kept(&[], &[], false)),
        host: host("flags : svm avic\n", true),
    }
}

fn kept(always: &[&str], at_times: &[&str], has_clock: bool) -> Kept {
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
    let read = Fields { always: words(always), at_times: words(at_times), has_clock };
    Kept { read: Some(read), changes: 0, writes: 0, pulses: Some(0), unmasked: 0 }
}

/// With AMD's switch, and a good TSC.
fn host(cpuinfo: &str, is_on: bool) -> Host {
    Host::of(|file| match file {
        "/proc/cpuinfo" => Some(cpuinfo.into()),
        "/sys/module/kvm_amd/parameters/avic" => Some(if is_on { "Y\n" } else { "N\n" }.into()),
        _ => file.contains("clocksource").then(|| "tsc\n".into()),
    })
}

fn named(seen: &Seen) -> Vec<&'static str> {
    let costs = seen.judge();
    assert!(costs.iter().all(|cost| !cost.found.is_empty()), "{costs:?}");
    let costs = costs.iter().filter(|cost| cost.state == State::Costs);
    costs.inspect(|cost| assert!(!cost.mend.is_empty(), "{cost:?}")).map(|cost| cost.what).collect()
}

fn of(seen: &Seen, what: &str) -> Cost {
    seen.judge().into_iter().find(|cost| cost.what == what).unwrap()
}

#[test]
fn the_dearest_comes_first() {
    let seen = seen(
        "host",
        vec![
            exits(Cause::Arm, "HPET, 0xfed00108", 2000, SECOND / 50),
            exits(Cause::Eoi, "RTC, port 0x71", 4000, SECOND / 10),
            exits(Cause::HostTick, "interrupt", 500, SECOND / 2),
            exits(Cause::Io, "serial, port 0x3f8", 500, SECOND),
        ],
    );
    assert_eq!(named(&seen), ["RTC", "HPET"]);
    let hpet = of(&seen, "HPET");
    assert_eq!((hpet.per_second, hpet.share), (Some(1000.0), Some(0.01)));
    let tick = of(&seen, "host's tick");
    assert_eq!((tick.state, tick.per_second), (State::Free, Some(250.0)));
}

#[test]
fn nothing_is_named_where_nothing_costs() {
    assert!(named(&seen("host", vec![exits(Cause::Arm, "HPET, 0xfed00108", 1, 100)])).is_empty());
}

#[test]
fn hyper_v_s_timer_is_missed_by_who_uses_a_device_instead() {
    let exits = || vec![exits(Cause::Eoi, "RTC, port 0x71", 128, SECOND / 100)];
    let missing = seen("host,hv-time,migratable=off", exits());
    assert!(named(&missing).contains(&"Hyper-V's timer"));
    assert_eq!(of(&seen("host,hv-stimer", exits()), "Hyper-V's timer").state, State::Free);
    assert_eq!(named(&seen("host", exits())), ["RTC"]);
}

#[test]
fn a_program_that_reads_the_rtc_needs_no_other_timer() {
    let reads = || vec![exits(Cause::Clock, "RTC, port 0x71", 4000, SECOND / 10)];
    for cpu in ["host", "host,hv-time", "host,migratable=off"] {
        assert_eq!(named(&seen(cpu, reads())), ["RTC's time"], "{cpu}");
    }
    let mend = of(&seen("host", reads()), "RTC's time").mend;
    assert!(!mend.contains("nolapic_timer") && !mend.contains("stimer"), "{mend}");
}

#[test]
fn a_pc_s_settings_beside_the_rtc_are_no_timer() {
    let reads = vec![exits(Cause::Io, "RTC, port 0x71", 4000, SECOND / 10)];
    assert!(named(&seen("host,hv-time", reads)).is_empty());
}

#[test]
fn a_clock_that_is_read_by_exits_costs_and_the_tsc_mends_it() {
    let exits = || vec![exits(Cause::Clock, "PM timer, port 0x608", 9000, SECOND / 5)];
    assert_eq!(named(&seen("host", exits())), ["clock"]);
    assert!(of(&seen("host", exits()), "clock").mend.contains("+invtsc"));
    let invariant = seen("host,migratable=off", exits());
    assert!(of(&invariant, "clock").mend.contains("echo tsc >"));
    // The guest's kernel looks after its TSC.
    let few = vec![self::exits(Cause::Clock, "PM timer, port 0x608", 30, SECOND / 5000)];
    assert!(named(&seen("host,migratable=off", few)).is_empty());
}

#[test]
fn a_device_that_is_only_read_is_a_clock() {
    // FreeBSD's timer is the APIC's, its clock the HPET; Linux looks after its TSC by it.
    let reads = |count, kvm_ns| exits(Cause::Clock, "HPET, 0xfed000f0", count, kvm_ns);
    let read = seen("host", vec![reads(9000, SECOND / 5)]);
    assert_eq!(named(&read), ["clock"]);
    assert!(of(&read, "clock").mend.contains("+invtsc"));
    let windows = seen("host,hv-vapic", vec![reads(9000, SECOND / 5)]);
    assert_eq!(named(&windows), ["clock"], "and not Hyper-V's timer");
    assert!(named(&seen("host", vec![reads(12, SECOND / 5000)])).is_empty());
    let arms = exits(Cause::Arm, "HPET, 0xfed00108", 9000, SECOND / 5);
    assert_eq!(named(&seen("host", vec![reads(9000, SECOND / 5), arms])), ["HPET"]);
}

#[test]
fn what_idle_cpus_of_linux_check_and_who_arms_reads_is_no_clock() {
    for about in ["TSC_ADJUST", "X2APIC_TMCCT", "APIC, TMCCT"] {
        // 64 a second, as of so many vCPUs.
        let reads = vec![exits(Cause::Clock, about, 128, SECOND / 5000)];
        assert!(named(&seen("host", reads)).is_empty(), "{about}");
    }
}

#[test]
fn a_quota_and_polls_count_for_as_long_as_was_looked() {
    let mut seen = seen("host", Vec::new());
    let quota = |throttled, throttled_us| {
        let max = "20000 100000".into();
        Some(BTreeMap::from([("/vm".to_string(), Quota { max, throttled, throttled_us })]))
    };
    (seen.before.quotas, seen.before.polls) = (quota(10, 100_000), Some((7, 5)));
    (seen.after.quotas, seen.after.polls) = (quota(30, 1_700_000), Some((7, 5 + SECOND / 5)));
    assert_eq!(named(&seen), ["quota", "polling in vain"]);
    let quota = of(&seen, "quota");
    assert_eq!((quota.per_second, quota.share), (Some(10.0), Some(0.8)));
    assert_eq!(quota.mend, "echo max >/sys/fs/cgroup/vm/cpu.max");
    assert_eq!(of(&seen, "polling in vain").share, Some(0.1));
}

#[test]
fn what_nobody_tells_is_unknown() {
    let mut seen = seen("host", Vec::new());
    (seen.machine, seen.after) = (None, Limits::default());
    seen.kept = Err("no such program".into());
    let costs = seen.judge();
    let unknown = costs.iter().filter(|cost| cost.state == State::Unknown);
    let unknown: Vec<_> = unknown.map(|cost| cost.what).collect();
    assert_eq!(
        unknown,
        [
            "Hyper-V's timer",
            "kvm-clock",
            "paravirtual EOI",
            "AVIC or APICv",
            "host's tick",
            "polling in vain",
            "quota"
        ]
    );
}

#[test]
fn a_fast_tick_costs() {
    let tick = vec![exits(Cause::HostTick, "interrupt", 2000, SECOND / 100)];
    let mut seen = seen("host", tick);
    assert!(named(&seen).is_empty());
    seen.after.jiffies = Some((2001, 2 * SECOND));
    assert_eq!(named(&seen), ["host's tick"]);
}

#[test]
fn hyper_v_s_timer_costs_what_its_registers_do() {
    let exits = || {
        let msr = |cause, about| exits(cause, about, 3000, SECOND / 50);
        vec![msr(Cause::Arm, "HV_STIMER0_COUNT"), msr(Cause::Eoi, "HV_EOI")]
    };
    let seen = seen("host,kvm=off,hv-stimer", exits());
    assert_eq!(named(&seen), ["Hyper-V's timer"]);
    assert_eq!(of(&seen, "Hyper-V's timer").per_second, Some(3000.0));
}

#[test]
fn ends_of_interrupts_cost_who_lost_the_paravirtual_one() {
    let exits = || vec![exits(Cause::Eoi, "X2APIC_EOI", 2000, SECOND / 100)];
    assert_eq!(named(&seen("host,kvm=off", exits())), ["paravirtual EOI"]);
    assert!(named(&seen("host", exits())).is_empty());
    assert!(named(&seen("host,kvm=off,hv_vapic", exits())).is_empty());
    // Others of Hyper-V's features end no interrupt.
    for cpu in ["host,kvm=off,hv_vendor_id=none", "host,kvm=off,hv-time,hv-stimer"] {
        assert_eq!(named(&seen(cpu, exits())), ["paravirtual EOI"], "{cpu}");
    }
}

#[test]
fn threads_cost_as_far_as_their_time_is_known_to_be_spared() {
    let mut seen = seen("host", vec![exits(Cause::Arm, "PIT, port 0x40", 2000, SECOND / 100)]);
    let line = ["kvm", "-object", "iothread,id=io0"].map(String::from);
    seen.machine = Machine::of(&line);
    let thread = |name: &str, ns| {
        let (name, waits_in) = (name.into(), None);
        Thread { id: 1, name, cpu_ns: ns, user_ns: ns, slept: 0, waits_in }
    };
    for (limits, ns) in [(&mut seen.before, SECOND), (&mut seen.after, 2 * SECOND)] {
        limits.threads.kernel = vec![thread("vhost-1", ns), thread("kvm-pit/1", ns / 10)];
        limits.threads.own = vec![thread("kvm", 7 * ns), thread("IO io0", ns)];
    }
    assert_eq!(named(&seen), ["iothread", "PIT"]);
    assert_eq!(of(&seen, "iothread").share, Some(0.5));
    assert_eq!(of(&seen, "PIT").share, Some(0.055));
    seen.machine =
        Machine::of(&["kvm", "-object", "iothread,id=io0,poll-max-ns=0"].map(String::from));
    assert_eq!(named(&seen), ["PIT"]);
    seen.after.threads.own.clear();
    assert_eq!(of(&seen, "iothread").state, State::Unknown);
}

#[test]
fn an_hpet_costs_that_raises_a_masked_line() {
    let mut seen = seen("host", Vec::new());
    let first = |slept, cpu_ns| Thread {
        id: 1,
        name: "kvm".into(),
        cpu_ns,
        user_ns: 0,
        slept,
        waits_in: None,
    };
    seen.before.threads.own = vec![first(7, SECOND)];
    seen.after.threads.own = vec![first(2107, SECOND + SECOND / 10)];
    let with = |seen: &mut Seen, pulses, unmasked| {
        seen.kept = Ok(Kept { pulses, unmasked, ..kept(&[], &[], true) });
        named(seen)
    };
    assert_eq!(with(&mut seen, Some(2000), 0), ["masked HPET"]);
    let cost = of(&seen, "masked HPET");
    assert_eq!((cost.per_second, cost.share), (Some(1000.0), Some(0.05)));
    assert!(cost.found.contains("1050 times a second"), "{}", cost.found);
    // What else the thread does is not the HPET's.
    assert_eq!(with(&mut seen, Some(900), 0), ["masked HPET"]);
    assert_eq!(of(&seen, "masked HPET").share, Some(0.0));
    for (pulses, unmasked) in [(Some(2000), 1), (Some(0), 0), (None, 0)] {
        assert!(with(&mut seen, pulses, unmasked).is_empty());
    }
}

#[test]
fn avic_that_is_inhibited_costs_what_it_would_spare() {
    let exits = || {
        let window = Kind { cause: Cause::Other, reason: "vintr".into(), about: None };
        let spent = Spent { count: 600, kvm_ns: SECOND / 100, ..Spent::default() };
        let window = Exits { vcpu: 0, kind: window, spent };
        let sends = exits(Cause::Ipi, "X2APIC_ICR", 1000, SECOND / 100);
        vec![exits(Cause::Eoi, "X2APIC_EOI", 2000, SECOND / 100), sends, window]
    };
    let what = "AVIC or APICv";
    let mut seen = seen("host", exits());
    let used = of(&seen, what);
    assert_eq!((used.state, used.per_second), (State::Free, None));
    seen.kept = Ok(kept(&["PIT_REINJ", "SEV"], &["IRQWIN"], false));
    assert_eq!(named(&seen), [what]);
    let inhibited = of(&seen, what);
    assert_eq!((inhibited.per_second, inhibited.share), (Some(1800.0), Some(0.015)));
    assert!(inhibited.found.contains("inhibited: PIT_REINJ, SEV"), "{inhibited:?}");
    assert!(inhibited.mend.contains("lost_tick_policy=discard; no line"), "{inhibited:?}");
    seen.kept = Ok(Kept { changes: 50, ..kept(&[], &["IRQWIN"], false) });
    assert!(of(&seen, what).found.contains("at times inhibited: IRQWIN, with 25 changes a second"));
}

#[test]
fn a_processor_without_avic_is_no_free_one_and_a_switch_that_is_off_is_named() {
    let what = "AVIC or APICv";
    let mut seen = seen("host", vec![exits(Cause::Eoi, "X2APIC_EOI", 2000, SECOND / 100)]);
    seen.host = host("flags : svm\n", false);
    seen.kept = Ok(kept(&["DISABLED"], &[], false));
    let absent = of(&seen, what);
    assert_eq!((absent.state, absent.per_second), (State::Absent, Some(1000.0)));
    assert!(absent.found.starts_with("the processor has no AVIC (KVM: DISABLED): exits"));
    assert!(absent.mend.is_empty(), "{absent:?}");
    seen.host = host("flags : svm avic\n", false);
    assert!(of(&seen, what).mend.contains("modprobe kvm_amd avic=1"));
    seen.host = host("flags : vmx\nvmx flags : apicv\n", false);
    assert_eq!(of(&seen, what).state, State::Unknown);
}

/// Without BTF.
#[test]
fn avic_s_own_exits_tell_that_it_is_in_use() {
    let ipi = Kind { cause: Cause::Ipi, reason: "avic_incomplete_ipi".into(), about: None };
    let spent = Spent { count: 5, ..Spent::default() };
    let mut seen = seen("host", vec![Exits { vcpu: 0, kind: ipi, spent }]);
    seen.kept = Ok(Kept::default());
    assert_eq!(of(&seen, "AVIC or APICv").state, State::Free);
    seen.vm.exits.clear();
    assert_eq!(of(&seen, "AVIC or APICv").state, State::Unknown);
}

#[test]
fn who_reads_kvm_clock_is_unknown_and_writing_it_costs() {
    let of = |cpu: &str, kept: Kept| {
        let mut seen = seen(cpu, Vec::new());
        seen.kept = Ok(kept);
        let cost = of(&seen, "kvm-clock");
        (cost.state, cost.found, cost.mend)
    };
    let written = |writes| Kept { writes, ..kept(&[], &[], true) };
    assert_eq!(of("host,-kvmclock", written(0)).0, State::Free);
    assert_eq!(of("host", kept(&[], &[], false)).0, State::Free);
    assert_eq!(of("host", Kept::default()).0, State::Unknown);
    let (state, found, mend) = of("host,migratable=off", written(1));
    assert!(state == State::Unknown && found.contains("0.5 times a second"), "{found}");
    assert!(found.contains("no host sees") && mend.contains("echo tsc >"), "{found} {mend}");
    let (_, found, mend) = of("host", written(1));
    assert!(found.contains("the guest's is not invariant") && mend.contains("+invtsc"), "{mend}");
    assert_eq!(of("host", written(4000)).0, State::Costs);
}
