// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use crate::{
    cause::Cause,
    noise::{Class, Clock, Instant, Knob, TscOffset},
};
use proptest::prelude::*;

/// One ns is one tick, and the guest began `BOOT` ns after its host.
const BOOT: u64 = 5_000_000_000;
const PROCESS: u32 = 77;

fn clock(tsc: u64) -> Clock {
    let at = |ns: u64| Instant { tsc: tsc + ns, ns };
    Clock { begin: at(0), end: at(1_000_000_000) }
}

fn absence(begin_ns: u64, parts: [u64; 5]) -> Absence {
    let [kvm_ns, vmm_ns, blocked_ns, waited_ns, interrupted_ns] = parts;
    Absence {
        process: PROCESS,
        vcpu: 0,
        begin_ns: begin_ns + BOOT,
        ns: parts.iter().sum(),
        kvm_ns,
        vmm_ns,
        blocked_ns,
        waited_ns,
        interrupted_ns,
        cause: Cause::Arm,
        reason: "MSR".into(),
        about: None,
        tick: false,
        class: if vmm_ns > 0 { Class::Heavy } else { Class::Light },
        exit_cpu: 1,
        entry_cpu: 1,
        held: false,
        audited: false,
        taker: (waited_ns > 0).then(|| "kworker/1:1".into()),
    }
}

fn host(absences: Vec<Absence>) -> HostNoise {
    let offset = TscOffset { process: PROCESS, vcpu: 0, offset: -(BOOT as i64) };
    HostNoise::whole(clock(0), vec![offset], absences)
}

fn gap(begin_ns: u64, ns: u64, disturbances: Vec<Disturbance>) -> Gap {
    let interference = disturbances.len() as u32;
    Gap {
        cpu: 0,
        begin_ns,
        ns,
        written_ns: 0,
        interference,
        disturbances,
        told: None,
        stolen_ns: None,
    }
}

fn disturbed(kind: Kind, begin_ns: u64, end_ns: u64) -> Disturbance {
    Disturbance { kind, name: kind.to_string(), begin_ns, end_ns }
}

fn sampled(gaps: Vec<Gap>) -> GuestNoise {
    GuestNoise { clock: clock(0), begin_ns: 0, end_ns: 1_000_000_000, program: None, gaps }
}

fn account(gaps: Vec<Gap>, absences: Vec<Absence>) -> Ledger {
    let guest = sampled(gaps);
    ledger(&guest, Some((&host(absences), PROCESS)))
}

#[test]
fn a_gap_is_what_the_host_says_of_it() {
    let gaps = vec![gap(10_000, 20_000, vec![])];
    let book = account(gaps, vec![absence(11_000, [3_000, 4_000, 0, 9_000, 2_000])]);
    let Entry { parts, unknown_to_guest, events, .. } = &book.entries[0];
    let expected = Parts {
        kvm: 3_000,
        vmm: 4_000,
        waited: 9_000,
        interrupted: 2_000,
        rest: 2_000,
        ..Parts::default()
    };
    assert_eq!((parts, *unknown_to_guest), (&expected, true));
    let names: Vec<String> = events.iter().map(|event| event.source.to_string()).collect();
    let expected = [
        "exit: arm (MSR)",
        "VMM: arm (MSR)",
        "preempted by kworker/1:1",
        "switches between contexts",
    ];
    assert_eq!(names, expected);
    assert_eq!(book.unexplained(), 0);
}

/// An exit and a tick came while osnoise wrote of the gap before.
#[test]
fn what_came_while_osnoise_wrote_is_in_the_next_gap() {
    let came = vec![disturbed(Kind::Irq, 16_500, 18_500)];
    let away = || vec![absence(11_000, [5_000, 0, 0, 0, 0])];
    let written = Gap { written_ns: 2_500, ..gap(12_500, 8_008, came) };
    let book = account(vec![written.clone()], away());
    let Parts { kvm, irq, rest, .. } = book.entries[0].parts;
    assert_eq!((kvm, irq, rest, book.unexplained()), (5_000, 2_000, 1_008, 0));
    // What does not fit into it came before.
    let book = account(vec![Gap { ns: 6_900, ..written }], away());
    let Parts { kvm, irq, rest, .. } = book.entries[0].parts;
    assert_eq!((kvm, irq, rest), (3_500, 2_000, 1_400));
}

