// SPDX-License-Identifier: GPL-2.0-only
//! `paratick compare`: what changed is said, and nothing else.

use crate::support::paratick;
use assert_cmd::Command;
use paratick_core::results::SCHEMA;
use serde_json::{json, Value};
use std::fs;
use tempfile::TempDir;

/// Two results files in a folder that is thrown away.
struct Pair {
    folder: TempDir,
}

impl Pair {
    fn new(before: &Value, after: &Value) -> Pair {
        let pair = Pair { folder: TempDir::new().unwrap() };
        pair.write("before.json", &before.to_string());
        pair.write("after.json", &after.to_string());
        pair
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn compare(&self, options: &[&str]) -> Command {
        let mut command = paratick(&["compare", "before.json", "after.json"]);
        command.args(options).current_dir(self.folder.path());
        command
    }

    /// What it says where it ends with `code`.
    fn text(&self, options: &[&str], code: i32) -> String {
        let run = self.compare(options).assert().code(code);
        String::from_utf8(run.get_output().stdout.clone()).unwrap()
    }

    fn json(&self, options: &[&str]) -> Value {
        let text = self.text(&[options, &["--format", "json"]].concat(), 0);
        serde_json::from_str(&text).unwrap()
    }

    /// The message of a refusal.
    fn refused(&self, words: &[&str]) {
        let run = self.compare(&[]).assert().code(2);
        let output = run.get_output();
        let said = String::from_utf8(output.stderr.clone()).unwrap();
        for word in words.iter().chain(&["hint: "]) {
            assert!(said.contains(word), "{word} is not in {said}");
        }
        assert!(output.stdout.is_empty());
    }
}

/// Four rounds of two samples of each cell: workload, mode, exits.
fn results(cells: &[(&str, &str, u64)]) -> Value {
    let samples = |exits: u64| -> Vec<Value> {
        let sample = |n: u64| {
            json!({
                "round": n / 2 + 1, "repeat": n % 2 + 1,
                "exits": {
                    "total": exits + n, "by_reason": {},
                    "by_cause": {"arm": exits / 2, "halt": exits / 2 + n},
                    "msr_writes": {"TSC_DEADLINE": exits / 2}, "ticks_delivered": null,
                },
            })
        };
        (0..8).map(sample).collect()
    };
    let subject = |mode: &str| json!({ "mode": mode, "host": { "halt-poll": 0 } });
    let subjects = ["tickless", "paratick-ticks", "periodic"].map(subject);
    let cell = |(workload, mode, exits): &(&str, &str, u64)| {
        json!({
            "workload": workload, "subject": subject(mode), "vcpus": 2, "work": 100,
            "unit": "round trips",
            "readings": {
                "exits": {"samples": samples(*exits), "summary": {}, "versus": {}}, "idle": null,
            },
        })
    };
    json!({
        "schema": SCHEMA,
        "tool_version": "0.1.0",
        "bench": "quick",
        "started": "2026-01-01T00:00:00Z",
        "plan": {
            "vcpus": 2, "subjects": subjects,
            "workloads": [], "rounds": 4, "repeats": 2,
        },
        "environment": {
            "kernel_version": "6.12.1", "host_kernel_version": "6.12.1",
            "configuration": {
                "kernel_sha256": "", "host_kernel_sha256": "", "guest_memory_bytes": 1,
                "host_cpus": 3, "host_memory_bytes": 1, "host_is_machine": false,
            },
            "qemu_command_lines": {"host": [], "guests": {}},
            "machine": {"cpu": "a \
             processor", "cpus": 2, "memory_bytes": 1, "kernel_version": "6.1"},
            "fingerprint": "one",
        },
        "problems": [],
        "cells": cells.iter().map(cell).collect::<Vec<_>>(),
    })
}

const CALM: [(&str, &str, u64); 2] =
    [("pingpong", "tickless", 4000), ("idle", "paratick-ticks", 300)];

fn slower() -> Value {
    results(&[("pingpong", "tickless", 5000), ("idle", "paratick-ticks", 310)])
}

#[test]
fn a_file_against_itself_has_not_changed() {
    let pair = Pair::new(&results(&CALM), &results(&CALM));
    insta::assert_snapshot!(pair.text(&["--fail-on", "any"], 0));
}

#[test]
fn a_change_is_named_with_its_size() {
    let pair = Pair::new(&results(&CALM), &slower());
    insta::assert_snapshot!(pair.text(&[], 0));
}

#[test]
fn the_gate_that_stopped_a_change_is_said_when_asked() {
    let pair = Pair::new(&results(&CALM), &slower());
    let exits_of_idle = |options: &[&str]| {
        let text = pair.text(&[&["--verbose"], options].concat(), 0);
        let row = |line: &&str| line.contains("idle paratick-ticks ") && line.contains("VM exits");
        text.lines().find(row).unwrap_or(&text).to_string()
    };
    assert!(exits_of_idle(&[]).ends_with("too small to matter"));
    let none = ["--minimum", "exits=0"];
    assert!(exits_of_idle(&none).ends_with("more"));
    let wide = ["--minimum", "exits=0", "--threshold", "5"];
    assert!(exits_of_idle(&wide).ends_with("within the noise"));
    insta::assert_snapshot!(pair.text(&["--verbose"], 0));
}

#[test]
fn json_says_outcome_gate_and_interval() {
    let json = Pair::new(&results(&CALM), &slower()).json(&["--threshold", "4"]);
    assert_eq!(json["schema"], "paratick-comparison/2");
    assert_eq!(json["gates"]["noise"], 0.04);
    assert_eq!(json["gates"]["sizes"]["exits"], 25.0);
    let exits = &json["cells"][0]["figures"][0];
    assert_eq!((&exits["figure"], &exits["outcome"]), (&json!("exits"), &json!("more")));
    assert_eq!(exits["stopped_by"], Value::Null);
    assert!(exits["versus"]["low"].as_f64().unwrap() > 1.2);
    let idle = &json["cells"][1]["figures"][0];
    assert_eq!(idle["outcome"], "no-difference-shown");
    assert_eq!(idle["stopped_by"], "size");
    let not_measured = &json["cells"][1]["figures"][4];
    assert_eq!(not_measured["outcome"], "not-measured");
    assert_eq!(not_measured["before"], Value::Null);
}

#[test]
fn it_fails_only_when_asked_and_only_for_what_was_asked() {
    let more = Pair::new(&results(&CALM), &slower());
    let less = Pair::new(&slower(), &results(&CALM));
    for (pair, fail_on, code) in
        [(&more, "more", 1), (&more, "any", 1), (&less, "more", 0), (&less, "any", 1)]
    {
        pair.compare(&["--fail-on", fail_on]).assert().code(code);
    }
    more.compare(&[]).assert().code(0);
}

#[test]
fn too_few_rounds_conclude_nothing() {
    let mut few = slower();
    for cell in few["cells"].as_array_mut().unwrap() {
        cell["readings"]["exits"]["samples"].as_array_mut().unwrap().truncate(3);
    }
    let pair = Pair::new(&results(&CALM), &few);
    // Which is not the same as no change.
    insta::assert_snapshot!(pair.text(&["--fail-on", "any"], 69));
    pair.text(&[], 0);
}

#[test]
fn what_else_differs_comes_before_the_numbers() {
    let mut after = slower();
    after["environment"]["kernel_version"] = "6.12.2".into();
    after["environment"]["patch_set_hash"] = "0123456789abcdef".into();
    insta::assert_snapshot!(Pair::new(&results(&CALM), &after).text(&[], 0));
    // What several guests do together is not what one does.
    after["plan"]["guests"] = 4.into();
    Pair::new(&results(&CALM), &after).refused(&["guests"]);
}

/// A file of before there was another has none of it.
#[test]
fn another_disk_device_is_named_and_no_device_is_virtio_blk() {
    let mut after = results(&CALM);
    after["plan"]["disk_device"] = "virtio-blk".into();
    let text = Pair::new(&results(&CALM), &after).text(&[], 0);
    assert!(!text.contains("guest's disk"), "{text}");
    after["plan"]["disk_device"] = "nvme".into();
    let text = Pair::new(&results(&CALM), &after).text(&[], 0);
    let named = |line: &str| {
        ["device of a guest's disk", "virtio-blk", "nvme"].iter().all(|word| line.contains(word))
    };
    assert!(text.lines().any(named), "{text}");
}

#[test]
fn cells_of_one_file_only_are_named() {
    let before = results(&[("pingpong", "tickless", 4000), ("block", "periodic", 100)]);
    insta::assert_snapshot!(Pair::new(&before, &slower()).text(&[], 0));
}

#[test]
fn files_of_other_benches_and_vcpus_are_compared_where_they_did_the_same() {
    let mut after = slower();
    after["bench"] = "io".into();
    after["plan"]["vcpus"] = 4.into();
    after["cells"][1]["work"] = 200.into();
    insta::assert_snapshot!(Pair::new(&results(&CALM), &after).text(&[], 0));
}

#[test]
fn nothing_in_common_is_wrong_usage() {
    let other = results(&[("sleep", "periodic", 100)]);
    Pair::new(&results(&CALM), &other).refused(&["no workload in common", "before.json"]);
    let mut more = results(&CALM[..1]);
    more["cells"][0]["work"] = 7.into();
    Pair::new(&results(&CALM), &more).refused(&["did 100 round trips before and 7"]);
    Pair::new(&results(&CALM), &results(&[])).refused(&["no workload in common"]);
    let timeline = "../../tests/results/timeline.json";
    let output = paratick(&["compare", timeline, timeline]).assert().code(2).get_output().clone();
    assert!(String::from_utf8_lossy(&output.stderr).contains("no workload in common"));
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_the_reason() {
    let pair = Pair::new(&results(&CALM), &results(&CALM));
    let whole = results(&CALM).to_string();
    for (text, why) in [
        (&whole[..whole.len() / 2], "ends in the middle"),
        ("", "it is empty"),
        ("hello", "not JSON"),
        ("{\"my\": \"notes\"}", "not a results file"),
        ("{\"schema\": \"paratick-results/9\"}", "paratick-results/9"),
    ] {
        pair.write("after.json", text);
        pair.refused(&["after.json", why]);
    }
    fs::remove_file(pair.folder.path().join("before.json")).unwrap();
    pair.refused(&["before.json", "No such file"]);
}
