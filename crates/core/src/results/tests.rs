// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use crate::exits::Counts;
use crate::{cause::Cause, stats::Verdict};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) fn mode(text: &str) -> Subject {
    text.parse().unwrap()
}

fn workload(name: &str) -> PlannedWorkload {
    PlannedWorkload::new(name, 100, "round trips")
}

fn sample(round: u32, exits: u64) -> Sample {
    Sample {
        round,
        exits: Some(Counts {
            total: exits,
            by_cause: BTreeMap::from([(Cause::Halt, exits)]),
            msr_writes: Some(BTreeMap::new()),
            ..Counts::default()
        }),
        per_vcpu: vec![Counts::default()],
        per_host_cpu: vec![HostCpuSample::default()],
        ..Sample::default()
    }
}

fn results(modes: &[&str], rounds: u32) -> Results {
    let subjects = modes.iter().map(|name| mode(name));
    let plan = Plan::new(2, subjects, [workload("pingpong")], rounds, 2);
    Results { command: vec!["paratick".into()], ..Results::new("quick", plan) }
}

/// Two modes, four rounds of two samples each.
pub(super) fn measured() -> Results {
    let mut results = results(&["tickless", "paratick+poll"], 4);
    for round in 1..=4 {
        for repeat in 0..2 {
            let noise = u64::from(round + repeat);
            results.add(&workload("pingpong"), mode("tickless"), sample(round, 1000 + noise));
            results.add(&workload("pingpong"), mode("paratick+poll"), sample(round, 400 + noise));
        }
    }
    results.summarize();
    results
}

