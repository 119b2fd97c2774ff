// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use crate::stats::Verdict;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeSet;

fn mode(text: &str) -> Mode {
    text.parse().unwrap()
}

fn workload(name: &str) -> PlannedWorkload {
    PlannedWorkload {
        workload: name.into(),
        work: 100,
        unit: "round trips".into(),
        program: None,
    }
}

fn sample(round: u32, exits: u64) -> Sample {
    Sample {
        round,
        exits: Some(exits),
        exits_by_cause: Some(BTreeMap::from([(Cause::Halt, exits)])),
        msr_writes: Some(BTreeMap::new()),
        per_vcpu: vec![VcpuSample::default()],
        per_host_cpu: vec![HostCpuSample::default()],
        ..Sample::default()
    }
}

fn results(modes: &[&str], rounds: u32) -> Results {
    Results {
        schema: SCHEMA.into(),
        tool_version: "0.1.0".into(),
        bench: "quick".into(),
        started: "2026-01-01T00:00:00Z".into(),
        plan: Plan {
            vcpus: 2,
            guests: 1,
            modes: modes.iter().map(|name| mode(name)).collect(),
            workloads: vec![workload("pingpong")],
            rounds,
            repeats: 2,
            rounds_at_most: None,
            precision: None,
            idle_entries: false,
        },
        environment: Environment::default(),
        cells: Vec::new(),
        problems: Vec::new(),
    }
}

/// Two modes, four rounds of two samples each.
fn measured() -> Results {
    let mut results = results(&["tickless", "paratick+poll"], 4);
    for round in 1..=4 {
        for repeat in 0..2 {
            let noise = u64::from(round + repeat);
            results.add(
                &workload("pingpong"),
                mode("tickless"),
                sample(round, 1000 + noise),
            );
            results.add(
                &workload("pingpong"),
                mode("paratick+poll"),
                sample(round, 400 + noise),
            );
        }
    }
    results.summarize();
    results
}

