// SPDX-License-Identifier: GPL-2.0-only
//! `paratick bench quick`: what is wrong is said before anything is built or booted.

use crate::{support::paratick, synthetic};
use assert_cmd::Command;
use std::fs;
use tempfile::TempDir;

/// `paratick bench quick` that could boot nothing: its cache is empty and its agent missing.
fn quick(cache: &TempDir, args: &[&str]) -> Command {
    let mut command = paratick(&["bench", "quick"]);
    command.args(args).env("PARATICK_CACHE", cache.path()).env("PARATICK_AGENT", "/no/such/agent");
    command
}

/// Exit code 2, and a message with every one of `words` and a hint.
fn refused(args: &[&str], words: &[&str]) {
    let cache = TempDir::new().unwrap();
    let output = quick(&cache, args).assert().code(2).get_output().clone();
    let said = String::from_utf8(output.stderr).unwrap();
    for word in words {
        assert!(said.contains(word), "{args:?} said {said}");
    }
    assert!(said.contains("hint: ") || said.contains("--help"), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_file_of_another_kind_is_not_overwritten() {
    let folder = TempDir::new().unwrap();
    let notes = folder.path().join("notes.json");
    for (text, why) in [
        ("{\"my\": \"notes\"}", "not a results file"),
        ("{\"schema\": \"paratick-results/9\"}", "paratick-results/9"),
        ("{\"schema\": \"paratick-res", "ends in the middle"),
        ("", "it is empty"),
    ] {
        fs::write(&notes, text).unwrap();
        let path = notes.to_str().unwrap();
        refused(&["--output", path], &[path, why]);
        assert_eq!(fs::read_to_string(&notes).unwrap(), text);
    }
}

#[test]
fn bench_idle_refuses_numbers_of_guests_that_it_cannot_count_together() {
    let cache = TempDir::new().unwrap();
    for (guests, words) in [
        ("0", ["'0'", "1..=64"]),
        ("65", ["'65'", "1..=64"]),
        ("many", ["'many'", "invalid digit"]),
        ("5,2,5", ["number of guests 5 is named twice", "--guests"]),
    ] {
        let mut bench = paratick(&["bench", "idle", "--guests", guests]);
        bench.env("PARATICK_CACHE", cache.path()).env("PARATICK_AGENT", "/no/such/agent");
        let output = bench.assert().code(2).get_output().clone();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(words.iter().all(|word| said.contains(word)), "{guests}: {said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn files_of_idle_guests_are_shown_together_and_no_others_are() {
    let folder = TempDir::new().unwrap();
    let files = synthetic::write_idle(folder.path());
    let shown = |more: &[&str]| {
        let mut show = paratick(&["bench", "show"]);
        show.args(&files).args(more);
        show
    };
    let text = shown(&[]).assert().success().get_output().stdout.clone();
    insta::assert_snapshot!(String::from_utf8(text).unwrap());
    let json = shown(&["--format", "json"]).assert().success().get_output().stdout.clone();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["results"].as_array().unwrap().len(), files.len());
    let slopes = json["slopes"].as_array().unwrap();
    let timers = slopes.iter().find(|slope| slope["cost"] == "vcpu-timers").unwrap();
    assert_eq!((&timers["mode"], &timers["hz"]), (&"periodic".into(), &250.into()));
    assert!((timers["per_guest"]["slope"].as_f64().unwrap() - 250.0).abs() < 1e-6);
    // A row for each number of guests in each mode.
    let rows = json["rows"].as_array().unwrap();
    let is_one = |row: &&serde_json::Value| row["mode"] == "periodic" && row["guests"] == 2;
    let row = rows.iter().find(is_one).unwrap();
    let median = row["summary"]["vcpu-timers"]["median"].as_f64().unwrap();
    assert!((median - 500.0).abs() < 10.0, "{row}");
    let other = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cli/recorded.json");
    let refused = shown(&[other]).assert().code(2).get_output().clone();
    assert!(String::from_utf8(refused.stderr).unwrap().contains("4 files are too many"));
    assert!(refused.stdout.is_empty());
}

#[test]
fn bench_noise_refuses_hosts_and_guests_on_which_nothing_can_be_isolated() {
    let cache = TempDir::new().unwrap();
    for (options, words) in [
        (&["--vcpus", "1"][..], ["--vcpus 1 is too few", "hint: give at least 2"]),
        (&["--host-cpus", "4,3"], ["--host-cpus 3 is too few for --vcpus 3", "hint: "]),
        (&["--host-cpus", "4,4"], ["number of CPUs 4 is named twice", "--host-cpus"]),
        (&["--isolate", "both,both"], ["isolation both is named twice", "--isolate"]),
        (&["--isolate", "all"], ["'all'", "none, host, guest, both"]),
        (&["--window", "5"], ["'5'", "100..=10000"]),
        (&["--host", "here"], ["CPUs are isolated when a host boots", "hint: "]),
        (&["--kernel", "6.12-base"], ["6.12-base has no mode", "hint: "]),
    ] {
        let mut bench = paratick(&["bench", "noise"]);
        bench.args(options).env("PARATICK_CACHE", cache.path());
        bench.env("PARATICK_AGENT", "/no/such/agent");
        let output = bench.assert().code(2).get_output().clone();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(words.iter().all(|word| said.contains(word)), "{options:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn files_of_an_idle_guest_are_shown_beside_what_was_printed() {
    let folder = TempDir::new().unwrap();
    let files = synthetic::write_mileage(folder.path());
    let shown = |more: &[&str]| {
        let mut show = paratick(&["bench", "show"]);
        show.args(&files).args(more);
        String::from_utf8(show.assert().success().get_output().stdout.clone()).unwrap()
    };
    let text = shown(&[]);
    for told in [
        "An idle guest, by mode",
        "With a timer that samples on each CPU",
        "When the sampler is served",
        "By clock device",
        "What each step changes",
        "Warehouse, by who balances load",
        "its own tick (periodic)",
        "59 (“59.59”)",
        "equal to the exits in all",
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
    let json: serde_json::Value = serde_json::from_str(&shown(&["--format", "json"])).unwrap();
    let rows = json["rows"].as_array().unwrap();
    let deferrable = rows.iter().find(|row| row["deferrable_sampler"] == true).unwrap();
    assert_eq!(deferrable["summary"]["sampler-wake-ups"]["median"], 0.0);
    let pit = rows.iter().find(|row| row["clock_device"] == "pit").unwrap();
    assert_eq!(pit["summary"]["sampler-wake-ups"], serde_json::Value::Null);
}

#[test]
fn bench_idle_tables_refuses_parts_that_there_are_not_and_programs_without_a_guest() {
    let own = ["--program", "a=true"];
    for (parts, more, words) in [
        ("table5", &[][..], ["no such part", "modes, sampler, clocks, together, balance"]),
        ("modes,modes", &[], ["part modes is named twice", "--parts"]),
        ("modes", &own[..], ["--parts leaves that out", "hint: add balance"]),
        ("modes", &["--vcpus", "8"], ["--vcpus is for guests of Table 5", "hint: add balance"]),
        (
            "balance",
            &["--program", "warehouse=true"][..],
            ["of a program of the bench", "another name"],
        ),
        ("balance", &[own, own].concat()[..], ["program a is named twice", "--program"]),
    ] {
        let mut bench = paratick(&["bench", "idle-tables", "--parts", parts]);
        bench.args(more);
        let output = bench.env("PARATICK_AGENT", "/no/such/agent").assert().code(2);
        let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
        assert!(words.iter().all(|word| said.contains(word)), "{parts}: {said}");
    }
}

#[test]
fn files_of_noise_are_shown_together_with_what_isolating_changes() {
    let folder = TempDir::new().unwrap();
    let files = synthetic::write_isolated(folder.path());
    let shown = |more: &[&str]| {
        let mut show = paratick(&["bench", "show"]);
        show.args(&files).args(more).assert().success().get_output().stdout.clone()
    };
    insta::assert_snapshot!(String::from_utf8(shown(&[])).unwrap());
    let json: serde_json::Value = serde_json::from_slice(&shown(&["--format", "json"])).unwrap();
    assert_eq!(json["results"].as_array().unwrap().len(), files.len());
    let claims = json["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 12);
    // Beside these the medians of the tables.
    let rows = json["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["summary"]["steal"]["median"].is_number()), "{rows:?}");
    assert!(rows.len() >= 4 && rows.iter().any(|row| row["isolated"] == "both"), "{rows:?}");
    let steal = &claims[0];
    assert_eq!((&steal["claim"]["figure"], &steal["sign"]), (&"steal".into(), &"less".into()));
    assert_eq!((&steal["concluded"], &steal["mode"]), (&true.into(), &"tickless".into()));
}

#[test]
fn nothing_to_resume_is_said() {
    refused(&["--resume"], &["nothing to resume"]);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("none.json");
    let path = path.to_str().unwrap();
    refused(&["--resume", "--output", path], &["nothing to resume", path]);
}

#[test]
fn the_help_names_every_option_and_exit_code() {
    let help = paratick(&["bench", "quick", "--help"]).assert().success();
    let text = String::from_utf8(help.get_output().stdout.clone()).unwrap();
    for word in ["--modes", "--workloads", "--resume", "--output", "69", "docs/bench.md"] {
        assert!(text.contains(word), "{word} is not in {text}");
    }
}

#[test]
fn a_recorded_file_is_shown_as_tables_and_as_json() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cli/recorded.json");
    let show = |options: &[&str]| {
        let shown = paratick(&[&["bench", "show", file], options].concat()).assert().success();
        String::from_utf8(shown.get_output().stdout.clone()).unwrap()
    };
    insta::assert_snapshot!(show(&[]));
    let shown = paratick_core::results::read(&show(&["--format", "json"])).unwrap();
    let recorded = paratick_core::results::read(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(shown.cells.len(), recorded.cells.len());
    for (shown, recorded) in shown.cells.iter().zip(&recorded.cells) {
        assert_eq!(shown.samples(), recorded.samples());
    }
}

#[test]
fn names_in_a_file_do_not_steer_the_terminal() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("r.json");
    let evil = include_str!("recorded.json").replace("\"pingpong\"", r#""\u001b[31m\u009bping""#);
    fs::write(&file, evil).unwrap();
    let path = file.to_str().unwrap();
    for args in [
        &["bench", "show", path][..],
        &["bench", "show", path, "--format", "json"],
        &["compare", path, path],
        &["model", "--from", path],
    ] {
        let output = paratick(args).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(said.contains(r"\u001b[31m\u009bping"), "{args:?} said {said}");
        assert!(!said.contains(['\u{1b}', '\u{9b}']), "{said:?}");
    }
}
