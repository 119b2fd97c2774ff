// SPDX-License-Identifier: GPL-2.0-only
//! `paratick noise`, of a recording: it boots nothing.

use crate::support::paratick;
use serde_json::json;
use tempfile::TempDir;

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cli/recorded-noise.json");

fn explained(options: &[&str]) -> String {
    let mut noise = paratick(&["noise", "--recording", RECORDING]);
    let output = noise.args(options).assert().success();
    String::from_utf8(output.get_output().stdout.clone()).unwrap()
}

#[test]
fn a_recording_says_where_the_time_went() {
    insta::assert_snapshot!(explained(&["--gaps", "2"]));
}

#[test]
fn programs_get_every_gap() {
    let report: serde_json::Value =
        serde_json::from_str(&explained(&["--format", "json"])).unwrap();
    assert_eq!(report["schema"], "paratick-noise/1");
    let gaps = report["ledger"]["entries"].as_array().unwrap();
    assert_eq!((gaps.len(), &report["unexplained_gaps"]), (18, &0.into()));
    for gap in gaps {
        let events = gap["events"].as_array().unwrap();
        let sum: u64 = events.iter().map(|event| event["ns"].as_u64().unwrap()).sum();
        assert_eq!(gap["ns"], sum, "{gap}");
    }
}

#[test]
fn only_long_gaps_are_explained_if_asked() {
    assert!(explained(&["--above", "30us"]).contains("CPU 0 at"));
    assert!(!explained(&["--above", "31us"]).contains("The longest gaps"));
}

#[test]
fn exits_are_compared_with_the_emulator_s_world_switches() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("audited.json");
    let text = std::fs::read_to_string(RECORDING).unwrap();
    let mut recording: serde_json::Value = serde_json::from_str(&text).unwrap();
    recording["host"]["absences"][0]["audited"] = true.into();
    for (world_switches, code) in [(1, 0), (2, 1)] {
        recording["host"]["audit"] = json!({ "exits": 1, "world_switches": world_switches });
        std::fs::write(&file, recording.to_string()).unwrap();
        let mut noise = paratick(&["noise", "--recording", file.to_str().unwrap()]);
        let output = noise.assert().code(code);
        let text = String::from_utf8_lossy(&output.get_output().stdout).replace("\n  ", " ");
        let counts = format!("= 1 exits; the emulator counted {world_switches} world switches");
        assert!(text.contains(&counts), "{text}");
    }
}

#[test]
fn the_fewest_knobs_for_a_budget_are_named() {
    let text = explained(&["--budget", "10us", "--gaps", "0"]);
    let (_, plan) = text.split_once("longer than 10.0 µs, the fewest knobs").expect(&text);
    assert!(plan.contains("\n- ") && plan.contains("Predicted: the longest gap"), "{plan}");
    let report: serde_json::Value =
        serde_json::from_str(&explained(&["--budget", "10us", "--format", "json"])).unwrap();
    assert_eq!(
        (&report["budget"]["budget_ns"], &report["budget"]["still_over"]),
        (&10_000.into(), &0.into())
    );
    assert!(report["budget"]["longest_ns"].as_u64().unwrap() <= 10_000);
}

#[test]
fn scripts_for_rtla_can_read_it() {
    let top = explained(&["--rtla", "top"]);
    let row: Vec<&str> = top.lines().nth(3).unwrap().split_whitespace().collect();
    assert_eq!((row.len(), row[0]), (15, "0"), "{top}");
    let hist = explained(&["--rtla", "hist"]);
    assert!(hist.contains("\ncount:       18\n"), "{hist}");
}

#[test]
fn without_a_guest_there_are_no_gaps_to_plan_for() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("host.json");
    let text = std::fs::read_to_string(RECORDING).unwrap();
    let mut recording: serde_json::Value = serde_json::from_str(&text).unwrap();
    recording["guest"] = serde_json::Value::Null;
    std::fs::write(&file, recording.to_string()).unwrap();
    for options in [["--budget", "10us"], ["--rtla", "top"]] {
        let mut noise = paratick(&["noise", "--recording", file.to_str().unwrap()]);
        let output = noise.args(options).assert().code(2);
        let error = String::from_utf8(output.get_output().stderr.clone()).unwrap();
        assert!(error.contains("hint: record the guest's side, too"), "{error}");
    }
}

#[test]
fn only_an_emulated_cpu_can_be_stalled() {
    let refused = |options: &[&str], hint: &str| {
        let mut noise = paratick(&["noise", "--stall"]);
        let output = noise.args(options).assert().code(2);
        let error = String::from_utf8(output.get_output().stderr.clone()).unwrap();
        assert!(error.contains(hint), "{error}");
    };
    refused(&["30us"], "hint: give two times");
    refused(&["2s@10ms"], "hint: give two times");
    refused(&["30us@10ms", "--host", "here"], "hint: leave --stall");
    refused(&["30us@10ms", "--side", "guest"], "hint: leave --stall");
}
