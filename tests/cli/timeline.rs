// SPDX-License-Identifier: GPL-2.0-only
//! `paratick bench timeline`: what is wrong is said before anything is built or booted.

use crate::support::paratick;
use assert_cmd::Command;
use std::fs;
use tempfile::TempDir;

/// `paratick bench timeline` that could boot nothing: its cache is empty and its agent missing.
fn timeline(cache: &TempDir, args: &[&str]) -> Command {
    let mut command = paratick(&["bench", "timeline"]);
    command
        .args(args)
        .env("PARATICK_CACHE", cache.path())
        .env("PARATICK_AGENT", "/no/such/agent");
    command
}

/// Exit code 2, and a message with every one of `words` and a hint.
fn refused(args: &[&str], words: &[&str]) {
    let cache = TempDir::new().unwrap();
    let output = timeline(&cache, args).assert().code(2).get_output().clone();
    let said = String::from_utf8(output.stderr).unwrap();
    for word in words {
        assert!(said.contains(word), "{args:?} said {said}");
    }
    assert!(said.contains("hint: ") || said.contains("--help"), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_workload_without_idle_cycles_is_refused_with_those_that_have_them() {
    refused(&["--workload", "cpu"], &["'cpu'", "pingpong", "sleep"]);
    refused(&["--workload", "sort"], &["'sort'"]);
    refused(
        &["--vcpus", "1"],
        &["pingpong", "--vcpus 2", "--workload sleep"],
    );
}

#[test]
fn modes_that_do_not_exist_or_stand_twice_are_refused() {
    refused(&["--modes", "tickless,fast"], &["'fast'", "tickless-stop"]);
    refused(&["--modes", "paratick,paratick"], &["named twice"]);
    refused(
        &["--kernel", "6.12-base"],
        &["6.12-base", "no mode tickless-stop"],
    );
}

#[test]
fn numbers_out_of_range_are_refused() {
    refused(&["--vcpus", "0"], &["--vcpus"]);
    refused(&["--exit-cost", "1000001"], &["--exit-cost"]);
    refused(&["--exit-cost", "2us"], &["--exit-cost"]);
    refused(&["--format", "xml"], &["--format"]);
}

#[test]
fn an_output_that_cannot_be_written_is_known_at_once() {
    for path in ["/proc/t.json", "/no/such/folder/t.json", "/dev/null", "/"] {
        refused(&["--output", path], &[path, "--output"]);
    }
}

#[test]
fn without_its_agent_it_could_not_run_and_leaves_the_output_alone() {
    let cache = TempDir::new().unwrap();
    let file = cache.path().join("t.json");
    fs::write(&file, "before").unwrap();
    let args = ["--output", file.to_str().unwrap()];
    let output = timeline(&cache, &args)
        .assert()
        .code(69)
        .get_output()
        .clone();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("/no/such/agent") && said.contains("hint: "),
        "{said}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "before");
}
