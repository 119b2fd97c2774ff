// SPDX-License-Identifier: GPL-2.0-only

use super::{gather::gather as gather_split, raw::*};
use paratick_core::noise::{
    Disturbance, Gap, Kind, TICK_DEFER_IRQ_EXIT, TICK_NOHZ_IRQ_EXIT, WAKE_UP,
};

/// CLOCK_MONOTONIC is so far ahead of the trace's clock.
const AHEAD: u64 = 1_000_000;

fn record(kind: u32, start_ns: u64, ns: u64, number: u32) -> Noise {
    let told_ns = start_ns + ns + AHEAD;
    Noise { kind, start_ns, ns, told_ns, number, ..Noise::default() }
}

fn told(told_ns: u64, record: Noise) -> Noise {
    Noise { told_ns: told_ns + AHEAD, ..record }
}

fn gather(records: &[Noise]) -> Vec<Gap> {
    gather_split(records, &[])
}

fn named(name: &[u8; 8], record: Noise) -> Noise {
    Noise { name_low: u64::from_ne_bytes(*name), ..record }
}

#[test]
fn what_came_within_a_gap_belongs_to_it() {
    let gaps = gather(&[
        // Before osnoise's first gap: too short for one of its own.
        record(OSNOISE_SOFTIRQ, 100, 50, 1),
        // It was told later: it had an interrupt in it, which is not in `ns`.
        Noise { told_ns: 4_500 + AHEAD, ..record(OSNOISE_THREAD, 1_200, 3_000, 15) },
        named(b"timer\0..", record(OSNOISE_IRQ, 2_000, 300, 236)),
        record(OSNOISE_GAP, 1_000, 4_000, 2),
        record(OSNOISE_GAP, 9_000, 7_000, 0),
    ]);
    assert_eq!(gaps.len(), 2);
    let disturbance = |kind, name: &str, begin: u64, end: u64| Disturbance {
        kind,
        name: name.into(),
        begin_ns: begin + AHEAD,
        end_ns: end + AHEAD,
    };
    let expected = [
        disturbance(Kind::Thread, "", 1_200, 4_500),
        disturbance(Kind::Irq, "timer", 2_000, 2_300),
    ];
    assert_eq!(gaps[0].disturbances, expected);
    assert_eq!((gaps[0].begin_ns, gaps[0].ns, gaps[0].interference), (1_000 + AHEAD, 4_000, 2));
    assert_eq!((gaps[1].interference, gaps[1].disturbances.len()), (0, 0));
}

/// It is told as it happens.
#[test]
fn a_look_of_the_scheduler_s_is_an_instant() {
    let looks = |at: u64| Noise { told_ns: at + AHEAD, ..record(OSNOISE_SCHED, 0, 0, 0) };
    let gap = record(OSNOISE_GAP, 1_000, 4_000, 0);
    let gaps = gather(&[looks(0), looks(1_800), gap]);
    let name = "nobody else to run".into();
    let (begin_ns, end_ns) = (1_800 + AHEAD, 1_800 + AHEAD);
    let expected = [Disturbance { kind: Kind::Scheduler, name, begin_ns, end_ns }];
    assert_eq!(gaps[0].disturbances, expected);
    assert_eq!(gaps[0].interference, 0);
}

/// Even the gap that was told soonest was told some time after its end: by so much a look seems to
/// have been earlier than it was.
#[test]
fn a_look_right_at_the_beginning_is_in_its_gap() {
    let look = told(9_080, record(OSNOISE_SCHED, 0, 0, 0));
    let begins = |at: u64| told(at + 1_620, record(OSNOISE_GAP, at, 1_500, 0));
    let looks = |gap: u64| gather(&[look, begins(gap)])[0].disturbances.len();
    assert_eq!([9_000, 9_080, 10_000].map(looks), [1, 1, 0]);
}

