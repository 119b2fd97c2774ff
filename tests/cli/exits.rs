// SPDX-License-Identifier: GPL-2.0-only
//! `paratick exits`, of files: what runs is looked at by tests/boot/exits.rs.

use crate::support::paratick;
use serde_json::Value;

const FILES: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cli/recorded-exits-before.json"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cli/recorded-exits-after.json"),
];

fn compared(options: &[&str]) -> String {
    let mut exits = paratick(&["exits", "--compare", FILES[0], FILES[1]]);
    let output = exits.args(options).assert().success();
    String::from_utf8(output.get_output().stdout.clone()).unwrap()
}

/// Of `perf record -e kvm:kvm_entry -e kvm:kvm_exit` on the lab's host, with tests/boot/exits/vm.c.
const PERF: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cli/recorded-exits-perf.data");

#[test]
fn a_recording_of_perf_s_is_shown_and_what_it_lacks_is_said() {
    let shown = paratick(&["exits", "--recording", PERF]).assert().success();
    insta::assert_snapshot!(String::from_utf8(shown.get_output().stdout.clone()).unwrap());
    let csv = paratick(&["exits", "--recording", PERF, "--format", "csv"]).assert().success();
    let said = String::from_utf8(csv.get_output().stderr.clone()).unwrap();
    assert!(said.contains("Not recorded: kvm_msr"), "{said}");
    let csv = String::from_utf8(csv.get_output().stdout.clone()).unwrap();
    let cpuid = csv.lines().find(|line| line.contains(",cpuid,")).unwrap();
    assert!(cpuid.contains(",20,") && csv.starts_with("vm,process,"), "{csv}");
}

#[test]
fn a_process_that_is_not_in_a_recording_is_refused() {
    let refused = paratick(&["exits", "--recording", PERF, "--vm", "web"]).assert().code(2);
    let said = String::from_utf8(refused.get_output().stderr.clone()).unwrap();
    assert!(said.contains("no VM 'web' was recorded\nhint: give --vm "), "{said}");
}

#[test]
fn two_files_show_what_is_different() {
    insta::assert_snapshot!(compared(&[]));
}

#[test]
fn programs_get_the_same_numbers() {
    let change: Value = serde_json::from_str(&compared(&["--format", "json"])).unwrap();
    assert_eq!(change["schema"], "paratick-exits-change/1");
    let vms = change["vms"].as_array().unwrap();
    let names: Vec<_> = vms.iter().map(|vm| vm["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["db-3", "db-9", "web"]);
    let all = vms[2]["causes"].as_array().unwrap().last().unwrap();
    assert_eq!(all["cause"], Value::Null);
    assert!(all["before"]["exits_per_second"].as_f64().unwrap() > 0.0);
}
