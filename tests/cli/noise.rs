// SPDX-License-Identifier: GPL-2.0-only
//! `paratick noise`, of a recording: it boots nothing.

use crate::support::paratick;

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
