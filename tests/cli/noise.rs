// SPDX-License-Identifier: GPL-2.0-only
//! `paratick noise`, of a recording: it boots nothing.

use crate::support::paratick;
use serde_json::{json, Value};
use tempfile::{NamedTempFile, TempDir};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cli/recorded-noise.json");

fn explained(options: &[&str]) -> String {
    let mut noise = paratick(&["noise", "--recording", RECORDING]);
    let output = noise.args(options).assert().success();
    String::from_utf8(output.get_output().stdout.clone()).unwrap()
}

/// The recording with something changed, in a file.
fn changed(change: impl FnOnce(&mut Value)) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let text = std::fs::read_to_string(RECORDING).unwrap();
    let mut recording = serde_json::from_str(&text).unwrap();
    change(&mut recording);
    std::fs::write(&file, recording.to_string()).unwrap();
    file
}

/// What is said of it, in one line for each paragraph.
fn said(file: &NamedTempFile, options: &[&str], code: i32) -> String {
    let mut noise = paratick(&["noise", "--recording"]);
    let output = noise.arg(file.path()).args(options).assert().code(code);
    String::from_utf8_lossy(&output.get_output().stdout).replace("\n  ", " ")
}

#[test]
fn a_recording_says_where_the_time_went() {
    insta::assert_snapshot!(explained(&["--above", "15us"]));
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
    for (world_switches, code) in [(1, 0), (2, 1)] {
        let file = changed(|recording| {
            recording["host"]["absences"][0]["audited"] = true.into();
            recording["host"]["audit"] = json!({ "exits": 1, "world_switches": world_switches });
        });
        let text = said(&file, &[], code);
        let counts = format!("= 1 exits; the emulator counted {world_switches} world switches");
        assert!(text.contains(&counts), "{text}");
    }
}

#[test]
fn exits_that_were_left_out_did_not_go_on() {
    let file = changed(|recording| {
        recording["guest"] = Value::Null;
        recording["host"]["absences"][0]["audited"] = true.into();
        recording["host"]["audit"] = json!({ "exits": 1, "world_switches": 1 });
    });
    let text = said(&file, &["--above", "1s"], 0);
    assert!(text.contains("1 exits; the emulator counted 1 world switches"), "{text}");
    assert!(!text.contains("that went on"), "{text}");
}

#[test]
fn the_time_between_exits_is_compared_with_the_emulator_s_instructions() {
    let file = changed(|recording| {
        let exit = &mut recording["host"]["absences"][0];
        exit["audited"] = true.into();
        let (begin, ns) = (exit["begin_ns"].as_u64().unwrap(), exit["ns"].as_u64().unwrap());
        recording["host"]["audit"] = json!({
            "exits": 1, "world_switches": 1, "guest_instructions": [7, 1_000_000 - 1_200],
            "begin_ns": begin - 500_000, "end_ns": begin + ns + 500_000,
        });
    });
    let text = said(&file, &[], 0);
    assert!(text.contains("ran for 1 000 000 ns"), "{text}");
    assert!(text.contains("998 800 instructions of it"), "{text}");
    assert!(text.contains("+0.12 %, 1 200 ns for each exit"), "{text}");
}

#[test]
fn noise_over_time_is_a_page_of_its_own_and_nothing_else_is_replaced() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("noise.html");
    explained(&["--figure", file.to_str().unwrap()]);
    let page = std::fs::read_to_string(&file).unwrap();
    assert_eq!(page.matches("<svg ").count(), 2, "one for wide pages, one for narrow ones");
    for word in ["Steal, µs", "KVM and VMM, µs", "Where that time went"] {
        assert!(page.contains(word), "{word}");
    }
    explained(&["--figure", file.to_str().unwrap()]);
    let alone = folder.path().join("noise.svg");
    explained(&["--figure", alone.to_str().unwrap()]);
    explained(&["--figure", alone.to_str().unwrap()]);
    let drawn = std::fs::read_to_string(&alone).unwrap();
    assert!(drawn.starts_with("<svg xmlns=") && drawn.contains("Steal, µs"), "{drawn}");
    let refused = |recording: &str, figure: &std::path::Path, word: &str| {
        let mut noise = paratick(&["noise", "--recording", recording, "--figure"]);
        let output = noise.arg(figure).assert().code(2).get_output().clone();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(word) && said.contains("hint: "), "{said}");
        assert!(output.stdout.is_empty());
    };
    refused(RECORDING, &folder.path().join("noise.png"), "figure.html or figure.svg");
    refused(RECORDING, std::path::Path::new("/no/such/f.html"), "another file with --figure");
    let notes = folder.path().join("notes.html");
    std::fs::write(&notes, "mine").unwrap();
    refused(RECORDING, &notes, "is not a page");
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "mine");
    let mut recording: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(RECORDING).unwrap()).unwrap();
    recording["host"] = serde_json::Value::Null;
    let alone = folder.path().join("alone.json");
    std::fs::write(&alone, recording.to_string()).unwrap();
    refused(alone.to_str().unwrap(), &file, "the recordings of both sides");
}

#[test]
fn the_fewest_knobs_for_a_budget_are_named() {
    let text = explained(&["--budget", "10us", "--above", "1s"]);
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
    let top = explained(&["--format", "rtla-top"]);
    let row: Vec<&str> = top.lines().nth(3).unwrap().split_whitespace().collect();
    assert_eq!((row.len(), row[0]), (15, "0"), "{top}");
    let hist = explained(&["--format", "rtla-hist"]);
    assert!(hist.contains("\ncount:       18\n"), "{hist}");
}

