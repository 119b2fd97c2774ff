// SPDX-License-Identifier: GPL-2.0-only
use super::{
    gather::{gather, jiffies, start, Starts},
    raw::{
        Wake, WAKE_HRTIMER, WAKE_IDLE, WAKE_IRQ, WAKE_IRQ_TICK, WAKE_SET, WAKE_WHEEL,
        WHEEL_DEFERRABLE, WHEEL_PINNED,
    },
};
use crate::symbols::Symbols;
use paratick_core::wakeups::{Class, Event, Irq, Jiffies, Late, Process, Timer, What, Wheel};

fn wake(kind: u32, at_ns: u64) -> Wake {
    // SAFETY: plain numbers.
    Wake { kind, at_ns, ..unsafe { std::mem::zeroed() } }
}

fn none() -> Symbols {
    Symbols::parse(&b""[..]).unwrap()
}

fn timers(records: &[Wake]) -> Vec<Timer> {
    let symbols = Symbols::parse(&b"ffffffff81000000 t mine\n"[..]).unwrap();
    let timer = |event: Event| match event.what {
        What::Expiry { timer, .. } => timer,
        other => panic!("{other:?}"),
    };
    gather(records, &Starts::new(), &symbols).into_iter().map(timer).collect()
}

fn wheel(at_ns: u64, now: u64, expires: u64) -> Wake {
    let function = 0xffff_ffff_8100_0000;
    Wake { function, now, expires, known: 1, timer: now, ..wake(WAKE_WHEEL, at_ns) }
}

#[test]
fn a_timer_of_the_wheel_is_rounded_if_it_is_due_on_a_full_second() {
    // 250 jiffies a second; CPU 2's are six earlier.
    let mut all =
        [wheel(0, 1_000, 999), wheel(1_000_000_000, 1_250, 1_250), wheel(2, 1_494, 1_494)];
    all[2] = Wake { cpu: 2, at_ns: 1_976_000_000, ..all[2] };
    let classes: Vec<Class> = timers(&all).iter().map(|timer| timer.class).collect();
    assert_eq!(classes, [Class::Hard, Class::Rounded, Class::Rounded]);
    let late = Wake { flags: WHEEL_DEFERRABLE, ..all[1] };
    assert_eq!(timers(&[late])[0].class, Class::Deferrable);
    assert_eq!(timers(&[late])[0].function, "mine");
}

#[test]
fn jiffies_begin_where_the_earliest_timer_expires() {
    // The first is late by 3 us, the second by 1 us.
    let all = [wheel(5_003_000, 1_000, 999), wheel(1_005_001_000, 1_250, 1_250)];
    assert_eq!(jiffies(&all), Some(Jiffies { hz: 250, second_ns: 5_001_000 }));
    assert_eq!(jiffies(&all[..1]), None);
}

#[test]
fn lateness_is_in_jiffies_of_the_wheel_and_else_in_ns() {
    let late = |records: &[Wake]| -> Vec<Option<Late>> {
        let of = |event: Event| match event.what {
            What::Expiry { late, .. } => late,
            other => panic!("{other:?}"),
        };
        gather(records, &Starts::new(), &none()).into_iter().map(of).collect()
    };
    // 250 jiffies a second.
    let begin = wheel(0, 1_000, 999);
    let end = Wake { bucket: 1_252, ..wheel(1_000_000_000, 1_250, 1_248) };
    let [early, of_wheel] = [(4_000_000, None), (8_000_000, Some(16_000_000))]
        .map(|(ns, allowed_ns)| Some(Late { ns, allowed_ns }));
    assert_eq!(late(&[begin, end]), [early, of_wheel]);
    let deferrable = Wake { flags: WHEEL_DEFERRABLE, ..end };
    assert_eq!(late(&[begin, deferrable])[1].unwrap().allowed_ns, None);
    let high = Wake { known: 1, now: 90, expires: 100, slack_ns: 5, ..wake(WAKE_HRTIMER, 3) };
    assert_eq!(late(&[high]), [Some(Late { ns: -10, allowed_ns: Some(5) })]);
    assert_eq!(late(&[Wake { known: 0, ..high }]), [None]);
}

#[test]
fn a_cpu_that_polls_and_then_halts_became_idle_once() {
    let idle = |at_ns, cpu, state| Wake { cpu, number: state, ..wake(WAKE_IDLE, at_ns) };
    let irq = |at_ns| wake(WAKE_IRQ, at_ns);
    let of = |records: &[Wake]| -> Vec<(u32, u64)> {
        let events = gather(records, &Starts::new(), &none());
        let idle = events.iter().filter(|event| event.what == What::Idle);
        idle.map(|event| (event.cpu, event.at_ns)).collect()
    };
    let polls = [idle(1, 0, 0), idle(2, 1, 1), idle(3, 0, 1), idle(4, 0, 1)];
    assert_eq!(of(&polls), [(0, 1), (1, 2), (0, 4)]);
    // An interrupt ended the poll; so did something that is not known of, before another.
    assert_eq!(of(&[idle(1, 0, 0), irq(2), idle(3, 0, 1)]), [(0, 1), (0, 3)]);
    assert_eq!(of(&[idle(1, 0, 0), idle(3, 0, 0), idle(4, 0, 1)]), [(0, 1), (0, 3)]);
}

