// SPDX-License-Identifier: GPL-2.0-only
//! `paratick report`: a whole page of what it is given, or nothing and a reason.

use crate::support::paratick;
use crate::synthetic::{self, Bench};
use paratick_core::results::Results;
use paratick_core::results::{Boot, Fault, Problem};
use std::{fs, path::Path, path::PathBuf, sync::LazyLock};
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

/// That of a whole evaluation, which takes a while to make.
static WHOLE: LazyLock<String> = LazyLock::new(|| {
    let folder = TempDir::new().unwrap();
    page(folder.path(), &synthetic::write_all(folder.path()))
});

/// What a page says, without its drawings: a line for each block of text and row of a table.
fn words(page: &str) -> String {
    let body = page.split_once("<body>").unwrap().1;
    let (mut text, mut rest) = (String::new(), body.to_string());
    while let Some((before, drawing)) = rest.split_once("<svg ") {
        text += before;
        rest = drawing.split_once("</svg>").unwrap().1.into();
    }
    let cells = (text + &rest).replace("</th><", "</th> | <").replace("</td><", "</td> | <");
    let mut words = String::new();
    for part in cells.split('<') {
        words += part.split_once('>').map_or(part, |(_, text)| text);
    }
    let lines = words.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli").join(name)
}

#[test]
fn recorded_results_are_told() {
    let folder = TempDir::new().unwrap();
    let files =
        ["recorded.json", "recorded-16.json", "recorded-table1.json", "recorded-table1-4.json"];
    insta::assert_snapshot!(words(&page(folder.path(), &files.map(recorded))));
}

#[test]
fn programs_and_time_lines_are_told() {
    let folder = TempDir::new().unwrap();
    let mut files: Vec<_> =
        [0, 1000, 2000].map(|cost| one(folder.path(), "sequential", Some(cost))).into();
    files.push(folder.path().join("timeline.json"));
    fs::write(&files[3], synthetic::timeline()).unwrap();
    insta::assert_snapshot!(words(&page(folder.path(), &files)));
}

#[test]
fn halt_polling_is_told() {
    let folder = TempDir::new().unwrap();
    let file = synthetic::write(folder.path(), "polling.json", &synthetic::polling());
    let page = page(folder.path(), &[file]);
    let section = page.split_once("<h2 id=\"polling\">").unwrap().1;
    let section = section.split_once("<h2 id=\"method\">").unwrap().0;
    assert_eq!(section.matches("<figure ").count(), 4);
    insta::assert_snapshot!(words(&format!("<body>{section}")));
}

#[test]
fn idle_guests_side_by_side_are_told() {
    let folder = TempDir::new().unwrap();
    let page = page(folder.path(), &synthetic::write_idle(folder.path()));
    let section = page.split_once("<h2 id=\"idle\">").unwrap().1;
    let section = section.split_once("<h2 id=\"method\">").unwrap().0;
    assert_eq!(section.matches("<figure ").count(), 1);
    insta::assert_snapshot!(words(&format!("<body>{section}")));
}

#[test]
fn noise_with_cpus_isolated_is_told() {
    let folder = TempDir::new().unwrap();
    let page = page(folder.path(), &synthetic::write_isolated(folder.path()));
    let section = page.split_once("<h2 id=\"noise\">").unwrap().1;
    let section = section.split_once("<h2 id=\"method\">").unwrap().0;
    // One for each mode.
    assert_eq!(section.matches("<figure ").count(), 2);
    insta::assert_snapshot!(words(&format!("<body>{section}")));
}

fn one(folder: &Path, name: &'static str, cost: Option<u32>) -> PathBuf {
    let file = format!("{name}-{}.json", cost.unwrap_or(0));
    synthetic::write(folder, &file, &made(name, cost))
}

/// Of one guest with one vCPU.
fn made(name: &'static str, cost: Option<u32>) -> Results {
    synthetic::results(&Bench { name, vcpus: 1, guests: 1, cost })
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
    let page = &*WHOLE;
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
        "polling",
        "idle",
        "noise",
        "idle-tables",
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
    let page = &*WHOLE;
    for loads in ["<script", "<link", "<img", "src=", "@import", "http-equiv=\"refresh"] {
        assert!(!page.contains(loads), "{loads}");
    }
    // Addresses in the text, and no others: patterns of the same page.
    assert_eq!(page.matches("url(").count(), page.matches("url(#").count());
}

