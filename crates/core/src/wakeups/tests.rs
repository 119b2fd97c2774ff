// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use crate::{
    cause::Cause,
    noise::{self, Absence, Clock, HostNoise, Instant, TscOffset},
};
use proptest::prelude::*;

const PROCESS: u32 = 7;
const END: u64 = 1_000_000_000;

fn clock() -> Clock {
    let at = |ns| Instant { tsc: ns, ns };
    Clock { begin: at(0), end: at(END) }
}

pub(super) fn guest(events: impl IntoIterator<Item = (u32, u64, What)>) -> GuestWakeups {
    let event = |(cpu, at_ns, what)| Event { cpu, at_ns, what };
    let mut events: Vec<Event> = events.into_iter().map(event).collect();
    events.sort_by_key(|event| event.at_ns);
    GuestWakeups {
        clock: clock(),
        begin_ns: 0,
        end_ns: END,
        cpus: 2,
        online: Vec::new(),
        jiffies: None,
        damon_stat: false,
        events,
    }
}

fn host(absences: Vec<Absence>) -> HostNoise {
    let offset = |vcpu| TscOffset { process: PROCESS, vcpu, offset: 0 };
    HostNoise::whole(clock(), vec![offset(0), offset(1)], absences)
}

fn exit(vcpu: u32, begin_ns: u64, ns: u64, cause: Cause) -> Absence {
    let halts = cause == Cause::Halt;
    Absence {
        process: PROCESS,
        vcpu,
        begin_ns,
        ns,
        kvm_ns: if halts { 0 } else { ns },
        vmm_ns: 0,
        blocked_ns: if halts { ns } else { 0 },
        waited_ns: 0,
        interrupted_ns: 0,
        cause,
        reason: "any".into(),
        about: None,
        tick: false,
        class: if halts { noise::Class::Halt } else { noise::Class::Light },
        exit_cpu: 0,
        entry_cpu: 0,
        held: false,
        audited: false,
        taker: None,
    }
}

fn timer(function: &str, process: Option<(u32, &str)>) -> Timer {
    let process =
        process.map(|(pid, name)| Process { pid: Some(pid), name: name.into(), unit: None });
    Timer { function: function.into(), class: Class::Hard, process, start: None }
}

fn expiry(timer: &Timer) -> What {
    What::Expiry { timer: timer.clone(), late: None, wheel: None }
}

fn irq(irq: Irq) -> What {
    What::Irq { irq }
}

/// CPU 0 sleeps until 1 ms, and is woken by `what`, 1 us apart, to sleep again from 2 ms on.
fn woken_by(what: impl IntoIterator<Item = What>) -> Source {
    let absences = vec![
        exit(0, 0, 1_000_000, Cause::Halt),
        exit(0, 1_500_000, 1_000, Cause::Arm),
        exit(0, 2_000_000, 500_000_000, Cause::Halt),
    ];
    let events = what.into_iter().enumerate();
    let events = events.map(|(place, what)| (0, 1_001_000 + 1_000 * place as u64, what));
    let mut rounds = rounds(&guest(events), Some((&host(absences), PROCESS)));
    rounds.retain(|round| round.cpu == 0);
    assert_eq!(rounds.len(), 3, "{rounds:?}");
    assert_eq!(rounds[1].exits, [(Cause::Arm, 1), (Cause::Halt, 1)].into());
    rounds[1].source.clone()
}

#[test]
fn a_timer_wakes_where_there_is_one_besides_the_tick() {
    let [tick, mine] = [timer("tick_nohz_handler", None), timer("mine", Some((5, "me")))];
    let of_timer = Source::Timer { timer: mine.clone() };
    assert_eq!(woken_by([irq(Irq::Timer), expiry(&tick), expiry(&mine)]), of_timer);
    assert_eq!(woken_by([irq(Irq::Timer), expiry(&tick)]), Source::Tick);
    assert_eq!(woken_by([irq(Irq::Tick)]), Source::Tick);
    assert_eq!(woken_by([irq(Irq::Timer)]), Source::Interrupt { irq: Irq::Timer });
    assert_eq!(woken_by([]), Source::Nothing);
    // What comes with the next interrupt has woken nobody.
    let device = || What::Device { name: "disk".into() };
    let of_disk = Source::Device { name: "disk".into(), task: None };
    assert_eq!(woken_by([device(), irq(Irq::Timer), expiry(&mine)]), of_disk);
}

