// SPDX-License-Identifier: GPL-2.0-only
//! `paratick report`: a whole page of what it is given, or nothing and a reason.

use crate::support::paratick;
use crate::synthetic::{self, Bench};
use std::{fs, path::Path, path::PathBuf};
use tempfile::TempDir;

fn report(files: &[PathBuf], more: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = paratick(&["report"]);
    command.args(files).args(more).assert()
}

/// The page of these files.
fn page(folder: &Path, files: &[PathBuf]) -> String {
    let output = folder.join("page.html");
    report(files, &["--output", output.to_str().unwrap()]).success();
    fs::read_to_string(output).unwrap()
}

fn one(folder: &Path, name: &'static str, cost: Option<u32>) -> PathBuf {
    let bench = Bench {
        name,
        vcpus: 1,
        guests: 1,
        cost,
    };
    let file = format!("{name}-{}.json", cost.unwrap_or(0));
    synthetic::write(folder, &file, &synthetic::results(&bench))
}

/// Exit code 2, every one of `words`, a hint, nothing on standard output.
fn refused(files: &[PathBuf], more: &[&str], words: &[&str]) {
    let output = report(files, more).code(2).get_output().clone();
    let said = String::from_utf8(output.stderr).unwrap();
    for word in words.iter().chain(&["hint: "]) {
        assert!(said.contains(word), "{word} is not in {said}");
    }
    assert!(output.stdout.is_empty());
}

#[test]
fn a_whole_evaluation_has_every_section_in_order() {
    let folder = TempDir::new().unwrap();
    let files = synthetic::write_all(folder.path());
    let page = page(folder.path(), &files);
    let sections = [
        "summary",
        "table1",
        "sequential",
        "multithreaded",
        "io",
        "causes",
        "cycle",
        "sensitivity",
        "quick",
        "method",
    ];
    let places = sections.map(|id| page.find(&format!("<h2 id=\"{id}\">")).expect(id));
    assert!(places.is_sorted(), "{places:?}");
    assert!(!page.contains("Not in this report"));
    // Once in each section, with a table for each set.
    assert_eq!(page.matches("Why the tick stays</h3>").count(), 3);
    let table = "<span>What tickless-stop finds when vCPUs go idle: multithreaded";
    assert_eq!(page.matches(table).count(), 3);
    assert!(page.contains("Callbacks given to RCU"));
    for printed in ["paper −50", "paper +12", "paper −18", "160\u{202f}000"] {
        assert!(page.contains(printed), "{printed}");
    }
}

#[test]
fn a_page_needs_nothing_from_elsewhere() {
    let folder = TempDir::new().unwrap();
    let files = synthetic::write_all(folder.path());
    let page = page(folder.path(), &files);
    for loads in [
        "<script",
        "<link",
        "<img",
        "src=",
        "@import",
        "http-equiv=\"refresh",
    ] {
        assert!(!page.contains(loads), "{loads}");
    }
    // Addresses in the text, and no others: patterns of the same page.
    assert_eq!(page.matches("url(").count(), page.matches("url(#").count());
}

#[test]
fn every_figure_has_its_numbers_in_a_table_that_says_what_they_are() {
    let folder = TempDir::new().unwrap();
    let files = synthetic::write_all(folder.path());
    let page = page(folder.path(), &files);
    let figures = page.matches("<figure ").count();
    assert!(figures >= 15, "{figures}");
    assert_eq!(page.matches("<svg ").count(), 2 * figures);
    assert_eq!(page.matches("<title id=").count(), 2 * figures);
    assert_eq!(page.matches("<desc id=").count(), 2 * figures);
    assert_eq!(page.matches("<figcaption>").count(), figures);
    for figure in page.split("<figure ").skip(1) {
        let figure = figure.split("</figure>").next().unwrap();
        for part in ["<details>", "<caption>", "scope=\"col\"", "scope=\"row\""] {
            assert!(figure.contains(part), "{part}");
        }
    }
}

#[test]
fn what_was_not_given_is_named_with_its_command_and_has_no_section() {
    let folder = TempDir::new().unwrap();
    let page = page(folder.path(), &[one(folder.path(), "quick", None)]);
    assert!(page.contains("Not in this report"));
    for bench in ["table1", "sequential", "multithreaded", "io"] {
        assert!(
            page.contains(&format!("<code>paratick bench {bench}</code>")),
            "{bench}"
        );
        assert!(!page.contains(&format!("<h2 id=\"{bench}\">")), "{bench}");
    }
}

#[test]
fn the_summary_is_computed_from_the_data() {
    let folder = TempDir::new().unwrap();
    let lead = |page: &str| {
        let from = page.find("<p class=\"lead\">").unwrap();
        page[from..].split("</p>").next().unwrap().to_string()
    };
    let file = one(folder.path(), "sequential", Some(1000));
    let normal = lead(&page(folder.path(), std::slice::from_ref(&file)));
    assert!(normal.contains("in VM exits it wins on all"), "{normal}");
    // The same file with the names of two modes exchanged: what won must now lose.
    let text = fs::read_to_string(&file).unwrap();
    let swapped = text
        .replace("\"paratick\"", "\"@\"")
        .replace("\"tickless-stop\"", "\"paratick\"")
        .replace("\"@\"", "\"tickless-stop\"");
    let mut results = paratick_core::results::read(&swapped).unwrap();
    results.summarize();
    let file = synthetic::write(folder.path(), "swapped.json", &results);
    let swapped = lead(&page(folder.path(), &[file]));
    assert!(swapped.contains("in VM exits it loses on all"), "{swapped}");
}

