// SPDX-License-Identifier: GPL-2.0-only
use paratick_core::{
    exits::Counts,
    mode::Mode,
    results::{Fault, Plan, PlannedWorkload, Results, Sample},
};
use std::collections::BTreeMap;

fn mode(name: &str) -> Mode {
    name.parse().unwrap()
}

fn sample(round: u32, exits: u64) -> Sample {
    Sample {
        round,
        exits: Some(Counts {
            total: exits,
            msr_writes: Some(BTreeMap::from([("TSC_DEADLINE".into(), exits / 10)])),
            ..Counts::default()
        }),
        world_switches: Some(exits),
        host_instructions: Some(40_000_000),
        guest_instructions: Some(1_250_000),
        ..Sample::default()
    }
}

/// Numbers made up to see how they are shown.
fn measured(rounds: u32) -> Results {
    let workload = PlannedWorkload::new("pingpong", 1000, "round trips");
    let modes = ["tickless", "paratick-ticks", "paratick"].map(mode);
    let plan = Plan::new(2, modes, [workload.clone()], rounds, 2);
    let mut results = Results::new("quick", plan);
    for round in 1..=rounds {
        for noise in 0..2 {
            let exits = 10_000 + u64::from(round * 10 + noise);
            results.add(&workload, mode("tickless"), sample(round, exits));
            results.add(&workload, mode("paratick-ticks"), sample(round, exits * 2 / 5));
            results.add(&workload, mode("paratick"), sample(round, exits / 5));
        }
    }
    results
}

fn shown(rounds: u32, change: fn(&mut Results)) -> String {
    let mut results = measured(rounds);
    change(&mut results);
    results.summarize();
    super::results(&results)
}

#[test]
fn rows_have_counts_with_intervals_and_changes_with_their_own() {
    insta::assert_snapshot!(shown(4, |_| ()));
}

#[test]
fn it_fits_a_wide_terminal_and_no_line_ends_in_space() {
    let text = shown(4, |_| ());
    for line in text.lines() {
        assert!(line.chars().count() <= 120 && !line.ends_with(' '), "{line:?}");
    }
}

#[test]
fn few_samples_are_never_called_a_difference() {
    insta::assert_snapshot!(shown(1, |_| ()));
}

#[test]
fn guests_and_samples_are_counted_and_what_is_missing_is_said() {
    insta::assert_snapshot!(shown(4, |results| {
        results.plan.guests = 4;
        results.cells[0].readings.exits.samples.truncate(5);
    }));
}

#[test]
fn doubtful_samples_are_marked_and_counted() {
    insta::assert_snapshot!(shown(4, |results| {
        let sample = &mut results.cells[0].readings.exits.samples[0];
        sample.world_switches = Some(1);
        sample.problems.push(Fault::CountsDiffer { exits: 2, world_switches: 1 });
    }));
}

#[test]
fn programs_are_held_against_their_baselines_and_the_paper() {
    insta::assert_snapshot!(shown(4, |results| {
        results.bench = "sequential".into();
        results.plan.vcpus = 1;
        // The paper has numbers against it alone.
        let stop = mode("tickless-stop").into();
        (results.plan.subjects[0], results.cells[0].subject) = (stop, stop);
    }));
}

/// They lose time to each other on the serial clock alone.
#[test]
fn busy_vcpus_are_said_to_take_turns_only_where_they_do() {
    let busy = |change: fn(&mut Results)| {
        let mut results = measured(4);
        results.cells[0].workload = "cpu".into();
        results.environment.configuration.ns_per_instruction = Some(1);
        change(&mut results);
        super::results(&results).contains("share one clock")
    };
    assert!(busy(|_| ()));
    assert!(!busy(|results| results.environment.configuration.parallel_clock = true));
    assert!(!busy(|results| results.environment.configuration.ns_per_instruction = None));
    assert!(!busy(|results| results.plan.vcpus = 1));
}

#[test]
fn nothing_measured_is_said() {
    let text = shown(4, |results| results.cells.clear());
    assert!(text.ends_with("Nothing was measured.\n"));
}