fn way_out(name: &str, begin_ns: u64, end_ns: u64) -> Disturbance {
    Disturbance { name: name.into(), ..disturbed(Kind::Irq, begin_ns, end_ns) }
}

/// The kernel knows nothing of them, and takes them for its writing.
#[test]
fn ways_out_while_osnoise_wrote_are_not_in_the_next_gap() {
    let came =
        vec![disturbed(Kind::Irq, 12_000, 12_500), way_out(recording::WAKE_UP, 12_500, 13_800)];
    let gap = Gap { written_ns: 3_800, ..gap(13_800, 2_600, came) };
    let book = account(vec![gap], vec![absence(10_000, [2_000, 0, 0, 0, 0])]);
    let Parts { kvm, irq, rest, .. } = book.entries[0].parts;
    assert_eq!((kvm, irq, rest, book.unexplained()), (2_000, 600, 0, 0));
}

/// They go on where the interrupt ends: nobody needs time to get there.
#[test]
fn ways_out_explain_nothing_but_themselves() {
    let came = vec![
        disturbed(Kind::Irq, 1_000, 3_000),
        way_out(recording::WAKE_UP, 3_000, 4_300),
        way_out(recording::TICK_DEFER_IRQ_EXIT, 4_300, 5_300),
    ];
    let unexplained = |ns| account(vec![gap(0, ns, came.clone())], vec![]).unexplained();
    assert_eq!([6_300, 6_301].map(unexplained), [0, 1]);
}

/// A timer interrupt in which the guest arms its timer, and after which a softirq runs.
#[test]
fn each_moment_belongs_to_one_part() {
    let disturbances = vec![
        disturbed(Kind::Irq, 1_000, 7_000),
        disturbed(Kind::Softirq, 7_000, 9_000),
        disturbed(Kind::Thread, 500, 9_800),
    ];
    let book = account(
        vec![gap(0, 10_000, disturbances)],
        vec![absence(2_000, [3_000, 0, 0, 0, 0]), absence(8_500, [1_000, 0, 0, 0, 0])],
    );
    let expected = Parts {
        kvm: 4_000,
        irq: 3_000,
        softirq: 1_500,
        // Before the interrupt, and after the second exit.
        thread: 500 + 300,
        rest: 700,
        ..Parts::default()
    };
    assert_eq!(book.entries[0].parts, expected);
    assert!(!book.entries[0].unknown_to_guest);
}

#[test]
fn a_stall_that_nobody_saw_is_unexplained() {
    let exit = |at: u64| absence(at + 500, [5_000, 0, 0, 0, 0]);
    let exits = vec![exit(0), exit(20_000), exit(40_000)];
    let gaps = vec![
        gap(0, 6_300, vec![]),
        gap(20_000, 6_300, vec![]),
        gap(40_000, 36_300, vec![]),
        gap(90_000, 300_000, vec![]),
    ];
    let book = account(gaps, exits);
    assert_eq!((book.edges.exit, book.unexplained()), (Some(1_300), 2));
    let last = |entry: usize| book.entries[entry].events.last().cloned().unwrap();
    assert_eq!(last(1), Event { source: Source::Edges, ns: 1_300 });
    assert_eq!(last(2), Event { source: Source::Unexplained, ns: 31_300 });
    assert_eq!(last(3), Event { source: Source::Unexplained, ns: 300_000 });
}