/// It began so long before it is told.
#[test]
fn the_way_out_of_an_interrupt_is_told_apart_from_it() {
    let told_ns = 2_900 + AHEAD;
    let way_out = Noise { told_ns, ..record(OSNOISE_TICK, 0, 800, 0) };
    let gaps = gather(&[way_out, record(OSNOISE_GAP, 1_000, 4_000, 1)]);
    let name = TICK_NOHZ_IRQ_EXIT.into();
    let expected =
        [Disturbance { kind: Kind::Irq, name, begin_ns: told_ns - 800, end_ns: told_ns }];
    assert_eq!(gaps[0].disturbances, expected);
}

/// The handler wakes threads, too, and is told as it ends.
#[test]
fn a_wake_up_is_told_apart_after_an_interrupt_and_not_in_it() {
    let gaps = gather(&[
        told(1_400, record(OSNOISE_WAKE, 0, 0, 0)),
        told(1_600, record(OSNOISE_WAKE, 0, 0, 0)),
        told(2_000, record(OSNOISE_IRQ, 1_200, 800, 236)),
        told(3_300, record(OSNOISE_WAKE, 0, 0, 0)),
        told(4_100, record(OSNOISE_DEADLINE, 0, 0, 0)),
        record(OSNOISE_GAP, 1_000, 9_000, 1),
    ]);
    let span = |it: &Disturbance| (it.name.clone(), it.begin_ns - AHEAD, it.end_ns - AHEAD);
    let expected = [
        ("236".to_string(), 1_200, 2_000),
        (WAKE_UP.to_string(), 2_000, 3_300),
        (TICK_DEFER_IRQ_EXIT.to_string(), 3_300, 4_100),
    ];
    assert_eq!(gaps[0].disturbances.iter().map(span).collect::<Vec<_>>(), expected);
}

/// Interrupts seem to begin later than they do, by how late the soonest gap was told; the instant
/// of a wake-up is exact.
#[test]
fn a_wake_up_right_at_the_beginning_of_a_handler_is_in_it() {
    let gaps = gather(&[
        told(2_000, record(OSNOISE_IRQ, 1_200, 800, 236)),
        told(4_300, record(OSNOISE_WAKE, 0, 0, 0)),
        told(4_900, record(OSNOISE_IRQ, 4_000, 900, 236)),
        told(10_620, record(OSNOISE_GAP, 1_000, 9_000, 2)),
    ]);
    assert_eq!(gaps[0].disturbances.len(), 2);
}

#[test]
fn a_wake_up_comes_after_the_interrupt_before_it() {
    let gaps = gather(&[
        told(1_500, record(OSNOISE_IRQ, 1_200, 300, 236)),
        told(3_350, record(OSNOISE_IRQ, 3_050, 300, 236)),
        told(3_500, record(OSNOISE_WAKE, 0, 0, 0)),
        told(4_200, record(OSNOISE_GAP, 1_000, 2_000, 1)),
        told(8_620, record(OSNOISE_GAP, 3_000, 5_000, 1)),
    ]);
    let came: Vec<usize> = gaps.iter().map(|gap| gap.disturbances.len()).collect();
    assert_eq!(came, [1, 2]);
}

/// The series `noise` leaves its writing out, but not what comes meanwhile.
#[test]
fn what_comes_while_osnoise_writes_is_the_next_gap_s() {
    let split = |start| Parts { start, ..Parts::default() };
    let gaps = |second: u64, splits: &[Parts]| {
        gather_split(
            &[
                record(OSNOISE_IRQ, 1_200, 300, 236),
                record(OSNOISE_IRQ, 3_500, 2_000, 236),
                record(OSNOISE_GAP, 1_000, 2_000, 1),
                record(OSNOISE_IRQ, 5_600, 100, 236),
                record(OSNOISE_GAP, second, 4_000, 2),
            ],
            splits,
        )
    };
    let came = |gaps: &[Gap]| gaps.iter().map(|gap| gap.disturbances.len()).collect::<Vec<_>>();
    let ours = gaps(5_500, &[split(1_000), split(5_500)]);
    assert_eq!((ours[1].written_ns, came(&ours)), (2_500, vec![1, 2]));
    // In stock osnoise they are one gap after the other.
    let stock = gaps(3_000, &[]);
    assert_eq!((stock[1].written_ns, came(&stock)), (0, vec![1, 2]));
    // Nobody writes for so long.
    let later = gaps(43_000, &[split(1_000), split(43_000)]);
    assert_eq!((later[1].written_ns, came(&later)), (0, vec![1, 0]));
}

