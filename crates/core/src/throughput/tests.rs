// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use crate::{
    exit_cost,
    results::{Exits, Readings},
    stats::Verdict,
};
use proptest::prelude::*;

fn sample(round: u32, instructions: u64, world_switches: u64) -> Sample {
    Sample {
        round,
        host_instructions: Some(instructions / 3),
        guest_instructions: Some(instructions - instructions / 3),
        world_switches: Some(world_switches),
        ..Sample::default()
    }
}

fn cell(work: u64, samples: Vec<Sample>) -> Cell {
    Cell {
        workload: "pingpong".into(),
        subject: "tickless".parse().unwrap(),
        vcpus: 2,
        work,
        unit: "round trips".into(),
        readings: Readings { exits: Exits { samples, ..Exits::default() }, ..Readings::default() },
    }
}

/// Six equal samples, each of a round of its own.
fn steady(instructions: u64, world_switches: u64) -> Cell {
    let samples = (0..6).map(|n| sample(n, instructions, world_switches));
    cell(100, samples.collect())
}

fn any_cell() -> impl Strategy<Value = Cell> {
    let one = (1u32..4, 1_000_000u64..20_000_000, 0u64..5_000)
        .prop_map(|(round, instructions, switches)| sample(round, instructions, switches));
    prop::collection::vec(one, 1..10).prop_map(|samples| cell(100, samples))
}

#[test]
fn cpu_time_is_instructions_and_the_cost_of_every_world_switch() {
    let one = sample(1, 5_000_000, 1_000);
    assert_eq!(cpu_ns(&one, Nanos(0)), Some(5_000_000.0));
    assert_eq!(cpu_ns(&one, Nanos(1_400)), Some(6_400_000.0));
}

#[test]
fn what_the_emulator_did_not_count_has_no_cpu_time() {
    for missing in 0..3 {
        let mut one = sample(1, 5_000_000, 1_000);
        *[&mut one.host_instructions, &mut one.guest_instructions, &mut one.world_switches]
            [missing] = None;
        assert_eq!(cpu_ns(&one, Nanos(1_400)), None);
        let (unknown, known) = (cell(100, vec![one; 6]), steady(1, 1));
        assert_eq!(relative(&unknown, &known, Nanos(0)), None);
        assert_eq!(break_even(&unknown, &known), None);
    }
}

#[test]
fn a_mode_with_fewer_exits_gains_with_their_cost() {
    // 5 % more instructions, half of the exits: they make up for it at 500 ns each.
    let (mode, base) = (steady(10_500_000, 1_000), steady(10_000_000, 2_000));
    let at = |cost| relative(&mode, &base, Nanos(cost)).unwrap();
    assert_eq!(at(0).verdict, Verdict::Less);
    assert_eq!(at(500).verdict, Verdict::NoDifferenceShown);
    assert_eq!(at(1_400).verdict, Verdict::More);
    assert!((at(1_400).ratio - 12.8 / 11.9).abs() < 1e-9);
    assert_eq!(break_even(&mode, &base), Some(500.0));
    let verdicts = |cost| exit_cost::range(Nanos(cost)).map(|cost| at(cost.0).verdict);
    assert_eq!(verdicts(200), [Verdict::Less; 5]);
    assert_eq!(verdicts(1_400)[1..], [Verdict::More; 4]);
}

#[test]
fn work_for_the_same_cpu_time_counts_not_the_work_of_a_run() {
    let mut twice = steady(20_000_000, 2_000);
    twice.work = 200;
    let same = relative(&twice, &steady(10_000_000, 1_000), Nanos(700)).unwrap();
    assert_eq!(same.ratio, 1.0);
}