/// The scheduler's look has no length, and is a part of the switch where it found another thread.
#[test]
fn a_scheduler_that_finds_nobody_explains_what_it_usually_takes() {
    let looks = |at: u64| disturbed(Kind::Scheduler, at, at);
    let usual = |begin: u64| gap(begin, 1_500, vec![looks(begin + 700)]);
    let after_irq = vec![disturbed(Kind::Irq, 70_200, 71_000), looks(71_500)];
    let to_thread = vec![disturbed(Kind::Thread, 82_000, 83_000), looks(81_000)];
    let gaps = vec![
        usual(0),
        usual(10_000),
        usual(20_000),
        gap(30_000, 2_900, vec![looks(31_000)]),
        gap(40_000, 3_100, vec![looks(41_000)]),
        gap(50_000, 1_500, vec![]),
        gap(70_000, 3_800, after_irq),
        gap(80_000, 5_000, to_thread),
    ];
    let book = account(gaps, vec![]);
    assert_eq!(book.edges.scheduler, Some(1_500));
    let unexplained: Vec<u64> = book
        .entries
        .iter()
        .filter(|entry| entry.events.iter().any(|event| event.source == Source::Unexplained))
        .map(|entry| entry.begin_ns)
        .collect();
    assert_eq!(unexplained, [40_000, 50_000]);
    let sources = |entry: usize| book.entries[entry].events.len();
    assert_eq!((sources(0), sources(6), sources(7)), (2, 3, 2));
}

/// As in kernels with PREEMPT_RT, where interrupts leave their work to threads.
#[test]
fn threads_that_never_come_alone_are_measured_with_what_comes_with_them() {
    let with_irq = |begin: u64, length: u64| {
        let irq = disturbed(Kind::Irq, begin + 1_000, begin + 2_000);
        gap(begin, length, vec![irq, disturbed(Kind::Thread, begin + 5_000, begin + 7_000)])
    };
    let gaps = vec![
        with_irq(0, 9_000),
        with_irq(20_000, 9_000),
        with_irq(40_000, 9_900),
        with_irq(60_000, 60_000),
    ];
    let book = account(gaps, vec![]);
    // Of what is nobody's, 1 us may be the interrupt's.
    assert_eq!((book.edges.thread, book.unexplained()), (Some(5_900), 1));
    let last = book.entries[3].events.last().cloned().unwrap();
    assert_eq!(last, Event { source: Source::Unexplained, ns: 57_000 });
}

/// As where each exit brings a virtual tick.
#[test]
fn exits_that_never_come_alone_are_measured_with_what_comes_with_them() {
    let irq = |begin: u64| disturbed(Kind::Irq, begin + 6_000, begin + 7_000);
    let ticks = [0, 20_000, 40_000];
    let twice = 60_000;
    let mut gaps: Vec<Gap> = ticks.map(|begin| gap(begin, 8_500, vec![irq(begin)])).into();
    gaps.push(gap(twice, 12_100, vec![irq(twice)]));
    let exit = |begin: u64| absence(begin, [5_000, 0, 0, 0, 0]);
    let mut absences: Vec<Absence> = ticks.map(|begin| exit(begin + 500)).into();
    absences.extend([exit(twice + 500), absence(twice + 8_000, [2_000, 0, 0, 0, 0])]);
    let book = account(gaps, absences);
    // Of the 2.5 us that are nobody's, 1 us may be the interrupt's; of two exits, 4.1 us are.
    assert_eq!(book.entries[3].parts.rest, 4_100);
    assert_eq!((book.edges.exit, book.unexplained()), (Some(1_500), 0));
}

#[test]
fn without_a_host_the_guest_s_own_noise_is_known() {
    let guest = sampled(vec![gap(0, 9_000, vec![disturbed(Kind::Irq, 300, 8_300)])]);
    let book = ledger(&guest, None);
    assert_eq!((book.entries[0].parts.irq, book.entries[0].parts.rest), (8_000, 1_000));
    let last = book.entries[0].events.last();
    assert_eq!(last.map(|event| &event.source), Some(&Source::Outside));
    assert_eq!(book.unexplained(), 0);
}

