// SPDX-License-Identifier: GPL-2.0-only
//! `scripts/tests`, which runs a test that failed once more.

use std::{fs, process::Command};
use tempfile::TempDir;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/tests");

/// Like `cargo test` of one binary with `names`: what the file `bad` names fails, and only the
/// first time if it says so.
const FAKE: &str = r#"
    case "$*" in *--exact*) run=2; names=${*#*--exact } ;; *) run=1; names='a::x b c d e f' ;; esac
    passed=0 failed=
    for name in $names; do
        if grep -qx "$name always" bad || { [ $run = 1 ] && grep -qx "$name once" bad; }; then
            echo "test $name ... FAILED"; failed="$failed $name"
        else
            echo "test $name ... ok"; passed=$((passed + 1))
        fi
    done
    set -- $failed
    [ $# = 0 ] || {
        printf '\nfailures:\n\n---- %s stdout ----\n    d\n\nfailures:\n' "$1"
        printf '    %s\n' "$@"
    }
    [ $# = 0 ] && result=ok || result=FAILED
    printf '\ntest result: %s. %s passed; %s failed; 0 ignored\n' $result $passed $#
    [ $# = 0 ] || exit 101
"#;

/// Exit code, results and words of the script's own, where `bad` fails.
fn run(bad: &str) -> (Option<i32>, Vec<String>, String) {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("bad"), bad).unwrap();
    let output = Command::new(SCRIPT)
        .args(["sh", "-c", FAKE, "fake"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let results = stdout.lines().filter(|line| line.starts_with("test result: "));
    let results = results.map(|line| line.trim_start_matches("test result: ").to_owned());
    (output.status.code(), results.collect(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn tests_that_pass_run_once() {
    let ok = "ok. 6 passed; 0 failed; 0 ignored".to_owned();
    assert_eq!(run(""), (Some(0), vec![ok], String::new()));
}

#[test]
fn a_test_that_fails_once_is_named() {
    let (code, results, said) = run("a::x once\nb once\n");
    assert_eq!(code, Some(0), "{said}");
    let first = "4 passed; 2 to run again; 0 ignored";
    assert_eq!(results, [first, "ok. 2 passed; 0 failed; 0 ignored"]);
    assert_eq!(said, "once more: a::x b\nfailed once, and then passed: a::x b\n");
}

#[test]
fn what_fails_twice_has_failed() {
    let (code, results, said) = run("a::x once\nb always\n");
    assert_eq!((code, said.as_str()), (Some(101), "once more: a::x b\n"));
    assert_eq!(results[1], "FAILED. 1 passed; 1 failed; 0 ignored");
}

#[test]
fn many_that_fail_do_not_run_again() {
    let (code, results, said) = run("a::x once\nb once\nc once\nd once\ne once\nf once\n");
    assert_eq!((code, said.as_str()), (Some(101), ""));
    assert_eq!(results[1], "FAILED. 0 passed; 6 failed; of the tests above");
}