#[test]
fn without_a_guest_there_are_no_gaps_to_plan_for() {
    let file = changed(|recording| recording["guest"] = Value::Null);
    for options in [["--budget", "10us"], ["--format", "rtla-top"]] {
        let mut noise = paratick(&["noise", "--recording"]);
        let output = noise.arg(file.path()).args(options).assert().code(2);
        let error = String::from_utf8(output.get_output().stderr.clone()).unwrap();
        assert!(error.contains("hint: record in the VM"), "{error}");
    }
}

#[test]
fn only_an_emulated_cpu_can_be_stalled() {
    let refused = |options: &[&str], hint: &str| {
        let mut noise = paratick(&["lab", "noise", "--stall"]);
        let output = noise.args(options).assert().code(2);
        let error = String::from_utf8(output.get_output().stderr.clone()).unwrap();
        assert!(error.contains(hint), "{error}");
    };
    refused(&["30us"], "hint: give two times");
    refused(&["2s@10ms"], "hint: give two times");
    refused(&["30us@10ms", "--accel", "kvm"], "hint: leave --stall");
    refused(&["30us@10ms", "--side", "guest"], "hint: leave --stall");
}

#[test]
fn an_incomplete_recording_says_so_before_all_else() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("incomplete.json");
    let text = std::fs::read_to_string(RECORDING).unwrap();
    let mut recording: Value = serde_json::from_str(&text).unwrap();
    recording["process"] = serde_json::Value::Null;
    recording["incomplete"] = "the clocks cannot be joined\nhint: none".into();
    std::fs::write(&file, recording.to_string()).unwrap();
    let said = |format: &str| {
        let file = file.to_str().unwrap();
        let mut noise = paratick(&["noise", "--recording", file, "--format", format]);
        String::from_utf8(noise.assert().success().get_output().stdout.clone()).unwrap()
    };
    let text = said("text");
    assert!(text.starts_with("Incomplete: the clocks cannot be joined. "), "{text}");
    // Each side by itself.
    assert!(!text.contains("exit: ") && text.contains("by how far they went"), "{text}");
    let report: Value = serde_json::from_str(&said("json")).unwrap();
    assert_eq!(report["incomplete"], recording["incomplete"]);
    assert_eq!(report["unexplained_gaps"], serde_json::Value::Null);
}

/// The sides of the recording, each in a file of its own, as a VM and its host make them.
fn sides(folder: &TempDir, change: impl FnOnce(&mut serde_json::Value)) -> [String; 2] {
    let text = std::fs::read_to_string(RECORDING).unwrap();
    let mut recording: Value = serde_json::from_str(&text).unwrap();
    change(&mut recording);
    ["host", "guest"].map(|side| {
        let file = folder.path().join(format!("{side}.json"));
        let mut alone = json!({ "host": null, "guest": null, "process": null });
        alone[side] = recording[side].clone();
        std::fs::write(&file, alone.to_string()).unwrap();
        file.to_str().unwrap().to_string()
    })
}

#[test]
fn both_sides_are_joined_afterwards_in_any_order() {
    let folder = TempDir::new().unwrap();
    let [host, guest] = sides(&folder, |_| ());
    let both = explained(&["--above", "15us"]);
    for [one, other] in [[&host, &guest], [&guest, &host]] {
        let files = ["noise", "--recording", one, "--recording", other, "--above", "15us"];
        let output = paratick(&files).assert().success();
        assert_eq!(String::from_utf8_lossy(&output.get_output().stdout), both);
    }
}

#[test]
fn sides_that_do_not_belong_together_are_refused() {
    let folder = TempDir::new().unwrap();
    let [host, guest] = sides(&folder, |_| ());
    let other = TempDir::new().unwrap();
    let [moved, _] = sides(&other, |recording| {
        let offset = &mut recording["host"]["tsc_offsets"][0]["offset"];
        *offset = (offset.as_i64().unwrap() + 1_000_000).into();
    });
    let later = TempDir::new().unwrap();
    let [late, _] = sides(&later, |recording| {
        let offset = &mut recording["host"]["tsc_offsets"][0]["offset"];
        *offset = (offset.as_i64().unwrap() + 10_000_000_000).into();
    });
    let refused = |options: &[&str], word: &str| {
        let output = paratick(&["noise"]).args(options).assert().code(2);
        let error = String::from_utf8_lossy(&output.get_output().stderr).to_string();
        assert!(error.contains(word) && error.contains("hint: "), "{error}");
    };
    let two = |one: &str, other: &str, word: &str| {
        refused(&["--recording", one, "--recording", other], word);
    };
    let damaged = TempDir::new().unwrap();
    let [_, damaged] = sides(&damaged, |recording| {
        recording["guest"]["gaps"][3]["ns"] = u64::MAX.into();
    });
    two(&damaged, &host, "some of its numbers cannot be");
    refused(&["--recording", &damaged], "some of its numbers cannot be");
    two(&guest, &guest, "not the two sides of a VM");
    two(RECORDING, &host, "not the two sides of a VM");
    two(&guest, &moved, "where no VM of the host was away");
    two(&guest, &late, "ran while the guest's was made");
    refused(&["--recording", &guest, "--vm", "47"], "no effect with the recording of one guest");
    let both = ["--recording", &guest, "--recording", &host];
    refused(&[&both[..], &["--vm", "48"]].concat(), "process 48 was no VM");
    refused(&[&both[..], &["--recording", &host]].concat(), "more than two");
}