#[test]
fn of_several_costs_the_middle_one_is_in_the_figures() {
    let folder = TempDir::new().unwrap();
    let files = [2000, 0, 1000].map(|cost| one(folder.path(), "sequential", Some(cost)));
    let page = page(folder.path(), &files);
    assert!(page.contains("A world switch costs 1000 ns"), "figures");
    assert!(page.contains("measured at 3 costs"), "sensitivity");
}

#[test]
fn what_was_not_measured_is_no_number() {
    let folder = TempDir::new().unwrap();
    let bench = Bench {
        name: "io",
        vcpus: 1,
        guests: 1,
        cost: None,
    };
    let mut results = synthetic::results(&bench);
    for sample in results.cells.iter_mut().flat_map(|cell| &mut cell.samples) {
        sample.cpu_ns = None;
        sample.exits_by_cause = None;
    }
    results.summarize();
    let file = synthetic::write(folder.path(), "io.json", &results);
    let page = page(folder.path(), &[file]);
    assert!(page.contains("System throughput: measured on 0 of 8"));
    assert!(!page.contains("<h2 id=\"causes\">"));
    assert!(
        !page.contains("NaN") && !page.contains("inf"),
        "a number of nothing"
    );
}

#[test]
fn problems_are_told() {
    let folder = TempDir::new().unwrap();
    let bench = Bench {
        name: "io",
        vcpus: 1,
        guests: 1,
        cost: None,
    };
    let mut results = synthetic::results(&bench);
    results
        .problems
        .push("round 2: the guest did not boot <b>".into());
    results.cells[0].samples[0]
        .problems
        .push("counts differ".into());
    results.cells[1].samples.pop();
    let file = synthetic::write(folder.path(), "io.json", &results);
    let page = page(folder.path(), &[file]);
    for told in [
        "did not boot &lt;b&gt;",
        "counts differ",
        "not everything that was planned",
    ] {
        assert!(page.contains(told), "{told}");
    }
}

#[test]
fn a_file_that_is_no_result_is_refused_and_nothing_is_written() {
    let folder = TempDir::new().unwrap();
    let good = one(folder.path(), "io", None);
    let bad = folder.path().join("bad.json");
    let output = folder.path().join("out.html");
    let to = ["--output", output.to_str().unwrap()];
    let whole = fs::read_to_string(&good).unwrap();
    for (text, why) in [
        (&whole[..whole.len() / 2], "ends in the middle"),
        ("", "it is empty"),
        ("{\"my\": \"notes\"}", "not a results file"),
        ("{\"schema\": \"paratick-results/9\"}", "paratick-results/9"),
        (
            "{\"schema\": \"paratick-timeline/9\"}",
            "paratick-timeline/9",
        ),
        (
            "{\"schema\": \"paratick-timeline/1\", \"lines\": 3}",
            "paratick-timeline/1",
        ),
    ] {
        fs::write(&bad, text).unwrap();
        refused(&[good.clone(), bad.clone()], &to, &["bad.json", why]);
        assert!(!output.exists());
    }
    refused(
        &[folder.path().join("none.json")],
        &to,
        &["none.json", "No such file"],
    );
    refused(&[good.clone(), good], &to, &["named twice"]);
}

#[test]
fn only_a_page_is_overwritten() {
    let folder = TempDir::new().unwrap();
    let good = one(folder.path(), "io", None);
    let text = fs::read_to_string(&good).unwrap();
    let path = good.to_str().unwrap().to_string();
    refused(
        std::slice::from_ref(&good),
        &["--output", &path],
        &["one of the results"],
    );
    assert_eq!(fs::read_to_string(&good).unwrap(), text);
    let notes = folder.path().join("notes.html");
    fs::write(&notes, "my notes").unwrap();
    refused(
        std::slice::from_ref(&good),
        &["--output", notes.to_str().unwrap()],
        &["notes.html"],
    );
    assert_eq!(fs::read_to_string(&notes).unwrap(), "my notes");
    for place in ["/dev/null", "/", "/no/such/folder/r.html"] {
        refused(
            std::slice::from_ref(&good),
            &["--output", place],
            &[place, "--output"],
        );
    }
    // Beside the results where no other place is given; a second time over the first.
    for _ in 0..2 {
        let written = report(std::slice::from_ref(&good), &[]).success();
        let said = String::from_utf8(written.get_output().stdout.clone()).unwrap();
        assert_eq!(said.trim(), path.replace(".json", ".html"));
    }
    assert!(fs::read_to_string(path.replace(".json", ".html"))
        .unwrap()
        .ends_with("</html>\n"));
}
