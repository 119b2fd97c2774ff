// SPDX-License-Identifier: GPL-2.0-only
//! `paratick model`: what it predicts, beside what was recorded, and what it refuses.

use crate::support::paratick;
use serde_json::Value;
use std::fs;
use tempfile::TempDir;

/// A recorded `bench quick`: 2 vCPUs in the lab, 6 samples of five workloads in four modes.  Only
/// fields that nothing here reads were emptied.
const RECORDED: &str = "../../tests/cli/recorded.json";

/// The same with 16 vCPUs: 3 samples of `idle` and `barrier`.
const RECORDED_16: &str = "../../tests/cli/recorded-16.json";

/// Table 1 in the lab whose CPUs run in parallel: W1 (10 s) and W3 (4 s), one guest of 16 vCPUs.
const TABLE_1: &str = "../../tests/cli/recorded-table1.json";

/// W2 (4 s) and W4 (half a second): four such guests.
const TABLE_1_FOUR: &str = "../../tests/cli/recorded-table1-4.json";

fn text(args: &[&str]) -> String {
    let output = paratick(&["model"]).args(args).assert().success();
    String::from_utf8(output.get_output().stdout.clone()).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&text(&[args, &["--format", "json"]].concat())).unwrap()
}

#[test]
fn a_file_without_loads_is_refused() {
    refused(
        &["--from", "../../tests/results/timeline.json"],
        &["no exits and loads", "bench show"],
    );
}

#[test]
fn a_long_line_that_is_wrong_is_not_shown_whole() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("long.toml");
    fs::write(&file, format!("{{{}", "x".repeat(5_000))).unwrap();
    let output = paratick(&["model", "--workload", file.to_str().unwrap()]).assert().code(2);
    let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(said.lines().all(|line| line.chars().count() < 300) && said.contains('…'), "{said}");
}

/// Exit code 2, nothing on stdout, and a message with every one of `words` and a hint.
fn refused(args: &[&str], words: &[&str]) {
    let output = paratick(&["model"]).args(args).assert().code(2);
    let output = output.get_output();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    for word in words {
        assert!(said.contains(word), "{args:?} said {said}");
    }
    assert!(said.contains("hint: ") || said.contains("--help"), "{said}");
    assert!(output.stdout.is_empty());
}

fn model<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let mut models = answer["models"].as_array().unwrap().iter();
    models.find(|model| model["model"] == name).unwrap()
}

fn file(text: &str) -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("input");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_string();
    (folder, path)
}

#[test]
fn the_formulas_are_computed_for_the_guests_described() {
    let w1 = json(&["--vcpus", "16", "--load", "0"]);
    assert_eq!(model(&w1, "formula-periodic")["managing"]["likely"], 80_000.0);
    assert_eq!(model(&w1, "formula-tickless")["managing"]["likely"], 0.0);
    // The formulas say nothing about these: not 0.
    assert_eq!(model(&w1, "formula-periodic")["timer"], Value::Null);
    assert_eq!(model(&w1, "formula-periodic")["by_cause"].get("halt"), None);
    let half = json(&["--vcpus", "16", "--load", "0.5", "--idle-period", "8ms"]);
    assert_eq!(model(&half, "formula-tickless")["managing"]["likely"], 60_000.0);
}

#[test]
fn the_crossover_stands_beside_the_papers_words() {
    let args = ["--load", "0.5", "--idle-period", "1ms", "--sharing", "4"];
    let crossover = &json(&args)["guests"][0]["crossover"];
    assert!((crossover["formulas"].as_f64().unwrap() - 0.004).abs() < 1e-9);
    assert!((crossover["statement"].as_f64().unwrap() - 0.001).abs() < 1e-9);
    let said = text(&args);
    assert!(said.contains("4.00 ms / 4 = 1.00 ms"), "{said}");
    assert!(text(&[]).contains("never idle has no tick to stop"));
}

#[test]
fn table_1_is_printed_three_ways() {
    let table = json(&["table1"]);
    let rows = table["scenarios"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["W1", "W2", "W3", "W4"]);
    for row in rows {
        let printed = row["printed"]["periodic"].as_f64().unwrap();
        assert_eq!(row["formula_periodic"].as_f64(), Some(2.0 * printed));
        assert_eq!(row["agreeing"], row["printed"], "{row}");
    }
    let said = text(&["table1"]);
    for line in ["as printed", "formula 3.1 as written", "reading that agrees", "8.00 ms"] {
        assert!(said.contains(line), "{line} is not in {said}");
    }
}

/// What docs/model.md claims of the models: where 50 or more timer exits were counted, the
/// prediction is within 10 % of them, or misses them by less than one in a hundred idle periods.
#[test]
fn the_models_are_within_ten_percent_of_what_was_recorded() {
    for (recorded, cells, counts) in [(RECORDED, 20, 13), (RECORDED_16, 8, 8)] {
        let answer = json(&["--from", recorded]);
        let all = answer["cells"].as_array().unwrap();
        assert_eq!(all.len(), cells);
        let enough = |cell: &&Value| cell["measured"].as_f64().unwrap() >= 50.0;
        let enough: Vec<_> = all.iter().filter(enough).collect();
        assert_eq!(enough.len(), counts);
        for cell in enough {
            let number = |value: &Value| value.as_f64().unwrap();
            let counted = number(&cell["measured"]);
            let missed = (number(&cell["predicted"]["likely"]) - counted).abs();
            let halts = number(&cell["measured_by_cause"]["halt"]);
            let name = format!("{} {}", cell["workload"], cell["subject"]);
            assert!(
                missed <= 0.10 * counted || missed <= 0.01 * halts,
                "{name}: {missed} of {counted}"
            );
        }
    }
}