fn any_sample() -> impl Strategy<Value = Sample> {
    let count = || prop::option::of(0u64..u64::MAX / 2);
    let map = || prop::collection::btree_map("[a-z_]{1,8}", any::<u64>(), 0..4);
    let causes = prop::collection::btree_map(
        prop::sample::select(Cause::ALL.to_vec()),
        0u64..1_000_000,
        0..5,
    );
    let counts = (0u64..u64::MAX / 2, map(), causes, prop::option::of(map()), count());
    let counts = counts.prop_map(|(total, by_reason, by_cause, msr_writes, ticks_delivered)| {
        Counts { total, by_reason, by_cause, msr_writes, ticks_delivered }
    });
    (prop::option::of(counts), count(), count(), 1u32..4).prop_map(|(exits, host, guest, round)| {
        Sample {
            round,
            exits,
            host_instructions: host,
            guest_instructions: guest,
            ..Sample::default()
        }
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
                Figure::Exits
                | Figure::ExitsPerUnit
                | Figure::TimerExits
                | Figure::Cause(_)
 => sample.exits.is_some(),
                Figure::TscDeadlineWrites => {
                    sample.exits.as_ref().is_some_and(|exits| exits.msr_writes.is_some())
                }
                Figure::TicksDelivered => {
                    sample.exits.as_ref().is_some_and(|exits| exits.ticks_delivered.is_some())
                }
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
    assert_eq!(read("{\n\"schema\": \"para"), Err(ReadError::Truncated { line: 2 }));
    assert!(matches!(read("hello"), Err(ReadError::NotJson(_))));
    assert_eq!(read("{\"results\": []}"), Err(ReadError::Foreign));
    assert_eq!(read("[1, 2]"), Err(ReadError::Foreign));
    let newer = read("{\"schema\": \"paratick-results/5\"}").unwrap_err();
    assert!(newer.to_string().contains("paratick-results/5"), "{newer}");
    let old = read("{\"schema\": \"paratick-results/3\"}").unwrap_err();
    assert!(matches!(old, ReadError::Shape { .. }), "{old}");
    let shape = read("{\"schema\": \"paratick-results/4\"}").unwrap_err();
    assert!(shape.to_string().contains("tool_version"), "{shape}");
    for error in [ReadError::Empty, newer, shape] {
        assert!(error.to_string().contains("\nhint: "), "{error}");
    }
}

#[test]
fn a_mode_that_nobody_knows_has_one_hint() {
    let mut value = serde_json::to_value(measured()).unwrap();
    value["cells"][0]["subject"]["mode"] = "tickles".into();
    let Err(error) = read(&value.to_string()) else { panic!("it is read") };
    let error = error.to_string();
    assert!(error.contains("no tick mode 'tickles'"), "{error}");
    assert_eq!(error.matches("hint: ").count(), 1, "{error}");
}

#[test]
fn unknown_fields_are_ignored() {
    let mut value = serde_json::to_value(measured()).unwrap();
    value["later"] = 1.into();
    value["cells"][0]["readings"]["exits"]["samples"][0]["later"] = "x".into();
    value["cells"][0]["readings"]["exits"]["summary"]["later"] = Value::Null;
    value["cells"][1]["readings"]["exits"]["versus"]["tickless"]["later"] = Value::Null;
    assert!(read(&value.to_string()) == Ok(measured()));
}

#[test]
fn what_was_not_measured_is_null_and_has_no_summary() {
    let value = serde_json::to_value(measured()).unwrap();
    let cell = &value["cells"][0]["readings"]["exits"];
    assert_eq!(cell["samples"][0]["exits"].get("ticks_delivered"), Some(&Value::Null));
    assert_eq!(cell["summary"].get("ticks_delivered"), Some(&Value::Null));
    for field in ["world_switches", "host_instructions", "duration_ns"] {
        assert_eq!(cell["samples"][0].get(field), Some(&Value::Null), "{field}");
        assert_eq!(cell["summary"].get(field), Some(&Value::Null), "{field}");
    }
    assert_eq!(cell["summary"]["tsc_deadline_writes"]["median"], 0.0);
    assert_eq!(cell["summary"]["exits_halt"]["median"], cell["summary"]["exits"]["median"]);
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
    assert_eq!(polling.versus(mode("tickless"), Figure::TscDeadlineWrites), None);
    let base = results.cell("pingpong", mode("tickless")).unwrap();
    assert!(base.readings.exits.versus.is_empty());
}

#[test]
fn a_guest_is_there_when_every_sample_of_it_is() {
    let mut results = results(&["tickless", "periodic"], 1);
    let tickless = mode("tickless");
    let boot = Boot { round: 1, subject: tickless };
    results.add(&workload("pingpong"), tickless, sample(1, 10));
    assert!(!results.has_guest(boot));
    results.add(&workload("pingpong"), tickless, sample(1, 11));
    assert!(results.has_guest(boot) && !results.is_complete());
    results.forget("pingpong", boot);
    assert!(!results.has_guest(boot));
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

pub(super) fn cycle() -> IdleCycle {
    serde_json::from_str(
        r#"{"vcpu": 0, "cycles": 1, "alike": 1, "exits_by_cause": {"halt": 1.0},
            "exits_per_cycle": {"median": 1, "low": 1, "high": 1, "samples": 1, "method": "range"},
            "traced_ns": 2, "untraced_ns": 1, "events": [
            {"t_ns": 0, "kind": "exit", "reason": "hlt", "cause": "halt", "msr": "X",
                "moved_ns": 1, "until": {"deadline": true, "keep": false, "due_ns": null},
                "why": "irq"},
            {"t_ns": 1, "kind": "entry"},
            {"t_ns": 1, "kind": "sleep"},
            {"t_ns": 1, "kind": "wake", "by": "ipi"},
            {"t_ns": 2, "kind": "tick", "what": "late"},
            {"t_ns": 3, "kind": "notick", "what": "halted"},
            {"t_ns": 4, "kind": "end"}], "deadline_writes": {"irq": 1}}"#,
    )
    .unwrap()
}

/// Guests with virtual ticks poll unasked from `paratick-results/4` on.
#[test]
fn the_paratick_of_schema_3_does_not_poll() {
    let names = ["tickless", "paratick+nopoll", "paratick", "paratick+coalesce+nopoll"];
    let mut results = results(&names, 1);
    let slow = mode("paratick+nopoll halt-poll=7");
    for subject in [results.plan.subjects[2], slow] {
        results.add(&workload("idle"), subject, sample(1, 400));
    }
    results.plan.subjects.push(slow);
    results.summarize();
    // It stays as it was typed.
    results.command.clear();
    let today = serde_json::to_string(&results).unwrap();
    let old = today.replace("\"paratick\"", "\"paratick+learn\"").replace("+nopoll", "");
    assert_eq!(read(&old.replace(SCHEMA, "paratick-results/3")).unwrap(), results);
    assert_eq!(read(&old).unwrap().plan.subjects[1], mode("paratick"));
}