#[test]
fn a_deferrable_timer_wakes_nobody() {
    let late = Timer { class: Class::Deferrable, ..timer("late", None) };
    let tick = timer("tick_nohz_handler", None);
    assert_eq!(woken_by([irq(Irq::Timer), expiry(&tick), expiry(&late)]), Source::Tick);
}

#[test]
fn a_work_is_named_in_the_place_of_its_timer() {
    let work = What::Work { function: "refresh".into() };
    let source = woken_by([irq(Irq::Timer), expiry(&timer("delayed_work_timer_fn", None)), work]);
    assert_eq!(source, Source::Timer { timer: timer("refresh", None) });
}

/// A timer of CPU 1 wakes a task there, which wakes one on CPU 0.
#[test]
fn a_wake_up_is_charged_to_who_began_it() {
    let mine = timer("mine", Some((5, "me")));
    let absences = |woken_at: u64| {
        vec![
            exit(0, 0, woken_at + 20_000, Cause::Halt),
            exit(0, woken_at + 30_000, END, Cause::Halt),
            exit(1, 0, 1_000_000, Cause::Halt),
            exit(1, woken_at + 100_000, END, Cause::Halt),
        ]
    };
    let events = |woken_at: u64| {
        guest([
            (1, 1_001_000, irq(Irq::Timer)),
            (1, 1_002_000, expiry(&mine)),
            (1, woken_at, What::Waking { task: 9, by: "me".into() }),
            (0, woken_at + 21_000, irq(Irq::Reschedule)),
            (0, woken_at + 22_000, What::Run { task: 9, name: "other".into() }),
        ])
    };
    let of_cpu_0 = |woken_at: u64| {
        let host = host(absences(woken_at));
        let rounds = rounds(&events(woken_at), Some((&host, PROCESS)));
        rounds.into_iter().find(|round| round.cpu == 0 && round.source != Source::Awake).unwrap()
    };
    let soon = of_cpu_0(1_010_000);
    assert_eq!((soon.source, soon.passed_on), (Source::Timer { timer: mine.clone() }, true));
    // It has run for long, so it does this by itself.
    let late = of_cpu_0(90_000_000);
    assert_eq!((late.source, late.passed_on), (Source::Task { name: "me".into() }, false));
}

#[test]
fn a_guest_alone_is_cut_where_it_becomes_idle() {
    let mine = timer("mine", None);
    let events = [
        (0, 1_000, What::Idle),
        (0, 800_000, irq(Irq::Timer)),
        (0, 801_000, expiry(&mine)),
        (0, 850_000, What::Idle),
    ];
    let guest = guest(events);
    let rounds = rounds(&guest, None);
    let sources: Vec<&Source> = rounds.iter().filter(|r| r.cpu == 0).map(|r| &r.source).collect();
    assert_eq!(sources, [&Source::Awake, &Source::Timer { timer: mine }, &Source::Nothing]);
    assert_eq!(rounds.iter().find(|round| round.begin_ns == 1_000).unwrap().woke_ns, 800_000);
    let sums = summary(&guest, &rounds);
    assert_eq!((sums.idle_entries, sums.timer_events), (2, 1));
    assert_eq!(sums.idle_ns, 799_000 + END - 850_000);
}

#[test]
fn processes_of_one_name_are_one_offender() {
    let of = |pid, at| {
        [(0, at, irq(Irq::Timer)), (0, at + 1, expiry(&timer("wake", Some((pid, "sleep")))))]
    };
    let idle = (1..4).map(|place| (0, place * 1_000, What::Idle));
    let events = of(5, 1_500).into_iter().chain(of(6, 2_500)).chain(idle);
    let found = offenders(&rounds(&guest(events), None));
    let [sleep] = &found.iter().filter(|one| one.expiries > 0).collect::<Vec<_>>()[..] else {
        panic!("{found:?}")
    };
    assert_eq!((sleep.processes, sleep.wakeups, sleep.expiries), (2, 2, 2));
    assert_eq!(sleep.source.process().unwrap().pid, None);
}