/// A tick of the guest's in which it arms its timer, with a softirq after it.
fn told() -> (Gap, Told) {
    let disturbances = vec![
        disturbed(Kind::Irq, 4_000, 10_000),
        Disturbance { name: "ipi".into(), ..disturbed(Kind::Irq, 14_000, 16_000) },
        disturbed(Kind::Softirq, 10_000, 11_000),
    ];
    let exits = Exits { light: 2, heavy: 1, arms: 1, expiries: 1, ..Exits::default() };
    let parts = Parts {
        irq: 4_000,
        softirq: 1_000,
        kvm: 5_000,
        interrupted: 3_000,
        vmm: 2_000,
        waited: 3_000,
        rest: 2_000,
        ..Parts::default()
    };
    (gap(0, 20_000, disturbances), Told { exits, parts })
}

#[test]
fn without_a_host_the_guest_s_kernel_says_what_it_was_told() {
    let (gap, told) = told();
    let guest = sampled(vec![Gap { told: Some(told), ..gap }]);
    let book = ledger(&guest, None);
    let entry = &book.entries[0];
    assert_eq!((entry.parts, entry.exits), (told.parts, Some(told.exits)));
    assert_eq!(book.exits().map(|exits| exits.all()), Some(3));
    let events: Vec<(String, u64)> =
        entry.events.iter().map(|event| (event.source.to_string(), event.ns)).collect();
    // The two interrupts were 6000 and 2000 long, of which the host took half.
    let expected = [
        ("exits: arm + expiry + other", 8_000),
        ("VMM", 2_000),
        ("steal", 3_000),
        ("guest's irq: irq", 3_000),
        ("guest's softirq: softirq", 1_000),
        ("guest's irq: ipi", 1_000),
        ("switches between contexts", 2_000),
    ];
    assert_eq!(events, expected.map(|(name, ns)| (name.to_string(), ns)));
    assert_eq!(book.unexplained(), 0);
}

/// Steal is in what nobody else has, and else in the longest, which the vCPU was away from.
#[test]
fn without_a_host_the_guest_s_own_clock_tells_of_steal() {
    let came =
        || vec![disturbed(Kind::Irq, 11_000, 12_000), disturbed(Kind::Thread, 13_000, 23_000)];
    let of = |stolen_ns| {
        let book = ledger(&sampled(vec![Gap { stolen_ns, ..gap(10_000, 16_000, came()) }]), None);
        let Parts { irq, thread, waited, rest, .. } = book.entries[0].parts;
        let events: u64 = book.entries[0].events.iter().map(|event| event.ns).sum();
        assert_eq!((events, book.has_steal), (16_000, stolen_ns.is_some()));
        [irq, thread, waited, rest]
    };
    assert_eq!(of(None), [1_000, 10_000, 0, 5_000]);
    assert_eq!(of(Some(0)), [1_000, 10_000, 0, 5_000]);
    assert_eq!(of(Some(3_000)), [1_000, 10_000, 3_000, 2_000]);
    assert_eq!(of(Some(9_000)), [1_000, 6_000, 9_000, 0]);
    assert_eq!(of(Some(99_000)), [0, 0, 16_000, 0]);
    // What a host saw is more.
    let guest = |stolen_ns| sampled(vec![Gap { stolen_ns, ..gap(10_000, 16_000, came()) }]);
    let seen = host(vec![absence(13_500, [1_000, 0, 0, 4_000, 0])]);
    let with = |guest| ledger(&guest, Some((&seen, PROCESS)));
    assert_eq!(with(guest(Some(9_000))), with(guest(None)));
}

/// What a host saw is more.
#[test]
fn with_a_host_nothing_is_taken_from_what_it_told() {
    let (gap, told) = told();
    let seen = host(vec![absence(500, [3_000, 0, 0, 0, 0])]);
    let with = |told| {
        let guest = sampled(vec![Gap { told, ..gap.clone() }]);
        ledger(&guest, Some((&seen, PROCESS)))
    };
    assert_eq!(with(Some(told)), with(None));
}