/// Its own beginning is not told.
#[test]
fn a_deadline_is_written_on_the_way_out_of_the_interrupt_before_it() {
    let irq = told(2_000, record(OSNOISE_IRQ, 1_200, 800, 236));
    let write = told(4_100, record(OSNOISE_DEADLINE, 0, 0, 0));
    let gap = record(OSNOISE_GAP, 1_000, 9_000, 1);
    let spans = |records: &[Noise]| {
        let last = gather(records)[0].disturbances.pop().unwrap();
        (last.name, last.begin_ns - AHEAD, last.end_ns - AHEAD)
    };
    let name = TICK_DEFER_IRQ_EXIT.to_string();
    assert_eq!(spans(&[irq, write, gap]), (name.clone(), 2_000, 4_100));
    // The interrupt is none of this gap's.
    let before = told(500, record(OSNOISE_IRQ, 100, 400, 236));
    assert_eq!(spans(&[before, write, gap]), (name, 4_100, 4_100));
}

#[test]
fn each_cpu_has_its_own_gaps() {
    let on = |cpu, record| Noise { cpu, ..record };
    let gaps = gather(&[
        on(1, record(OSNOISE_SOFTIRQ, 1_100, 500, 9)),
        on(0, record(OSNOISE_GAP, 1_000, 2_000, 0)),
        on(1, record(OSNOISE_GAP, 1_000, 2_000, 1)),
    ]);
    let told: Vec<_> = gaps.iter().map(|gap| (gap.cpu, gap.disturbances.len())).collect();
    assert_eq!(told, [(0, 0), (1, 1)]);
    assert_eq!(gaps[1].disturbances[0].name, "RCU");
    assert_eq!(gather(&[]), []);
}

/// The gap that was told soonest shows how far apart the clocks are.
#[test]
fn a_gap_that_was_told_late_does_not_move_the_others() {
    let late = Noise { told_ns: 90_000 + AHEAD, ..record(OSNOISE_GAP, 1_000, 2_000, 0) };
    let gaps = gather(&[late, record(OSNOISE_GAP, 9_000, 2_000, 0)]);
    assert_eq!(gaps[0].begin_ns, 1_000 + AHEAD);
}

/// The kernel tells it after the gap, and only of some.
#[test]
fn what_the_kernel_says_of_a_gap_is_the_gap_s() {
    let on = |cpu, record| Noise { cpu, ..record };
    let records = [
        on(0, record(OSNOISE_GAP, 1_000, 6_000, 0)),
        on(1, record(OSNOISE_GAP, 1_000, 6_000, 0)),
        on(0, record(OSNOISE_GAP, 9_000, 2_000, 0)),
    ];
    let split = |cpu, start| Parts {
        cpu,
        start,
        duration: 6_000,
        light: 2,
        ticks: 1,
        hv: 2_000,
        hv_irq: 3_000,
        steal: 800,
        hw: 200,
        ..Parts::default()
    };
    let gaps = gather_split(&records, &[split(0, 1_000), split(1, 700)]);
    let told: Vec<_> = gaps.iter().map(|gap| gap.told).collect();
    let told_of = told[0].unwrap();
    assert_eq!((told_of.exits.all(), told_of.exits.host_ticks), (2, 1));
    let parts = told_of.parts;
    assert_eq!((parts.kvm, parts.interrupted, parts.waited), (2_000, 3_000, 800));
    assert_eq!(parts.sum(), 6_000);
    assert_eq!(told[1..], [None, None]);
}
