// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use crate::osnoise::raw::{OSNOISE_IRQ, OSNOISE_SCHED, OSNOISE_THREAD};

/// The TSC has 2 ticks in a ns, and read 1 000 000 when the clock read 5000.
fn clock() -> Clock {
    let begin = Instant { tsc: 1_000_000, ns: 5_000 };
    Clock { begin, end: Instant { tsc: 3_000_000, ns: 1_005_000 } }
}

/// A gap by the clock's ns, which the program told after `told` ns of telling of the last one.
fn gap(begin_ns: u64, ns: u64, told: u64) -> Noise {
    let tsc = 1_000_000 + 2 * (begin_ns - 5_000);
    Noise {
        kind: OSNOISE_GAP,
        start_ns: tsc,
        ns: 2 * ns,
        name_high: 2 * told,
        told_ns: begin_ns + ns + 700,
        ..Noise::default()
    }
}

fn disturbance(kind: u32, start_ns: u64, told_ns: u64) -> Noise {
    Noise { kind, start_ns, told_ns, ..Noise::default() }
}

#[test]
fn gaps_are_on_the_clock_of_what_disturbs_them() {
    let records = [
        disturbance(OSNOISE_IRQ, 10_400, 13_000),
        disturbance(OSNOISE_SCHED, 0, 13_100),
        disturbance(OSNOISE_THREAD, 13_200, 19_000),
        gap(10_000, 9_500, 0),
        gap(30_000, 2_000, 0),
    ];
    let gaps = gaps(&records, &clock());
    let [long, short] = &gaps[..] else { panic!("{gaps:?}") };
    assert_eq!((long.begin_ns, long.ns, long.interference), (10_000, 9_500, 2));
    assert_eq!(long.disturbances.len(), 3);
    assert_eq!((short.begin_ns, short.ns, short.interference), (30_000, 2_000, 0));
    assert_eq!(short.stolen_ns, None);
}

#[test]
fn what_came_while_it_told_of_a_gap_is_one_only_if_the_kernel_knows_of_it() {
    let first = gap(10_000, 2_000, 0);
    let longer = gap(13_500, 4_000, 1_500);
    let tick = disturbance(OSNOISE_IRQ, 12_700, 16_000);
    let told = |records: &[Noise]| gaps(records, &clock()).len();
    assert_eq!(told(&[first, longer]), 1);
    assert_eq!(told(&[first, Noise { name_low: 3_001, ..longer }]), 2);
    let both = gaps(&[first, tick, longer], &clock());
    assert_eq!(both[1].written_ns, 1_500);
    assert_eq!(both[1].disturbances[0].begin_ns, 12_700);
}

/// The first of a CPU is no difference.
#[test]
fn steal_is_known_where_the_kernel_has_its_clock() {
    let stolen = |name_low| {
        let all = gaps(&[Noise { name_low, ..gap(10_000, 9_500, 0) }], &clock());
        all[0].stolen_ns
    };
    assert_eq!([0, 1, 8_001].map(stolen), [None, Some(0), Some(8_000)]);
}

#[test]
fn a_program_says_what_it_costs() {
    let one = Seen { readings: 90_000, whole: 2_000_000, telling: 20_000, ..Seen::default() };
    let seen = [Seen { least: 1_600, page_faults: 2, ..one }, Seen { least: 1_500, ..one }];
    let expected =
        SamplingProgram { reading_ns: 11, telling_ns: 800, telling_ppm: 10_000, page_faults: 2 };
    assert_eq!(of_itself(&seen, &clock()), expected);
    assert_eq!(of_itself(&[], &clock()).reading_ns, 0);
}

#[test]
fn a_threshold_is_in_ticks_of_the_tsc() {
    let Clock { begin, end } = clock();
    assert_eq!(ticks(begin, end, 1_000), 2_000);
    assert_eq!(ticks(begin, begin, 1_000), 0);
}
