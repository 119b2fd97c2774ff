// SPDX-License-Identifier: GPL-2.0-only
//! `paratick timerlat`, of a recording: it boots nothing.

use crate::support::paratick;
use serde_json::Value;
use tempfile::TempDir;

const RECORDING: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cli/recorded-timerlat.json");

fn explained(file: &str, options: &[&str]) -> String {
    let mut timerlat = paratick(&["timerlat", "--recording", file]);
    let output = timerlat.args(options).assert().success();
    String::from_utf8(output.get_output().stdout.clone()).unwrap()
}

#[test]
fn a_recording_says_what_latency_consists_of() {
    insta::assert_snapshot!(explained(RECORDING, &["--worst", "2"]));
}

#[test]
fn programs_get_every_activation_and_its_parts_add_up() {
    let report: Value = serde_json::from_str(&explained(RECORDING, &["--format", "json"])).unwrap();
    assert_eq!(report["schema"], "paratick-timerlat/1");
    let activations = report["activations"].as_array().unwrap();
    assert_eq!(activations.len(), 4);
    for one in activations {
        let part = |name: &str| one["parts"][name].as_u64().unwrap();
        let until = ["timer", "wake", "entry", "injection", "irq", "irq_exits"].map(part);
        let irq = until.iter().sum::<u64>();
        assert_eq!(one["irq_ns"], irq, "{one}");
        assert_eq!(one["thread_ns"], irq + part("thread") + part("thread_exits"), "{one}");
    }
}

/// A tenant has only the guest's part of it.
#[test]
fn without_a_host_the_time_until_the_interrupt_is_one_part() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("guest.json");
    let text = std::fs::read_to_string(RECORDING).unwrap();
    let mut recording: Value = serde_json::from_str(&text).unwrap();
    recording["host"] = Value::Null;
    recording["process"] = Value::Null;
    std::fs::write(&file, recording.to_string()).unwrap();
    let text = explained(file.to_str().unwrap(), &[]);
    assert!(text.contains("until the guest's IRQ"), "{text}");
    assert!(!text.contains("wake-up") && !text.contains("Exits on the way"), "{text}");
}
