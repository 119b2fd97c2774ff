// SPDX-License-Identifier: GPL-2.0-only
//! Reports in a real browser, at two widths and in two themes.  Without Chromium nothing is
//! checked,
//! and that is said: such tests are "ignored", as cargo counts, and not passed.

mod devtools;
#[path = "../synthetic/mod.rs"]
mod synthetic;

use assert_cmd::Command;
use devtools::Browser;
use std::{
    fs,
    panic::{catch_unwind, AssertUnwindSafe},
    path::{Path, PathBuf},
    process::ExitCode,
};
use tempfile::TempDir;

const CHECK: &str = include_str!("check.js");
const VIEWS: [(u32, bool); 5] =
    [(1280, false), (1280, true), (860, false), (390, false), (390, true)];

type Test = (&'static str, fn(&mut Browser, &Path));

const TESTS: [Test; 5] = [
    ("a_whole_report_is_sound_at_every_width_and_theme", whole),
    ("a_report_of_one_file_is_sound_at_every_width_and_theme", single),
    ("a_report_with_long_names_is_sound", long_names),
    ("a_table_that_scrolls_keeps_its_first_column_in_sight", scrolled),
    ("the_check_finds_what_is_planted", planted),
];

/// As cargo's own harness, for a filter by name, and `--list`; none is ever `--ignored`.
fn main() -> ExitCode {
    let (options, filter): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|arg| arg.starts_with('-'));
    let given = |name: &str| options.iter().any(|option| option == name);
    let wanted = |name: &str| {
        // `--format terse` is one of these.
        let filter = filter.iter().filter(|part| *part != "terse");
        let mut found = filter.clone().any(|part| name.contains(part.as_str()));
        found |= filter.count() == 0;
        found && !given("--ignored")
    };
    let tests: Vec<Test> = TESTS.into_iter().filter(|(name, _)| wanted(name)).collect();
    if given("--list") {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", tests.len());
    let Some(program) = devtools::find() else {
        for (name, _) in &tests {
            println!("test {name} ... ignored, SKIPPED: there is no chromium on this machine");
        }
        println!("hint: apt-get install chromium, or name one with PARATICK_CHROMIUM");
        return conclude(0, 0, tests.len());
    };
    let mut failed = 0;
    for (name, test) in &tests {
        let folder = TempDir::new().unwrap();
        let run = || test(&mut Browser::start(&program), folder.path());
        let passed = catch_unwind(AssertUnwindSafe(run)).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        failed += usize::from(!passed);
    }
    conclude(tests.len() - failed, failed, 0)
}

fn conclude(passed: usize, failed: usize, ignored: usize) -> ExitCode {
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; {ignored} ignored; 0 \
        measured; 0 filtered out\n"
    );
    ExitCode::from(u8::from(failed > 0))
}

fn report(folder: &Path, files: &[PathBuf]) -> PathBuf {
    let page = folder.join("page.html");
    let mut command = Command::cargo_bin("paratick").unwrap();
    command.arg("report").args(files).arg("--output").arg(&page).assert().success();
    // To look at them.
    if let Some(kept) = std::env::var_os("PARATICK_PAGES") {
        let name = folder.file_name().unwrap().to_string_lossy().replace(".tmp", "page-");
        fs::copy(&page, Path::new(&kept).join(name).with_extension("html")).unwrap();
    }
    page
}

fn complaints(browser: &mut Browser) -> Vec<String> {
    serde_json::from_value(browser.evaluate(CHECK)).unwrap()
}

fn sound(browser: &mut Browser, page: &Path) {
    for (width, dark) in VIEWS {
        browser.open(page, width, dark);
        let complaints = complaints(browser);
        assert!(complaints.is_empty(), "{width} pixels, dark {dark}:\n{}", complaints.join("\n"));
    }
}

fn whole(browser: &mut Browser, folder: &Path) {
    let files = synthetic::write_all(folder);
    sound(browser, &report(folder, &files));
}

fn single(browser: &mut Browser, folder: &Path) {
    let bench = synthetic::Bench { name: "quick", vcpus: 2, guests: 1, cost: None };
    let file = synthetic::write(folder, "quick.json", &synthetic::results(&bench));
    sound(browser, &report(folder, &[file]));
}

fn scrolled(browser: &mut Browser, folder: &Path) {
    let files = synthetic::write_all(folder);
    browser.open(&report(folder, &files), 390, false);
    // Where the heads of a row, of a group and of the first column begin in the scrolled table.
    let places = browser.evaluate(
        "(() => {
            const table = document.querySelector('.scroll');
            table.scrollLeft = 200;
            const left = element => Math.round(element.getBoundingClientRect().left - \
            table.getBoundingClientRect().left);
            const heads = ['thead th', 'th[scope=row]', 'th[scope=rowgroup] span'];
            return [table.scrollLeft, ...heads.map(head => left(table.querySelector(head)))];
        })()",
    );
    assert_eq!(places, serde_json::json!([200, 0, 0, 0]));
}

/// A user's own program may have any name.
fn long_names(browser: &mut Browser, folder: &Path) {
    let bench = synthetic::Bench { name: "sequential", vcpus: 1, guests: 1, cost: Some(1000) };
    let mut results = synthetic::results(&bench);
    let name = "a-program-of-somebody-with-a-name-that-does-not-fit-anywhere-at-all";
    let first = results.plan.workloads[0].workload.clone();
    results.plan.workloads[0].workload = name.into();
    for cell in results.cells.iter_mut().filter(|cell| cell.workload == first) {
        cell.workload = name.into();
    }
    results.environment.machine.cpu = name.into();
    let file = synthetic::write(folder, "long.json", &results);
    sound(browser, &report(folder, &[file]));
}

/// A check that cannot fail would be none.
fn planted(browser: &mut Browser, folder: &Path) {
    let bench = synthetic::Bench { name: "io", vcpus: 1, guests: 1, cost: None };
    let file = synthetic::write(folder, "io.json", &synthetic::results(&bench));
    let page = report(folder, &[file]);
    let whole = fs::read_to_string(&page).unwrap();
    let text = |x: u32| format!("<text x=\"{x}\" y=\"60\">planted</text></svg>");
    for (from, to, complaint) in [
        ("</svg>", format!("<text x=\"20\" y=\"60\">planted</text>{}", text(24)), "overlap"),
        ("</svg>", text(2000), "leaves its drawing"),
        ("</main>", "<div style=\"width: 3000px\">planted</div></main>".into(), "leaves the page"),
        ("</main>", "<p style=\"color: #999\">planted</p></main>".into(), "contrast"),
        ("<h2 ", "<h4 ".into(), "skips a level"),
        (" role=\"img\"", String::new(), "no title and description"),
        ("<caption>", "<caption hidden></caption><caption>".into(), "no caption"),
        ("svg text { font-size: 12px", "svg text { font-size: 9px".into(), "px high"),
    ] {
        fs::write(&page, whole.replacen(from, &to, 1)).unwrap();
        browser.open(&page, 1280, false);
        // Only what is planted, whichever of the two drawings it is in.
        let all = complaints(browser).join("\n");
        assert!(all.contains(complaint), "planted {to:?}, and it said: {all:?}");
    }
}
