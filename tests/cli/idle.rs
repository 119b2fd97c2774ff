// SPDX-License-Identifier: GPL-2.0-only
//! `paratick idle`, of a recording: it boots nothing.

use crate::support::paratick;

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cli/recorded-idle.json");

fn explained(options: &[&str]) -> String {
    let mut idle = paratick(&["idle", "--recording", RECORDING]);
    let output = idle.args(options).assert().success();
    String::from_utf8(output.get_output().stdout.clone()).unwrap()
}

#[test]
fn a_recording_says_what_keeps_the_guest_busy() {
    insta::assert_snapshot!(explained(&[]));
}

#[test]
fn programs_get_every_round() {
    let report: serde_json::Value =
        serde_json::from_str(&explained(&["--format", "json"])).unwrap();
    assert_eq!(report["schema"], "paratick-idle/1");
    assert_eq!(report["summary"]["unexplained"], 0);
    let exits = |of: &str| -> u64 {
        let all = report[of].as_array().unwrap().iter();
        let one = |one: &serde_json::Value| -> u64 {
            one["exits"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
        };
        all.map(one).sum()
    };
    assert_eq!((exits("rounds"), exits("offenders")), (88, 88));
}

#[test]
fn what_slack_would_save_is_told_if_asked() {
    let told = explained(&["--slack", "300ms"]);
    let (_, table) = told.split_once("With a timer slack of 300 ms for ticker\n").unwrap();
    assert!(table.contains("Their timers that expired    4          1\n"), "{table}");
    assert!(!explained(&[]).contains("slack of"));
}

#[test]
fn what_is_no_recording_is_refused_with_a_hint() {
    let other = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cli/recorded-noise.json");
    let output = paratick(&["idle", "--recording", other]).assert().code(2);
    let error = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(error.contains("no recording of wake-ups"), "{error}");
    assert!(error.contains("hint: give a file that `paratick idle --save FILE` wrote"), "{error}");
}

#[test]
fn what_settings_would_save_is_told_if_asked() {
    let told = explained(&["--try", "mode:paratick"]);
    let (_, table) = told.split_once("With mode:paratick\n").unwrap();
    assert!(table.contains("VM exits"), "{table}");
    let unknown = explained(&["--try", "boot:quiet"]);
    assert!(unknown.contains("it is not known what one of the settings ends"), "{unknown}");
    let report: serde_json::Value =
        serde_json::from_str(&explained(&["--try", "boot:quiet", "--format", "json"])).unwrap();
    assert_eq!(report["trial"]["exits"], 88);
    assert_eq!(report["trial"]["predicted_exits"], serde_json::Value::Null);
}

#[test]
fn what_deferring_would_save_is_told_and_rounding_where_jiffies_were_recorded() {
    let trial = |knob: &str| -> serde_json::Value {
        let told = explained(&["--try", knob, "--format", "json"]);
        serde_json::from_str::<serde_json::Value>(&told).unwrap()["trial"].clone()
    };
    let left = |knob: &str| trial(knob)["predicted_exits"].as_u64();
    assert!(left("defer:clocksource_watchdog").unwrap() < 88);
    assert_eq!(left("defer:nobody_s_fn"), None);
    // It is older than that.
    assert_eq!(left("round:clocksource_watchdog"), None);
}

#[test]
fn a_figure_is_drawn_where_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("idle.svg");
    explained(&["--figure", file.to_str().unwrap()]);
    let drawn = std::fs::read_to_string(&file).unwrap();
    assert!(drawn.starts_with("<svg xmlns="), "{drawn}");
    assert!(drawn.contains("hrtimer_wakeup (ticker)"), "{drawn}");
    let nowhere = folder.path().join("none/idle.svg");
    let mut idle = paratick(&["idle", "--recording", RECORDING, "--figure"]);
    idle.arg(nowhere).assert().code(2);
    let mut idle = paratick(&["idle", "--recording", RECORDING, "--figure"]);
    let output = idle.arg(folder.path().join("idle.png")).assert().code(2).get_output().clone();
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("hint: name a file such as figure.svg")
    );
}

#[test]
fn a_timer_that_is_moved_is_tried_alone() {
    let tried = ["--try", "defer:process_timeout", "--try", "mode:paratick"];
    let mut idle = paratick(&["idle", "--recording", RECORDING]);
    let output = idle.args(tried).assert().code(2).get_output().clone();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--try defer:process_timeout stands alone") && said.contains("hint: "));
}

#[test]
fn settings_that_cannot_be_tried_are_refused_with_a_hint() {
    let refused = |options: &[&str], hint: &str| {
        let output = paratick(&["lab", "idle"]).args(options).assert().code(2);
        let error = String::from_utf8(output.get_output().stderr.clone()).unwrap();
        assert!(error.contains(hint), "{error}");
    };
    refused(
        &["--try", "vm.swappiness=1"],
        "hint: give sysctl:KEY=VALUE, boot:PARAMETER, sched:FEATURE, mode:MODE, ",
    );
    refused(&["--try", "round:a function"], "round:FUNCTION");
    refused(&["--try", "defer:mine", "--confirm"], "hint: leave --confirm out; the lab can do it");
    refused(&["--confirm"], "hint: say what to try, with --slack or --try");
    refused(&["--try", "boot:quiet", "--confirm", "--side", "guest"], "hint: leave --side");
    let base = ["--kernel", "6.12-base", "--mode", "tickless", "--confirm"];
    refused(
        &[&base[..], &["--try", "mode:paratick"]].concat(),
        "hint: choose periodic or tickless",
    );
}