#[test]
fn every_figure_has_its_numbers_in_a_table_that_says_what_they_are() {
    let page = &*WHOLE;
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
        let command = format!("<code>paratick bench {bench}");
        assert!(page.contains(&command), "{bench}");
        assert!(!page.contains(&format!("<h2 id=\"{bench}\">")), "{bench}");
    }
}

#[test]
fn sizes_that_were_not_measured_are_named_one_by_one() {
    let folder = TempDir::new().unwrap();
    let bench = Bench { name: "multithreaded", vcpus: 4, guests: 1, cost: Some(1000) };
    let file = synthetic::write(folder.path(), "small.json", &synthetic::results(&bench));
    let page = page(folder.path(), &[file]);
    for (size, missing) in [("small", false), ("medium", true), ("large", true)] {
        let command = format!("<code>paratick bench multithreaded --sizes {size}</code>");
        assert_eq!(page.contains(&command), missing, "{size}");
    }
}

#[test]
fn a_size_that_is_not_the_papers_has_no_numbers_of_the_paper() {
    let folder = TempDir::new().unwrap();
    let of = |vcpus| {
        let bench = Bench { name: "multithreaded", vcpus, guests: 1, cost: Some(1000) };
        let name = format!("{vcpus}.json");
        synthetic::write(folder.path(), &name, &synthetic::results(&bench))
    };
    let papers = page(folder.path(), &[of(4)]);
    assert!(papers.contains("printed in the paper") && papers.contains("Here and in the paper"));
    let other = page(folder.path(), &[of(8)]);
    assert!(other.contains("Multithreaded (8 vCPUs) against tickless"));
    assert!(!other.contains("printed in the paper") && !other.contains("Here and in the paper"));
    // It stands in for none of the paper's.
    for size in ["small", "medium", "large"] {
        let command = format!("<code>paratick bench multithreaded --sizes {size}</code>");
        assert!(other.contains(&command), "{size}");
    }
}

/// The commands under "Measure it again", without the report's own.
fn commands(page: &str) -> Vec<String> {
    let block = page.split("<pre tabindex=\"0\"><code>").nth(1).unwrap();
    let block = block.split("</code>").next().unwrap();
    let block = block.replace("&#x27;", "'");
    let commands = block.lines().filter(|line| line.starts_with("paratick bench"));
    commands.map(str::to_string).collect()
}

#[test]
fn the_commands_that_made_the_files_are_told_once_each() {
    let folder = TempDir::new().unwrap();
    let mut own = made("sequential", Some(3000));
    let words = ["paratick", "bench", "sequential", "--program", "sum=echo 'a b' | sha256sum"];
    own.command = words.map(String::from).into();
    let mut old = made("io", None);
    old.command.clear();
    // Both files of Table 1 come from one command.
    let mut files = synthetic::write_all(folder.path());
    files.truncate(2);
    files.push(synthetic::write(folder.path(), "own.json", &own));
    files.push(synthetic::write(folder.path(), "old.json", &old));
    let page = page(folder.path(), &files);
    let commands = commands(&page);
    assert_eq!(commands.len(), 2, "{commands:#?}");
    assert_eq!(commands[0], "paratick bench table1");
    assert!(page.contains("# bench io: the command was not recorded"));
    // A shell takes it for the same words.
    let print = format!("paratick() {{ printf '%s\\n' paratick \"$@\"; }}; {}", commands[1]);
    let run = std::process::Command::new("sh").args(["-c", &print]).output().unwrap();
    let said = String::from_utf8(run.stdout).unwrap();
    assert_eq!(said.lines().collect::<Vec<_>>(), words);
}

#[test]
fn the_summary_is_computed_from_the_data() {
    let folder = TempDir::new().unwrap();
    let lead = |page: &str| {
        let from = page.split_once("<p class=\"lead\">").unwrap().1;
        from.split_once("<table").unwrap().0.to_string()
    };
    let file = one(folder.path(), "sequential", Some(1000));
    let normal = lead(&page(folder.path(), std::slice::from_ref(&file)));
    let what = normal.find("The host is emulated: VM exits are real counts");
    assert!(what < normal.find("<code>paratick-ticks</code> (virtual ticks alone"), "{normal}");
    assert!(normal.contains("1 ns for each instruction plus the stated 1\u{202f}000 ns"));
    assert!(normal.contains("In VM exits it wins on all"), "{normal}");
    // The same file with the names of two modes exchanged: what won must now lose.
    let text = fs::read_to_string(&file).unwrap();
    let swapped = text
        .replace("\"paratick-ticks\"", "\"@\"")
        .replace("\"tickless-stop\"", "\"paratick-ticks\"")
        .replace("\"@\"", "\"tickless-stop\"");
    let mut results = paratick_core::results::read(&swapped).unwrap();
    results.summarize();
    let file = synthetic::write(folder.path(), "swapped.json", &results);
    let swapped = lead(&page(folder.path(), &[file]));
    assert!(swapped.contains("In VM exits it loses on all"), "{swapped}");
}

