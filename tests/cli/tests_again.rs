// SPDX-License-Identifier: GPL-2.0-only
//! `scripts/tests`, which runs suites of tests, and what failed once more.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Output},
};
use tempfile::TempDir;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/tests");

/// Like a program of libtest with six tests and one that is ignored.  What the file `bad` names
/// fails: always, or once.
const FAKE: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 9
case "$*" in
*--list*--ignored*) echo 'i: test'; exit ;;
*--list*) printf '%s: test\n' a::x b c d e f i; exit ;;
esac
echo "$2" >>ran
grep -qx "$2 always" bad && { echo "$2 is bad"; exit 101; }
grep -qx "$2 once" bad && [ ! -e "once-$2" ] && { >"once-$2"; exit 101; }
grep -qx "$2 stops" bad && { kill -s INT $PPID; sleep 5; }
exit 0
"#;

struct Fake(TempDir);

impl Fake {
    fn new(bad: &str) -> Fake {
        let dir = TempDir::new().unwrap();
        let program = dir.path().join("program");
        fs::write(&program, FAKE).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let suite = |name: &str, more: &str| {
            format!("[{name}]\nwhat = \"six\"\nprograms = [{program:?}]\n{more}\n")
        };
        let table = suite("fake", "")
            + &suite("most", "but = \"few\"")
            + &suite("few", "only = [\"a::\", \"c\"]")
            + &suite("old", "skip = [\"gone\"]");
        fs::write(dir.path().join("suites.toml"), table).unwrap();
        fs::write(dir.path().join("bad"), bad).unwrap();
        Fake(dir)
    }

    fn run(&self, options: &[&str]) -> Output {
        let [table, state] = ["suites.toml", "state"].map(|name| self.0.path().join(name));
        let mut script = Command::new(SCRIPT);
        script.args(["--jobs", "1", "--table"]).arg(table).arg("--state").arg(state);
        script.args(options).output().unwrap()
    }

    /// The tests that have run, in order.
    fn ran(&self) -> String {
        let ran = fs::read_to_string(self.0.path().join("ran")).unwrap_or_default();
        ran.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn tests_that_pass_run_once_and_are_counted() {
    let fake = Fake::new("");
    let output = fake.run(&["fake"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(fake.ran(), "a::x b c d e f");
    assert!(said.ends_with("\n6 passed, 0 failed\n") && said.contains("The slowest:"), "{said}");
}

#[test]
fn a_test_that_fails_once_is_flaky_and_named() {
    let fake = Fake::new("b once\n");
    let output = fake.run(&["fake"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("Failed once, and then passed (a defect):\n    fake b\n"), "{said}");
    assert!(said.ends_with("\n6 passed, 0 failed\n"), "{said}");
    assert_eq!(fake.ran(), "a::x b c d e f b");
}

#[test]
fn what_fails_twice_has_failed_and_its_output_is_shown() {
    let fake = Fake::new("a::x once\nb always\n");
    let output = fake.run(&["fake"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("    | b is bad\n") && said.contains("\nFailed:\n    fake b\n"),
        "{said}"
    );
    assert!(said.ends_with("\n5 passed, 1 failed\n"), "{said}");
}

#[test]
fn many_that_fail_do_not_run_again() {
    let fake = Fake::new("a::x once\nb once\nc once\nd once\ne once\nf once\n");
    assert_eq!(fake.run(&["fake"]).status.code(), Some(1));
    assert_eq!(fake.ran(), "a::x b c d e f");
}

#[test]
fn a_run_that_was_stopped_is_resumed_where_it_was() {
    let fake = Fake::new("c stops\n");
    let output = fake.run(&["fake"]);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stdout));
    fs::write(fake.0.path().join("bad"), "").unwrap();
    let output = fake.run(&["--resume", "fake"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(fake.ran(), "a::x b c c d e f");
    assert!(said.ends_with("\n6 passed, 0 failed\n"), "{said}");
    // The next begins anew.
    fake.run(&["--resume", "fake"]);
    assert_eq!(fake.ran().split(' ').count(), 7 + 6);
}

#[test]
fn a_suite_that_is_not_there_is_refused_with_those_that_are() {
    let output = Fake::new("").run(&["other"]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("hint: there are fake, "), "{said}");
}

#[test]
fn a_suite_may_leave_out_the_tests_of_another() {
    let fake = Fake::new("");
    assert_eq!(fake.run(&["most"]).status.code(), Some(0));
    assert_eq!(fake.ran(), "b d e f");
    assert_eq!(fake.run(&["few"]).status.code(), Some(0));
    assert_eq!(fake.ran(), "b d e f a::x c");
}

#[test]
fn a_name_that_no_test_has_is_a_mistake_in_the_suites() {
    let output = Fake::new("").run(&["old"]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(69) && said.contains("names 'gone'"), "{said}");
}