fn any_sample() -> impl Strategy<Value = Sample> {
    let count = || prop::option::of(0u64..u64::MAX / 2);
    let map = prop::option::of(prop::collection::btree_map(
        "[a-z_]{1,8}",
        any::<u64>(),
        0..4,
    ));
    let causes = prop::collection::btree_map(
        prop::sample::select(Cause::ALL.to_vec()),
        0u64..1_000_000,
        0..5,
    );
    (
        count(),
        map,
        prop::option::of(causes),
        count(),
        count(),
        1u32..4,
    )
        .prop_map(|(exits, by_reason, by_cause, host, guest, round)| Sample {
            round,
            exits,
            exits_by_reason: by_reason.clone(),
            exits_by_cause: by_cause,
            msr_writes: by_reason,
            host_instructions: host,
            guest_instructions: guest,
            ..Sample::default()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn results_read_back_as_written(samples in prop::collection::vec(any_sample(), 0..5)) {
        let mut results = results(&["tickless"], 1);
        for sample in samples {
            results.add(&workload("pingpong"), mode("tickless"), sample);
        }
        let text = serde_json::to_string_pretty(&results).unwrap();
        prop_assert_eq!(read(&text).unwrap(), results);
    }

    #[test]
    fn a_file_cut_short_is_never_read_as_whole(cut in 1usize..2000) {
        let text = serde_json::to_string_pretty(&measured()).unwrap();
        let end = text.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(1);
        let error = read(&text[..end]).unwrap_err();
        let said = matches!(error, ReadError::Truncated { .. } | ReadError::NotJson(_));
        prop_assert!(said, "{}", error);
    }

    #[test]
    fn figures_never_turn_a_missing_number_into_one(sample in any_sample()) {
        for figure in Figure::all() {
            let value = figure.of(&sample, 10);
            let known = match figure {
                Figure::Exits | Figure::ExitsPerUnit => sample.exits.is_some(),
                Figure::TimerExits | Figure::Cause(_) => sample.exits_by_cause.is_some(),
                Figure::TscDeadlineWrites => sample.msr_writes.is_some(),
                Figure::HostInstructions => sample.host_instructions.is_some(),
                Figure::GuestInstructions => sample.guest_instructions.is_some(),
                Figure::Instructions => {
                    sample.host_instructions.is_some() && sample.guest_instructions.is_some()
                }
                _ => false,
            };
            prop_assert_eq!(value.is_some(), known, "{}", figure);
        }
    }
}

#[test]
fn every_problem_of_a_file_has_its_own_words() {
    assert_eq!(read(" \n"), Err(ReadError::Empty));
    assert_eq!(
        read("{\n\"schema\": \"para"),
        Err(ReadError::Truncated { line: 2 })
    );
    assert!(matches!(read("hello"), Err(ReadError::NotJson(_))));
    assert_eq!(read("{\"results\": []}"), Err(ReadError::Foreign));
    assert_eq!(read("[1, 2]"), Err(ReadError::Foreign));
    let newer = read("{\"schema\": \"paratick-results/2\"}").unwrap_err();
    assert!(newer.to_string().contains("paratick-results/2"), "{newer}");
    let shape = read("{\"schema\": \"paratick-results/1\"}").unwrap_err();
    assert!(shape.to_string().contains("tool_version"), "{shape}");
    for error in [ReadError::Empty, newer, shape] {
        assert!(error.to_string().contains("\nhint: "), "{error}");
    }
}

#[test]
fn unknown_fields_are_ignored() {
    let mut value = serde_json::to_value(measured()).unwrap();
    value["later"] = 1.into();
    value["cells"][0]["samples"][0]["later"] = "x".into();
    value["cells"][0]["summary"]["later"] = Value::Null;
    value["cells"][1]["versus"]["tickless"]["later"] = Value::Null;
    assert!(read(&value.to_string()) == Ok(measured()));
}

#[test]
fn what_was_not_measured_is_null_and_has_no_summary() {
    let value = serde_json::to_value(measured()).unwrap();
    let cell = &value["cells"][0];
    for field in [
        "world_switches",
        "host_instructions",
        "ticks_delivered",
        "duration_ns",
    ] {
        assert_eq!(cell["samples"][0].get(field), Some(&Value::Null), "{field}");
        assert_eq!(cell["summary"].get(field), Some(&Value::Null), "{field}");
    }
    assert_eq!(cell["summary"]["tsc_deadline_writes"]["median"], 0.0);
    assert_eq!(
        cell["summary"]["exits_halt"]["median"],
        cell["summary"]["exits"]["median"]
    );
    assert_eq!(cell["summary"]["exits_arm"]["high"], 0.0);
}

#[test]
fn modes_are_compared_with_their_baselines() {
    let results = measured();
    let polling = results.cell("pingpong", mode("paratick+poll")).unwrap();
    let compared = polling.versus(mode("tickless"), Figure::Exits).unwrap();
    assert_eq!(compared.verdict, Verdict::Less);
    assert_eq!(polling.versus(mode("tickless-stop"), Figure::Exits), None);
    // A ratio to no writes at all is not given.
    assert_eq!(
        polling.versus(mode("tickless"), Figure::TscDeadlineWrites),
        None
    );
    let base = results.cell("pingpong", mode("tickless")).unwrap();
    assert!(base.versus.is_empty());
}

#[test]
fn a_guest_is_there_when_every_sample_of_it_is() {
    let mut results = results(&["tickless", "periodic"], 1);
    let tickless = mode("tickless");
    results.add(&workload("pingpong"), tickless, sample(1, 10));
    assert!(!results.has_guest(tickless, 1));
    results.add(&workload("pingpong"), tickless, sample(1, 11));
    assert!(results.has_guest(tickless, 1) && !results.is_complete());
    results.forget("pingpong", tickless, 1);
    assert!(!results.has_guest(tickless, 1));
    assert!(measured().is_complete());
}

/// Two boots that happen to agree are no reason to stop.
#[test]
fn a_narrow_interval_of_too_few_boots_is_not_precise() {
    let planned = |rounds| {
        let mut results = results(&["tickless", "paratick"], rounds);
        results.plan.rounds_at_most = Some(9);
        results.plan.precision = Some(0.03);
        for round in 1..=rounds {
            for name in ["tickless", "paratick"] {
                results.add(&workload("pingpong"), mode(name), sample(round, 1000));
            }
        }
        results.summarize();
        results
    };
    assert!(planned(1).wants_another_round());
    assert!(planned(2).wants_another_round());
    assert!(!planned(4).wants_another_round());
}

#[test]
fn figures_have_names_of_their_own_that_read_back() {
    let names: BTreeSet<_> = Figure::all().map(|figure| figure.to_string()).collect();
    assert_eq!(names.len(), Figure::all().count());
    for figure in Figure::all() {
        assert_eq!(figure.to_string().parse(), Ok(figure));
    }
}

/// docs/results.md and the structures are one: every field that can appear is described there, and
/// every field described there appears.
#[test]
fn the_document_describes_every_field_and_no_other() {
    let document = include_str!("../../../../docs/results.md");
    let described: BTreeSet<String> = document
        .lines()
        .filter(|line| line.starts_with("| `"))
        .filter_map(|line| line.split('`').nth(1))
        .map(String::from)
        .collect();
    let mut written = BTreeSet::new();
    let mut results = measured();
    let guests = &mut results.environment.qemu_command_lines.guests;
    guests.insert(mode("paratick"), Vec::new());
    let packages = &mut results.environment.packages;
    packages.insert("x264".into(), "2:0.164".into());
    results.set_idle_entries("pingpong", mode("tickless"), IdleEntries::default());
    assert!(results.cells[0].idle_entries.is_some());
    results.plan.workloads[0].program = Some(Program {
        command: "x264 video.y4m".into(),
        prepare: None,
        stands_for: None,
    });
    names(&serde_json::to_value(results).unwrap(), "", &mut written);
    let missing: Vec<_> = written.difference(&described).collect();
    assert!(missing.is_empty(), "not in docs/results.md: {missing:?}");
    let stale: Vec<_> = described.difference(&written).collect();
    assert!(stale.is_empty(), "only in docs/results.md: {stale:?}");
    assert!(document.contains(SCHEMA));
}

/// The names of all fields; the keys of maps (reasons, modes, …) are data, not fields.
fn names(value: &Value, parent: &str, into: &mut BTreeSet<String>) {
    const MAPS: [&str; 9] = [
        "exits_by_reason",
        "exits_by_cause",
        "msr_writes",
        "metrics",
        "rcu_callbacks",
        "guests",
        "kernel_config",
        "packages",
        "versus",
    ];
    match value {
        Value::Array(values) => values.iter().for_each(|value| names(value, parent, into)),
        Value::Object(fields) => {
            for (name, value) in fields {
                if !MAPS.contains(&parent) {
                    into.insert(name.clone());
                }
                names(value, name, into);
            }
        }
        _ => {}
    }
}