fn told_of(light: u64, kvm: u64, rest: u64) -> Option<Told> {
    let exits = Exits { light, ..Exits::default() };
    Some(Told { exits, parts: Parts { kvm, rest, ..Parts::default() } })
}

/// As AMD names it: all but its last microsecond is before `kvm_exit`.
fn nmi(begin_ns: u64) -> Absence {
    Absence { cause: Cause::Other, reason: "nmi".into(), ..absence(begin_ns, [1_000, 0, 0, 0, 0]) }
}

fn of_nmis(entry: &Entry) -> u64 {
    let of_nmis = entry.events.iter().filter(|event| is_nmi(&event.source));
    of_nmis.map(|event| event.ns).sum()
}

#[test]
fn an_nmi_of_the_host_s_is_what_the_guest_s_kernel_was_told() {
    let gap = gap(0, 310_000, vec![]);
    let account = |told, absences| account(vec![Gap { told, ..gap.clone() }], absences);
    assert_eq!(account(None, vec![nmi(307_000)]).unexplained(), 1);
    let book = account(told_of(1, 308_500, 1_500), vec![nmi(307_000)]);
    assert_eq!((of_nmis(&book.entries[0]), book.unexplained()), (308_500, 0));
    // With an exit beside it.
    let two = || vec![absence(1_000, [3_000, 0, 0, 0, 0]), nmi(307_000)];
    let book = account(told_of(2, 308_500, 1_500), two());
    assert_eq!((of_nmis(&book.entries[0]), book.unexplained()), (305_500, 0));
    // With a way out of an interrupt, which the record does not tell apart.
    let irq = disturbed(Kind::Irq, 1_000, 2_000);
    let came = vec![irq, way_out(recording::WAKE_UP, 2_000, 8_000)];
    let parts = Parts { irq: 1_000, kvm: 301_000, rest: 8_000, ..Parts::default() };
    let told = Some(Told { parts, ..told_of(1, 0, 0).unwrap() });
    let with_way_out = Gap { told, disturbances: came, ..gap.clone() };
    let book =
        super::ledger(&sampled(vec![with_way_out]), Some((&host(vec![nmi(307_000)]), PROCESS)));
    assert_eq!((of_nmis(&book.entries[0]), book.unexplained()), (301_000, 0));
    // The record is of other exits, and a part of it may be older than the gap.
    assert_eq!(account(told_of(3, 308_500, 1_500), two()).unexplained(), 1);
    // Which of two NMIs it was, nobody knows.
    let twice = vec![nmi(200_000), nmi(307_000)];
    assert_eq!(account(told_of(2, 308_500, 1_500), twice).unexplained(), 1);
    // What else an exit may be before its tracepoint, nobody knows.
    let exit = absence(305_000, [3_000, 0, 0, 0, 0]);
    assert_eq!(account(told_of(1, 308_500, 1_500), vec![exit]).unexplained(), 1);
}

/// The record says that it is nobody's.
#[test]
fn a_stall_in_the_guest_beside_an_nmi_of_the_host_s_is_found() {
    let account = |gap: Gap, told, absences| account(vec![Gap { told, ..gap }], absences);
    let alone = account(gap(0, 310_000, vec![]), told_of(1, 208_500, 101_500), vec![nmi(307_000)]);
    let last = alone.entries[0].events.last();
    assert_eq!(last, Some(&Event { source: Source::Unexplained, ns: 101_500 }));
    // The NMI came in a handler of the guest's, which is longer for that.
    let handler = gap(0, 405_000, vec![disturbed(Kind::Irq, 1_000, 374_000)]);
    let book = account(handler, told_of(1, 372_000, 32_000), vec![nmi(371_500)]);
    assert_eq!((of_nmis(&book.entries[0]), book.unexplained()), (1_000, 1));
    // It was preempted before.
    let parts = Parts { kvm: 3_000, waited: 305_500, rest: 1_500, ..Parts::default() };
    let told = Some(Told { parts, ..told_of(1, 0, 0).unwrap() });
    let book = account(gap(0, 310_000, vec![]), told, vec![nmi(307_000)]);
    assert_eq!((of_nmis(&book.entries[0]), book.unexplained()), (3_000, 1));
}

