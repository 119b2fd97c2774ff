// SPDX-License-Identifier: GPL-2.0-only
//! `paratick bench timeline`: what is wrong is said before anything is built or booted.

use crate::support::paratick;
use assert_cmd::Command;
use std::fs;
use tempfile::TempDir;

/// `paratick bench timeline` that could boot nothing: its cache is empty and its agent missing.
fn timeline(cache: &TempDir, args: &[&str]) -> Command {
    let mut command = paratick(&["bench", "timeline"]);
    command.args(args).env("PARATICK_CACHE", cache.path()).env("PARATICK_AGENT", "/no/such/agent");
    command
}

#[test]
fn without_its_agent_it_could_not_run_and_leaves_the_output_alone() {
    let cache = TempDir::new().unwrap();
    let file = cache.path().join("t.json");
    fs::write(&file, "before").unwrap();
    let args = ["--output", file.to_str().unwrap()];
    let output = timeline(&cache, &args).assert().code(69).get_output().clone();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("/no/such/agent") && said.contains("hint: "), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "before");
}