#[test]
fn a_timer_that_was_started_before_is_known_by_its_next_expiry() {
    let name = |text: &[u8; 8]| u64::from_ne_bytes(*text);
    let known =
        Wake { known: 1, pid: 5, name_low: name(b"sleeper\0"), timer: 3, ..wake(WAKE_HRTIMER, 20) };
    let before = Wake { timer: 3, ..wake(WAKE_HRTIMER, 10) };
    let other = Wake { timer: 4, ..wake(WAKE_HRTIMER, 15) };
    let found = timers(&[before, other, Wake { slack_ns: 50_000, ..known }]);
    let sleeper = Process { pid: Some(5), name: "sleeper".into(), unit: None };
    assert_eq!(found[0].process, Some(sleeper.clone()));
    assert_eq!(found[2].process, Some(sleeper));
    let classes: Vec<Class> = found.iter().map(|timer| timer.class).collect();
    assert_eq!(classes, [Class::Slack, Class::Unknown, Class::Slack]);
}

#[test]
fn workers_of_the_kernel_are_one_and_the_idle_task_is_nobody() {
    let name = |text: &[u8; 8]| u64::from_ne_bytes(*text);
    let worker = Wake { known: 1, pid: 9, name_low: name(b"kworker/"), ..wake(WAKE_HRTIMER, 1) };
    let idle = Wake { known: 1, pid: 0, name_low: name(b"swapper/"), ..wake(WAKE_HRTIMER, 2) };
    let found = timers(&[worker, idle]);
    assert_eq!(found[0].process, Some(Process { pid: None, name: "kworker".into(), unit: None }));
    assert_eq!(found[1].process, None);
}

#[test]
fn a_timer_that_is_set_on_another_cpu_is_due_there_when_its_bucket_is() {
    let set = Wake { flags: 3, expires: 1_010, bucket: 1_016, now: 1_000, ..wake(WAKE_SET, 7) };
    let told = |records: &[Wake]| {
        let found = gather(records, &Starts::new(), &none());
        let set = |event: &&Event| matches!(event.what, What::Set { .. });
        found.iter().find(set).map(|event| event.what.clone())
    };
    // 250 jiffies a second.
    let all = [set, wheel(0, 1_000, 999), wheel(1_000_000_000, 1_250, 1_250)];
    assert_eq!(told(&all), Some(What::Set { on: 3, due_ns: 64_000_007 }));
    // Before Linux 6.4 nobody tells of buckets.
    let old = [Wake { bucket: 0, ..set }, all[1], all[2]];
    assert_eq!(told(&old), Some(What::Set { on: 3, due_ns: 40_000_007 }));
    assert_eq!(told(&[set]), None, "how long a jiffy is, is not known");
}

#[test]
fn a_timer_that_is_not_pinned_may_expire_on_another_cpu_than_its_own() {
    let found = |one| match gather(&[one], &Starts::new(), &none())[0].what {
        What::Expiry { wheel, .. } => wheel,
        ref other => panic!("{other:?}"),
    };
    let on = |cpu, pinned| Some(Wheel { cpu, pinned });
    let one = Wake { cpu: 1, ..wheel(1, 5, 5) };
    assert_eq!(found(Wake { flags: 0x40_0002, ..one }), on(2, false));
    assert_eq!(found(Wake { flags: WHEEL_PINNED | 1, ..one }), on(1, true));
    assert_eq!(found(Wake { flags: WHEEL_DEFERRABLE | 1, ..one }), on(1, true));
    assert_eq!(found(Wake { known: 0, ..one }), None);
    assert_eq!(found(Wake { known: 1, ..wake(WAKE_HRTIMER, 3) }), None);
}

#[test]
fn events_are_in_the_order_of_time() {
    let tick = |at_ns, cpu| Wake { cpu, number: WAKE_IRQ_TICK, ..wake(WAKE_IRQ, at_ns) };
    let found = gather(&[tick(5, 0), tick(3, 1)], &Starts::new(), &none());
    let expected = |cpu, at_ns| Event { cpu, at_ns, what: What::Irq { irq: Irq::Tick } };
    assert_eq!(found, [expected(1, 3), expected(0, 5)]);
}

#[test]
fn who_starts_a_timer_is_the_first_that_is_no_helper() {
    let symbols: &[u8] = b"100 t __hrtimer_run_queues\n200 T schedule_timeout\n300 T kcompactd\n\
         400 t enqueue_hrtimer\n500 T __mod_timer.part.0\n600 t kthread\n";
    let symbols = Symbols::parse(symbols).unwrap();
    let found = |calls: &[u64]| start(calls, &symbols);
    assert_eq!(found(&[0x510, 0x2ff, 0x310, 0x610]), Some("kcompactd".into()));
    // A call may be the last thing that a function does: it returns to where the next begins.
    assert_eq!(found(&[0x510, 0x300, 0x310]), Some("kcompactd".into()));
    assert_eq!(found(&[0x410, 0x110, 0x610]), None, "started again by its own callback");
    assert_eq!(found(&[0x510, 0x210]), None, "too deep to be seen");
    assert_eq!(found(&[]), None);
    let one = Wake { known: 1, stack: 3, ..wake(WAKE_HRTIMER, 1) };
    let starts = Starts::from([(3, "mine".to_string())]);
    let [event] = &gather(&[one], &starts, &symbols)[..] else { panic!("one") };
    let What::Expiry { timer, .. } = &event.what else { panic!("{event:?}") };
    assert_eq!(timer.start.as_deref(), Some("mine"));
}