/// What docs/model.md claims of Table 1: every cell is within 10 %.
#[test]
fn table_1_is_predicted_within_ten_percent() {
    for recorded in [TABLE_1, TABLE_1_FOUR] {
        let answer = json(&["--from", recorded]);
        let cells = answer["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 8);
        let number = |value: &Value| value.as_f64().unwrap();
        for cell in cells {
            let counted = number(&cell["measured"]);
            let missed = (number(&cell["predicted"]["likely"]) - counted).abs();
            let name = format!("{} {}", cell["workload"], cell["subject"]);
            assert!(missed <= 0.10 * counted, "{name}: {missed} of {counted}");
            // And the ends of the range hold what the middle misses, but for ticks that stray.
            let end = |end: &str| number(&cell["predicted"][end]);
            let (least, most) = (0.95 * end("least"), 1.05 * end("most"));
            assert!((least..=most).contains(&counted), "{name}: {counted}");
        }
    }
}

/// Idle periods are the program's own: what one mode shows tells what another would do.
#[test]
fn one_modes_load_predicts_another_mode() {
    let answer = json(&["--from", RECORDED, "--load-of", "tickless-stop"]);
    for workload in ["pingpong", "barrier", "sleep"] {
        let mut cells = answer["cells"].as_array().unwrap().iter();
        let cell = cells.find(|cell| {
            cell["workload"] == workload && cell["subject"]["mode"] == "paratick-ticks"
        });
        let cell = cell.unwrap();
        assert_eq!(cell["load_of"]["mode"], "tickless-stop");
        let (predicted, counted) = (&cell["predicted"]["likely"], &cell["measured"]);
        let difference = predicted.as_f64().unwrap() - counted.as_f64().unwrap();
        // Of some 2000, 1000 and 2000 exits that the mode could take away.
        assert!(difference.abs() < 30.0, "{workload}: {predicted} {counted}");
    }
    // A mode that polls has other idle periods.
    let renamed =
        fs::read_to_string(RECORDED).unwrap().replace("\"tickless\"", "\"tickless+poll\"");
    let (_folder, path) = file(&renamed);
    let polls = json(&["--from", &path, "--load-of", "tickless-stop"]);
    let mut cells = polls["cells"].as_array().unwrap().iter();
    let cell = cells.find(|cell| cell["subject"]["mode"] == "tickless+poll").unwrap();
    assert_eq!((&cell["predicted"], &cell["error"]), (&Value::Null, &Value::Null));
    refused(
        &["--from", RECORDED, "--load-of", "paratick+poll"],
        &["no load for paratick+poll", "tickless-stop"],
    );
}

#[test]
fn what_was_not_measured_is_not_predicted() {
    let recorded = fs::read_to_string(RECORDED).unwrap();
    let mut results: Value = serde_json::from_str(&recorded).unwrap();
    let samples = &mut results["cells"][0]["readings"]["exits"]["samples"];
    for sample in samples.as_array_mut().unwrap() {
        sample["idle_ns"] = Value::Null;
    }
    let (_folder, path) = file(&results.to_string());
    let cell = &json(&["--from", &path])["cells"][0];
    for field in ["predicted", "measured", "error", "load"] {
        assert_eq!(cell[field], Value::Null, "{field}");
    }
    assert!(text(&["--from", &path]).contains('–'));
}

#[test]
fn the_documents_example_is_a_file_that_is_read() {
    let document = include_str!("../../docs/model.md");
    let example = document.split("```toml\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    let (_folder, path) = file(example);
    let answer = json(&["--workload", &path]);
    let guests = answer["guests"].as_array().unwrap();
    assert!(guests.len() > 1);
    let said = text(&["--workload", &path]);
    for guest in guests {
        assert!(said.contains(guest["name"].as_str().unwrap()), "{said}");
    }
    // Every key that there is is in the example or named beside it.
    for key in [
        "time",
        "name",
        "count",
        "vcpus",
        "hz",
        "host-hz",
        "load",
        "idle-period",
        "woken-by",
        "sharing",
    ] {
        assert!(document.contains(&format!("| `{key}` |")), "{key}");
    }
}

#[test]
fn a_file_that_holds_no_results_is_refused() {
    let recorded = fs::read_to_string(RECORDED).unwrap();
    let cases: [(&str, &str); 4] = [
        (&recorded[..recorded.len() / 2], "ends in the middle"),
        ("", "it is empty"),
        ("{\"my\": \"notes\"}", "not a results file"),
        ("{\"schema\": \"paratick-results/9\"}", "paratick-results/9"),
    ];
    for (text, why) in cases {
        let (_folder, path) = file(text);
        refused(&["--from", &path], &[&path, why]);
    }
    refused(&["--from", "/no/such.json"], &["/no/such.json", "No such file"]);
}

#[test]
fn the_help_says_what_the_options_are_in_the_paper() {
    let help = text(&["--help"]);
    for word in
        ["--vms", "--idle-period", "T_idle", "--from", "--workload", "table1", "docs/model.md"]
    {
        assert!(help.contains(word), "{word} is not in {help}");
    }
}
