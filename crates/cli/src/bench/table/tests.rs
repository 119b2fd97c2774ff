// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use paratick_core::results::{Environment, Plan, PlannedWorkload, Sample, SCHEMA};
use std::collections::BTreeMap;

fn mode(name: &str) -> Mode {
    name.parse().unwrap()
}

fn sample(round: u32, exits: u64) -> Sample {
    Sample {
        round,
        exits: Some(exits),
        exits_by_cause: Some(BTreeMap::new()),
        msr_writes: Some(BTreeMap::from([("TSC_DEADLINE".into(), exits / 10)])),
        world_switches: Some(exits),
        host_instructions: Some(40_000_000),
        guest_instructions: Some(1_250_000),
        ..Sample::default()
    }
}

/// Numbers made up to see how they are shown.
fn shown(rounds: u32, change: fn(&mut Results)) -> String {
    let workload = PlannedWorkload {
        workload: "pingpong".into(),
        work: 1000,
        unit: "round trips".into(),
        program: None,
    };
    let mut results = Results {
        schema: SCHEMA.into(),
        tool_version: String::new(),
        bench: "quick".into(),
        started: String::new(),
        plan: Plan {
            vcpus: 2,
            guests: 1,
            modes: vec![mode("tickless"), mode("paratick")],
            workloads: vec![workload.clone()],
            rounds,
            repeats: 2,
            idle_entries: false,
            rounds_at_most: None,
            precision: None,
        },
        environment: Environment::default(),
        cells: Vec::new(),
        problems: Vec::new(),
    };
    for round in 1..=rounds {
        for noise in 0..2 {
            let exits = 10_000 + u64::from(round * 10 + noise);
            results.add(&workload, mode("tickless"), sample(round, exits));
            results.add(&workload, mode("paratick"), sample(round, exits * 2 / 5));
        }
    }
    change(&mut results);
    results.summarize();
    text(&results)
}

#[test]
fn a_row_has_counts_with_intervals_and_a_change_with_its_own() {
    let text = shown(4, |_| ());
    let row = |name: &str, nth: usize| {
        let mut rows = text.lines().filter(|line| line.contains(name));
        rows.nth(nth)
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        row("paratick", 0),
        "paratick 4 010 [4 004..4 016] 4.01 400 [400..401] – 41.2"
    );
    assert_eq!(row("paratick", 1), "paratick −60 % [−60..−60]");
    assert_eq!(row("paratick", 2), "paratick ≈ [0..0]");
    assert_eq!(text.matches("\npingpong: 1 000 round trips\n").count(), 3);
    assert!(text.contains("95 % bootstrap interval"));
    assert!(text.contains("equal the exits in all 16 samples"));
}

#[test]
fn it_fits_a_wide_terminal_and_no_line_ends_in_space() {
    let text = shown(4, |_| ());
    for line in text.lines() {
        assert!(
            line.chars().count() <= 120 && !line.ends_with(' '),
            "{line:?}"
        );
    }
}

#[test]
fn few_samples_are_never_called_a_difference() {
    let text = shown(1, |_| ());
    assert!(text.contains("(−60 %)"), "{text}");
    assert!(text.contains("too few for a 95 % interval"));
    assert!(text.contains("With 1 round: how boots"));
}

#[test]
fn the_heading_counts_guests_and_what_was_measured_of_each_cell() {
    let text = shown(4, |_| ());
    assert!(text.starts_with("Guests of 2 vCPUs on"), "{text}");
    assert!(text.contains("; 4 boots × 2 runs of each"), "{text}");
    assert!(!text.contains("--resume"), "{text}");
    let text = shown(4, |results| {
        results.plan.guests = 4;
        results.cells[0].samples.truncate(5);
    });
    assert!(
        text.starts_with("4 guests of 2 vCPUs side by side on"),
        "{text}"
    );
    assert!(
        text.contains("; 3 to 4 boots × 1 to 2 runs of each"),
        "{text}"
    );
    assert!(
        text.contains("or smallest..largest of fewer than 6"),
        "{text}"
    );
    assert!(text.contains("Not everything that was planned"), "{text}");
}

#[test]
fn doubtful_samples_are_marked_and_counted() {
    let text = shown(4, |results| {
        let sample = &mut results.cells[0].samples[0];
        sample.world_switches = Some(1);
        sample.problems.push("counts differ".into());
    });
    assert!(text.contains("tickless !"), "{text}");
    assert!(text.contains("in 15 of 16 samples"));
}

#[test]
fn nothing_measured_is_said() {
    let text = shown(4, |results| results.cells.clear());
    assert!(text.ends_with("Nothing was measured.\n"));
}