#[test]
fn old_files_are_judged_by_todays_rules() {
    let folder = TempDir::new().unwrap();
    let mut results = made("sequential", None);
    // With a verdict that three boots do not allow today.
    results.plan.rounds = 3;
    for cell in &mut results.cells {
        cell.readings.exits.samples.retain(|sample| sample.round <= 3);
    }
    let file = synthetic::write(folder.path(), "old.json", &results);
    let page = page(folder.path(), &[file]);
    assert!(page.contains("and nothing can be concluded in any metric"));
    assert!(page.contains("fewer than 4 rounds"), "no reason");
}

#[test]
fn why_the_tick_stays_is_told_once_and_not_where_nothing_kept_it() {
    let folder = TempDir::new().unwrap();
    let rcu = "Callbacks that wait for RCU are such an event";
    for once in ["When a vCPU goes idle, its kernel looks", rcu] {
        assert_eq!(WHOLE.matches(once).count(), 1, "{once}");
    }
    let mut results = made("io", None);
    for cell in &mut results.cells {
        if let Some(entries) = &mut cell.readings.idle {
            (entries.decisions, entries.kept, entries.rcu_waiting) = (0, 0, 0);
        }
    }
    let file = synthetic::write(folder.path(), "idle.json", &results);
    let page = page(folder.path(), &[file]);
    assert!(page.contains("the tick was kept at 0 of 0 looks"));
    assert!(page.contains("<td>0</td><td>–</td><td>–</td>"));
    assert!(!page.contains(rcu));
}

#[test]
fn the_agents_own_kernels_are_left_out_of_a_second_average() {
    let row = "<th scope=\"row\">… without stencil, finelock</th>";
    // Of each of the three sizes, in the summary and in its section: two modes, two baselines.
    assert_eq!(WHOLE.matches(row).count(), 6 * 4);
}

#[test]
fn samples_whose_world_switches_were_not_counted_are_named() {
    let folder = TempDir::new().unwrap();
    let bench = Bench { name: "table1", vcpus: 16, guests: 4, cost: None };
    let mut results = synthetic::results(&bench);
    for sample in results.cells.iter_mut().flat_map(|cell| &mut cell.readings.exits.samples) {
        sample.world_switches = None;
    }
    let several = synthetic::write(folder.path(), "several.json", &results);
    let files = [one(folder.path(), "io", Some(1000)), several];
    let page = page(folder.path(), &files);
    let named = "It did not in Table 1, 4 guests with 16 vCPUs (80 samples, where several guests \
        ran at once).";
    assert!(page.contains(named));
}

#[test]
fn of_several_costs_the_middle_one_is_in_the_figures() {
    let folder = TempDir::new().unwrap();
    let files = [2000, 0, 1000].map(|cost| one(folder.path(), "sequential", Some(cost)));
    let page = page(folder.path(), &files);
    assert!(page.contains("A world switch costs 1000 ns"), "figures");
    assert!(page.contains("measured at 3 costs"), "sensitivity");
    assert!(page
        .contains("VM exits measured at 0, 1\u{202f}000 and 2\u{202f}000 ns, over 13 benchmarks"));
}

#[test]
fn what_was_not_measured_is_no_number() {
    let folder = TempDir::new().unwrap();
    let mut results = made("io", None);
    for sample in results.cells.iter_mut().flat_map(|cell| &mut cell.readings.exits.samples) {
        sample.cpu_ns = None;
        sample.exits = None;
    }
    results.summarize();
    let file = synthetic::write(folder.path(), "io.json", &results);
    let page = page(folder.path(), &[file]);
    for mode in ["paratick-ticks", "paratick"] {
        let nothing = format!("System throughput of {mode}: measured on 0 of 8");
        assert!(page.contains(&nothing), "{mode}");
    }
    assert!(!page.contains("<h2 id=\"causes\">"));
    assert!(!page.contains("NaN") && !page.contains("inf"), "a number of nothing");
}