#[test]
fn nmis_of_the_host_s_do_not_tell_what_exits_usually_take() {
    let begins = [0, 1_000_000, 2_000_000, 3_000_000];
    let told = told_of(1, 308_500, 1_500);
    let gaps = begins.map(|begin| Gap { told, ..gap(begin, 310_000, vec![]) });
    let nmis = begins.map(|begin| nmi(begin + 307_000));
    let book = account(gaps.into(), nmis.into());
    assert_eq!((book.edges.exit, book.unexplained()), (None, 0));
    assert!(book.entries.iter().all(|entry| of_nmis(entry) == 308_500));
}

/// The guest was moved from a host that tells to one that does not, or osnoise lost the record.
#[test]
fn gaps_of_which_nothing_was_told_are_outside_of_the_guest_and_others_are_unexplained() {
    let rest = |rest| Told { parts: Parts { rest, ..Parts::default() }, ..Told::default() };
    let silent = gap(0, 9_000, vec![]);
    let stall = Gap { told: Some(rest(9_000)), ..gap(20_000, 9_000, vec![]) };
    let book = ledger(&sampled(vec![silent, stall]), None);
    let sources: Vec<&Source> =
        book.entries.iter().map(|entry| &entry.events.last().unwrap().source).collect();
    assert_eq!(sources, [&Source::Outside, &Source::Unexplained]);
}

/// What comes on the way out of an interrupt is not always ended by what ends the interrupt.
#[test]
fn ways_out_have_knobs_of_their_own() {
    let way_out = |name: &str| Source::Guest { kind: Kind::Irq, name: name.into() };
    assert_eq!(way_out(recording::TICK_DEFER_IRQ_EXIT).knob(), Some(Knob::GuestTicks));
    assert_eq!(way_out(recording::WAKE_UP).knob(), None);
    // A thread may have this name.
    let thread = Source::Guest { kind: Kind::Thread, name: recording::WAKE_UP.into() };
    assert_eq!(thread.knob(), Some(Knob::GuestThreads));
    assert_eq!(way_out(recording::TICK_NOHZ_IRQ_EXIT).knob(), None);
}

/// What is sent to a CPU, or works for what runs there, is not ended by a list of CPUs.
#[test]
fn only_what_may_go_elsewhere_is_told_to() {
    let guest = |kind, name: &str| Source::Guest { kind, name: name.into() }.knob();
    assert_eq!(guest(Kind::Thread, "chores"), Some(Knob::GuestThreads));
    assert_eq!(guest(Kind::Thread, "kworker/u9:2"), Some(Knob::GuestThreads));
    assert_eq!(guest(Kind::Thread, "kworker/1:2H"), None);
    assert_eq!(guest(Kind::Thread, "ksoftirqd/1"), None);
    assert_eq!(guest(Kind::Irq, "virtio0-requests"), Some(Knob::GuestInterrupts));
    assert_eq!(guest(Kind::Irq, "reschedule"), None);
    assert_eq!(guest(Kind::Irq, "call_function_si"), None);
    assert_eq!(guest(Kind::Softirq, "RCU"), None);
    let preempted = |by: &str| Source::Preempted { by: by.into() };
    assert_eq!(preempted("kworker/u9:2").knob(), Some(Knob::HostWorkers));
    assert!(preempted("kworker/u9:2").alternative().is_some());
    assert_eq!(preempted("kworker/1:2").knob(), None);
    assert_eq!(preempted("kworker/1:2").alternative(), None);
    assert_eq!(preempted("migration/1").knob(), None);
    assert_eq!(preempted("make").knob(), Some(Knob::HostTasks));
}