#[test]
fn there_is_no_break_even_where_one_is_better_at_any_cost() {
    let (better, worse) = (steady(10_000_000, 1_000), steady(11_000_000, 2_000));
    assert_eq!(break_even(&better, &worse), None);
    assert_eq!(break_even(&better, &better), None);
    // Equal without a cost: nothing turns, it only begins.
    assert_eq!(break_even(&better, &steady(10_000_000, 2_000)), None);
    // It would turn at 2 ms for each.
    let far = steady(10_000_000 + 2_000_000_000, 0);
    assert_eq!(break_even(&far, &better), None);
}

#[test]
fn only_rounds_that_both_have_decide_the_break_even() {
    let mut mode = steady(10_500_000, 1_000);
    mode.readings.exits.samples.extend((0..20).map(|_| sample(9, 90_000_000, 1)));
    assert_eq!(break_even(&mode, &steady(10_000_000, 2_000)), Some(500.0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn throughput_is_the_inverse_of_cpu_time(
        mode in any_cell(), base in any_cell(), cost in 0u64..5_000
    ) {
        let cost = Nanos(cost);
        let spent = |cell: &Cell| -> Vec<Observation> {
            let seen = |sample: &Sample| Observation {
                round: sample.round,
                value: cpu_ns(sample, cost).unwrap(),
            };
            cell.samples().iter().map(seen).collect()
        };
        let cpu = stats::compare(&spent(&mode), &spent(&base));
        let throughput = relative(&mode, &base, cost);
        prop_assert_eq!(cpu.is_some(), throughput.is_some());
        let (Some(cpu), Some(throughput)) = (cpu, throughput) else { return Ok(()) };
        prop_assert!((throughput.ratio * cpu.ratio - 1.0).abs() < 1e-9);
        prop_assert!((throughput.low * cpu.high - 1.0).abs() < 1e-9);
        prop_assert!(throughput.low <= throughput.ratio && throughput.ratio <= throughput.high);
        match throughput.verdict {
            Verdict::More => prop_assert!(throughput.low > 1.0),
            Verdict::Less => prop_assert!(throughput.high < 1.0),
            Verdict::NoDifferenceShown | Verdict::TooFewSamples => {}
        }
    }

    #[test]
    fn a_mode_against_itself_never_turns(mode in any_cell()) {
        prop_assert_eq!(break_even(&mode, &mode), None);
    }

    /// Before it the sign is the one without a cost, at it the two are equal, and after it the
    /// sign is the other.
    #[test]
    fn at_the_break_even_throughput_changes_its_side(mode in any_cell(), base in any_cell()) {
        let shared = |one: &Cell, other: &Cell| -> Vec<Line> {
            let with = |round: &u32| other.samples().iter().any(|sample| sample.round == *round);
            lines(one).into_iter().filter(|(round, _)| with(round)).map(|(_, line)| line).collect()
        };
        let (above, below) = (shared(&mode, &base), shared(&base, &mode));
        if above.is_empty() { return Ok(()) }
        let difference =
            |cost: f64| median_at(&above, cost).unwrap() - median_at(&below, cost).unwrap();
        // The scale of what is compared with 0.
        let nothing = |cost: f64| median_at(&below, cost).unwrap() * 1e-9;
        let found = break_even(&mode, &base);
        let until = found.unwrap_or(LARGEST_COST.0 as f64);
        prop_assert!((0.0..=LARGEST_COST.0 as f64).contains(&until));
        let start = difference(0.0);
        for step in 0..200 {
            let cost = until * f64::from(step) / 200.0;
            prop_assert!(difference(cost) * start >= 0.0 || difference(cost).abs() < nothing(cost),
                "{} at {}", difference(cost), cost);
        }
        if let Some(cost) = found {
            prop_assert!(difference(cost).abs() <= nothing(cost));
            let after = bends(&above, &below).into_iter().find(|bend| *bend > cost * (1.0 + 1e-9));
            prop_assert!(difference(after.unwrap()) * start <= 0.0);
        }
    }

    #[test]
    fn the_two_sides_have_one_break_even(mode in any_cell(), base in any_cell()) {
        prop_assert_eq!(break_even(&mode, &base), break_even(&base, &mode));
    }
}