#[test]
fn problems_are_told() {
    let folder = TempDir::new().unwrap();
    let mut results = made("io", None);
    let boot = Boot { round: 2, subject: results.plan.subjects[0] };
    let why = "the guest did not boot <b>".into();
    results.problems.push(boot.problem(Fault::Guest { why }));
    let doubt = Fault::CountsDiffer { exits: 2, world_switches: 1 };
    results.cells[0].readings.exits.samples[0].problems.push(doubt);
    results.cells[1].readings.exits.samples.pop();
    let file = synthetic::write(folder.path(), "io.json", &results);
    let page = page(folder.path(), &[file]);
    for told in [
        "did not boot &lt;b&gt;",
        "2 exits, but the emulator counted 1 world switches",
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
        ("{\"schema\": \"paratick-timeline/9\"}", "paratick-timeline/9"),
        ("{\"schema\": \"paratick-results/3\", \"cells\": 3}", "paratick-results/3"),
    ] {
        fs::write(&bad, text).unwrap();
        refused(&[good.clone(), bad.clone()], &to, &["bad.json", why]);
        assert!(!output.exists());
    }
    refused(&[folder.path().join("none.json")], &to, &["none.json", "No such file"]);
    let again = folder.path().join("again.json");
    std::os::unix::fs::symlink(&good, &again).unwrap();
    refused(&[good.clone(), again], &to, &["named twice"]);
    refused(&[good.clone(), good.clone()], &to, &["named twice"]);
    let pdf = folder.path().join("out.pdf");
    refused(&[good], &["--output", pdf.to_str().unwrap()], &["out.pdf", "ends with .html"]);
    refused(&["/dev/null".into()], &[], &["/dev/null is no plain file", "hint: "]);
}

#[test]
fn of_one_bench_before_and_after_it_was_continued_the_whole_one_is_shown() {
    let folder = TempDir::new().unwrap();
    let whole = made("io", None);
    let samples: usize = whole.cells.iter().map(|cell| cell.samples().len()).sum();
    let mut begun = whole.clone();
    let fault = Fault::Said { text: "nobody shall see this".into() };
    begun.problems = vec![Problem { boot: None, fault }];
    for cell in &mut begun.cells {
        cell.readings.exits.samples.pop();
    }
    let whole = synthetic::write(folder.path(), "whole.json", &whole);
    let begun = synthetic::write(folder.path(), "begun.json", &begun);
    for files in [[whole.clone(), begun.clone()], [begun, whole]] {
        let page = page(folder.path(), &files);
        let left_out = page.split_once("Left out: ").unwrap().1;
        let left_out = left_out.split_once("</li>").unwrap().0;
        let (less, more) = left_out.split_once(": ").unwrap();
        assert!(less.contains("begun.json"), "{left_out}");
        assert!(more.contains("whole.json"), "{left_out}");
        assert!(page.contains(&format!("in all {samples} samples")));
        assert!(!page.contains("nobody shall see this"));
    }
}

#[test]
fn only_a_page_is_overwritten() {
    let folder = TempDir::new().unwrap();
    let good = one(folder.path(), "io", None);
    let text = fs::read_to_string(&good).unwrap();
    let path = good.to_str().unwrap().to_string();
    refused(std::slice::from_ref(&good), &["--output", &path], &["one of the results"]);
    assert_eq!(fs::read_to_string(&good).unwrap(), text);
    let notes = folder.path().join("notes.html");
    fs::write(&notes, "my notes").unwrap();
    refused(std::slice::from_ref(&good), &["--output", notes.to_str().unwrap()], &["notes.html"]);
    assert_eq!(fs::read_to_string(&notes).unwrap(), "my notes");
    let (others, link) = (folder.path().join("thesis.html"), folder.path().join("l.html"));
    fs::write(&others, "<!doctype html>\n<title>My thesis</title>").unwrap();
    std::os::unix::fs::symlink(&others, &link).unwrap();
    for place in [&others, &link] {
        refused(std::slice::from_ref(&good), &["--output", place.to_str().unwrap()], &["--output"]);
        assert!(fs::read_to_string(&others).unwrap().contains("My thesis"));
    }
    for place in ["/dev/null", "/", "-", "/no/such/folder/r.html"] {
        refused(std::slice::from_ref(&good), &["--output", place], &[place, "--output"]);
    }
    // Beside the results where no other place is given; a second time over the first.
    for _ in 0..2 {
        let written = report(std::slice::from_ref(&good), &[]).success();
        let said = String::from_utf8(written.get_output().stdout.clone()).unwrap();
        assert_eq!(said.trim(), path.replace(".json", ".html"));
    }
    assert!(fs::read_to_string(path.replace(".json", ".html")).unwrap().ends_with("</html>\n"));
}