#[test]
fn a_clock_that_programs_read_has_no_knob_and_other_timers_are_not_of_the_series() {
    let exit = |cause, reason: &str| Source::Exit { cause, reason: reason.into(), tick: true };
    let vmm = |cause, reason: &str| Source::Vmm { cause, reason: reason.into() };
    assert_eq!(exit(Cause::Clock, "RTC, port 0x71").knob(), None);
    assert_eq!(vmm(Cause::Clock, "RTC, port 0x71").knob(), None);
    assert_eq!(exit(Cause::Io, "RTC, port 0x71").knob(), None, "a PC's settings");
    assert_eq!(exit(Cause::Eoi, "RTC, port 0x71").knob(), Some(Knob::GuestClock));
    assert_eq!(vmm(Cause::Clock, "HPET, 0xfed000f0").knob(), Some(Knob::GuestClock));
    assert!(exit(Cause::Arm, "TSC_DEADLINE").alternative().is_some());
    let hyperv = exit(Cause::Expiry, "stimer_timer_callback");
    assert_eq!((hyperv.knob(), hyperv.alternative()), (Some(Knob::GuestTicks), None));
}

#[test]
fn exits_have_a_knob_if_one_ends_all_of_them() {
    let exits = |causes: &[Cause]| Source::Exits { causes: causes.to_vec() };
    let timer = exits(&[Cause::Arm, Cause::Expiry]);
    assert_eq!(timer.knob(), Some(Knob::GuestTicks));
    assert!(timer.alternative().is_some());
    assert_eq!(exits(&[Cause::HostTick]).knob(), Some(Knob::HostTicks));
    assert_eq!(exits(&[Cause::Arm, Cause::HostTick]).knob(), None);
    assert_eq!(exits(&[Cause::HostTick, Cause::Other]).knob(), None);
    assert_eq!(Source::Away { place: Place::Steal }.knob(), Some(Knob::HostTasks));
}

#[test]
fn sources_are_ranked_by_what_they_cost() {
    let book = account(
        vec![gap(0, 20_000, vec![disturbed(Kind::Irq, 10_000, 19_000)])],
        vec![absence(100, [4_000, 0, 0, 2_000, 0]), absence(7_000, [1_000, 0, 0, 0, 0])],
    );
    let events = book.entries.iter().flat_map(|entry| &entry.events);
    let ranks = super::super::by_source(events.map(|event| (event.source.clone(), event.ns)));
    let told: Vec<(String, u64, u64, u64)> = ranks
        .iter()
        .map(|rank| (rank.source.to_string(), rank.count, rank.total_ns, rank.longest_ns))
        .collect();
    assert_eq!(told[0], ("guest's irq: irq".into(), 1, 9_000, 9_000));
    assert_eq!(told[1], ("exit: arm (MSR)".into(), 2, 5_000, 4_000));
    let total: u64 = ranks.iter().map(|rank| rank.total_ns).sum();
    assert_eq!(total, book.noise_ns());
}

/// A switch to a thread and back takes longer than an exit does, and is usual all the same.
#[test]
fn what_is_usual_is_measured_for_each_kind_of_event() {
    let thread = |at: u64| gap(at, 9_000, vec![disturbed(Kind::Thread, at + 1_000, at + 4_500)]);
    let book = account(vec![thread(0), thread(20_000), thread(40_000)], vec![]);
    assert_eq!((book.edges.thread, book.edges.exit), (Some(5_500), None));
    assert_eq!(book.unexplained(), 0);
    // Two of them tell nothing.
    let book = account(vec![thread(0), thread(20_000)], vec![]);
    assert_eq!((book.edges.thread, book.unexplained()), (None, 2));
}

