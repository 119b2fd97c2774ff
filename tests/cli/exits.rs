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