/// Every 10 ms, a process that sleeps on one CPU; `others` wake it, too.
fn slept(slack_ns: u64, others: &[u64]) -> Saving {
    let mine = Timer { class: Class::Slack, ..timer("hrtimer_wakeup", Some((5, "sleeper"))) };
    let woken = |at: u64, timer: &Timer| {
        [(0, at, irq(Irq::Timer)), (0, at + 1, expiry(timer)), (0, at + 500_000, What::Idle)]
    };
    let other = timer("other", None);
    let mut events: Vec<(u32, u64, What)> = vec![(0, 1, What::Idle)];
    events.extend((1..100).flat_map(|turn| woken(turn * 10_000_000, &mine)));
    events.extend(others.iter().flat_map(|at| woken(*at, &other)));
    let guest = guest(events);
    with_slack(&guest, &rounds(&guest, None), slack_ns)
}

#[test]
fn with_more_slack_a_sleeper_sleeps_longer() {
    let now = slept(50_000, &[]);
    assert_eq!((now.expiries, now.predicted_expiries), (99, 99));
    assert_eq!(now.processes, ["sleeper".to_string()].into());
    // 9.95 ms of sleep and 10 ms of slack; at the end there is no time for another one.
    let then = slept(10_000_000, &[]);
    assert!((49..=50).contains(&then.predicted_expiries), "{then:?}");
}

#[test]
fn with_slack_a_timer_takes_another_ones_wake_up() {
    // 5 ms after each of its own.
    let others: Vec<u64> = (1..100).map(|turn| turn * 10_000_000 + 5_000_000).collect();
    let then = slept(6_000_000, &others);
    // Each time it is due 0.05 ms before the other one's next wake-up.
    assert!((98..=99).contains(&then.predicted_expiries), "{then:?}");
}

fn any_what() -> impl Strategy<Value = What> {
    prop_oneof![
        Just(What::Idle),
        Just(irq(Irq::Timer)),
        Just(irq(Irq::Reschedule)),
        Just(expiry(&timer("a", None))),
        Just(expiry(&timer("tick_nohz_handler", None))),
        Just(What::Waking { task: 9, by: "me".into() }),
        Just(What::Run { task: 9, name: "other".into() }),
        Just(What::Ipi { to: 0 }),
        Just(What::Device { name: "disk".into() }),
    ]
}

proptest! {
    /// Whatever is recorded: no exit is lost, and none counts twice.
    #[test]
    fn each_exit_is_in_one_round(
        events in proptest::collection::vec((0u32..2, 0..END, any_what()), 0..60),
        exits in proptest::collection::vec(
            (0u32..2, 0..END, 0..20_000_000u64, any::<bool>()),
            0..60,
        ),
        window in (0..END / 2, END / 2..END),
    ) {
        let mut guest = guest(events);
        (guest.begin_ns, guest.end_ns) = window;
        let cause = |halts| if halts { Cause::Halt } else { Cause::Arm };
        let mut free = [0; 2];
        let mut absences: Vec<Absence> = exits
            .into_iter()
            .map(|(vcpu, begin, ns, halts)| exit(vcpu, begin, ns, cause(halts)))
            .collect();
        absences.sort_by_key(|one| one.begin_ns);
        // One at a time.
        absences.retain(|one| {
            let free = &mut free[one.vcpu as usize];
            let fits = one.begin_ns >= *free;
            if fits { *free = one.begin_ns + one.ns + 1 }
            fits
        });
        let within = absences.iter().filter(|one| (window.0..window.1).contains(&one.begin_ns));
        let within = within.count() as u64;
        let host = host(absences);
        let rounds = rounds(&guest, Some((&host, PROCESS)));
        let of_rounds: u64 = rounds.iter().flat_map(|round| round.exits.values()).sum();
        prop_assert_eq!(of_rounds, within);
        let of_offenders: u64 = offenders(&rounds).iter().map(Offender::all_exits).sum();
        prop_assert_eq!(of_offenders, within);
        prop_assert_eq!(summary(&guest, &rounds).all_exits(), within);
    }
}