#[test]
fn whoever_starts_and_ends_a_recording_is_cut_off() {
    let gaps = [0, 90_000, 100_000, 195_000, 300_000].map(|at| gap(at, 10_000, vec![]));
    let noise = sampled(gaps.to_vec()).cut(100_000, 100_000);
    let left: Vec<u64> = noise.gaps.iter().map(|gap| gap.begin_ns).collect();
    // One that began within it is whole.
    assert_eq!((left, noise.begin_ns, noise.end_ns), (vec![100_000, 195_000], 100_000, 200_000));
    let all = sampled(vec![]).cut(5, u64::MAX);
    assert_eq!((all.begin_ns, all.end_ns), (5, 1_000_000_000));
}

proptest! {
    /// Whatever overlaps whatever, and however far the clocks are off.
    #[test]
    fn parts_and_events_add_up_to_the_gap(
        length in 1_000u64..50_000,
        away in prop::collection::vec((0u64..5_000, prop::array::uniform5(0u64..4_000)), 0..5),
        disturbances in prop::collection::vec((0usize..4, 0u64..60_000, 0u64..20_000), 0..6),
        written_ns in 0u64..5_000,
        kvm in 0u64..50_000,
    ) {
        let mut at = 0;
        let mut absences = Vec::new();
        for (pause, parts) in away {
            // One of three is for an NMI.
            let reason = if pause % 3 == 0 { "nmi" } else { "MSR" }.to_string();
            absences.push(Absence { reason, ..absence(at + pause, parts) });
            at += pause + parts.iter().sum::<u64>();
        }
        let kinds = [Kind::Nmi, Kind::Irq, Kind::Softirq, Kind::Thread];
        let disturbances = disturbances
            .into_iter()
            .map(|(kind, begin, ns)| disturbed(kinds[kind], begin, begin + ns))
            .collect();
        // Half of the time nothing was told.
        let told = told_of(1, kvm, 0).filter(|_| kvm % 2 == 0);
        let gap = Gap { written_ns, told, ..gap(3_000, length, disturbances) };
        let book = account(vec![gap], absences);
        let entry = &book.entries[0];
        prop_assert_eq!(entry.parts.sum(), length);
        prop_assert_eq!(entry.events.iter().map(|event| event.ns).sum::<u64>(), length);
    }

    /// Whatever the guest's kernel was told, and whatever it knows itself.
    #[test]
    fn what_was_told_and_its_events_add_up_to_the_gap(
        parts in prop::array::uniform9(0u64..9_000),
        disturbances in prop::collection::vec((0usize..6, 0u64..60_000, 0u64..20_000), 0..6),
        stolen_ns in prop::option::of(0u64..90_000),
    ) {
        let [nmi, irq, softirq, thread, kvm, vmm, blocked, waited, rest] = parts;
        let parts = Parts {
            nmi, irq, softirq, thread, kvm, vmm, blocked, waited, rest, interrupted: 0,
        };
        let kinds =
            [Kind::Nmi, Kind::Irq, Kind::Softirq, Kind::Thread, Kind::Scheduler, Kind::Irq];
        let disturbances = disturbances
            .into_iter()
            .map(|(kind, begin, ns)| match kind {
                4 => disturbed(kinds[kind], begin, begin),
                5 => way_out(TICK_NOHZ_IRQ_EXIT, begin, begin + ns),
                _ => disturbed(kinds[kind], begin, begin + ns),
            })
            .collect();
        let told = Some(Told { exits: Exits { light: 1, ..Exits::default() }, parts });
        // Half of the time nothing was told, but there is a clock of steal.
        let told = told.filter(|_| nmi % 2 == 0);
        let gap = Gap { told, stolen_ns, ..gap(3_000, parts.sum(), disturbances) };
        let guest = sampled(vec![gap]);
        let entry = &ledger(&guest, None).entries[0];
        prop_assert_eq!(entry.parts.sum(), parts.sum());
        prop_assert_eq!(entry.events.iter().map(|event| event.ns).sum::<u64>(), parts.sum());
    }
}
