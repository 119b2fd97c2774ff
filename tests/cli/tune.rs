// SPDX-License-Identifier: GPL-2.0-only
//! `paratick tune`, of a recording: it boots nothing.

use crate::support::paratick;

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cli/recorded-halts.json");

fn replayed(options: &[&str]) -> String {
    let mut tune = paratick(&["tune", "halt-poll", "--recording", RECORDING]);
    let output = tune.args(options).assert().success();
    String::from_utf8(output.get_output().stdout.clone()).unwrap()
}

#[test]
fn a_recording_says_what_each_rule_would_have_cost() {
    insta::assert_snapshot!(replayed(&[]));
}

#[test]
fn programs_get_the_same_numbers() {
    let text = replayed(&["--cost", "20000", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["schema"], "paratick-tune-halt-poll/1");
    assert_eq!((&report["cost_ns"], &report["cost_from"]), (&20_000.into(), &"option".into()));
    assert_eq!(report["recorded"]["halts"], report["halts"]);
    for vcpu in report["verified"].as_array().unwrap() {
        assert!(vcpu["difference"].is_null(), "{vcpu}");
    }
    let names: Vec<_> = report["rows"].as_array().unwrap().iter().map(|row| &row["name"]).collect();
    assert_eq!(names, ["none", "2021", "paper", "paper-floor", "default", "learned"]);
}
