// SPDX-License-Identifier: GPL-2.0-only
//! `paratick halts`, of a recording: it boots nothing.

use crate::support::paratick;
use paratick_core::halts::{Halt, Halts, Maximum, Rule, VcpuHalts};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cli/recorded-halts.json");

fn replayed(options: &[&str]) -> String {
    let mut tune = paratick(&["halts", "--recording", RECORDING]);
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

/// Two VMs whose halts were blocked for: short ones that are worth polling for, and longer ones
/// that are not.
fn mixed(second: Maximum) -> tempfile::NamedTempFile {
    let rule = Some(Rule::Host("none".parse().unwrap()));
    let vcpu = |process: u32, us: u64, maximum: Maximum| {
        let halts = (0..1000).map(|nth| Halt::blocked(nth * us * 1000, us * 1000)).collect();
        VcpuHalts { process: Some(process), rule, maximum, halts, ..VcpuHalts::default() }
    };
    let vcpus = vec![vcpu(812, 20, Maximum::Module), vcpu(813, 150, second)];
    let file = tempfile::NamedTempFile::new().unwrap();
    let halts = Halts { window_ns: 200_000_000, vcpus, ..Halts::default() };
    serde_json::to_writer(file.as_file(), &halts).unwrap();
    file
}

fn of_mixed(second: Maximum, options: &[&str]) -> String {
    let file = mixed(second);
    let mut tune = paratick(&["halts", "--cost", "50000", "--recording"]);
    let output = tune.arg(file.path()).args(options).assert().success();
    String::from_utf8(output.get_output().stdout.clone()).unwrap()
}

#[test]
fn two_vms_with_opposite_wishes_are_told_apart() {
    insta::assert_snapshot!(of_mixed(Maximum::Module, &[]));
}

#[test]
fn a_vm_with_its_own_maximum_is_said_to_be_unaffected() {
    insta::assert_snapshot!(of_mixed(Maximum::Own(300_000), &[]));
}

#[test]
fn a_maximum_of_which_little_is_known_makes_no_number() {
    let text = of_mixed(Maximum::Traced { least: 250_001, most: None }, &[]);
    assert!(text.contains("its own, at least 250 µs\n"), "{text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains("the rules' costs are without this VM."), "{text}");
    assert!(text.contains("for these 1 000 halts"), "{text}");
}

#[test]
fn programs_get_each_vm_and_who_wins_and_who_loses() {
    let text = of_mixed(Maximum::Own(300_000), &["--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let of = |vm: usize| &report["vms"][vm];
    assert_eq!((&of(0)["process"], &of(0)["maximum"]), (&812.into(), &"module".into()));
    assert_eq!(of(1)["maximum"]["own"], 300_000);
    assert_eq!((&of(0)["best"]["name"], &of(1)["best"]["name"]), (&"2021".into(), &"none".into()));
    let default = |vm: usize| {
        let rules = of(vm)["rules"].as_array().unwrap();
        rules.iter().find(|rule| rule["name"] == "default").unwrap()["outcome"].clone()
    };
    assert_eq!((default(0), default(1)), ("wins".into(), "same".into()));
}

#[test]
fn one_of_several_vms_can_be_looked_at() {
    let text = of_mixed(Maximum::Module, &["--vm", "813", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((report["vms"].as_array().unwrap().len(), &report["halts"]), (1, &1000.into()));
    assert_eq!(report["vms"][0]["process"], 813);
    let file = mixed(Maximum::Module);
    let mut tune = paratick(&["halts", "--vm", "7", "--recording"]);
    let output = tune.arg(file.path()).assert().code(2);
    let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert_eq!(said, "error: no VM '7' was recorded\nhint: give --vm 812 or --vm 813\n");
}
