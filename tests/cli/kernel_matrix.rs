// SPDX-License-Identifier: GPL-2.0-only
//! The whole stack with other configurations and compilers: `paratick kernel check --config`.

use crate::support::{Checkout, BASE, SECOND};
use std::{env, fs, os::unix::fs::symlink};

const PLAIN: &[&str] = &["kernel", "check", "--config", "plain"];

/// A checkout whose last mailed patch leaves `more` in the file.
fn with(more: &str) -> Checkout {
    let checkout = Checkout::with_series();
    checkout.commit_signed(&format!("{SECOND}/* {more} */\n"), "tick: More");
    checkout.rebase_lab();
    checkout.paratick(&["kernel", "export"]).assert().success();
    checkout.write_cover_letter("upper", 3);
    checkout
}

#[test]
fn a_row_passes_with_what_was_compiled() {
    let checkout = Checkout::with_series();
    let said = checkout.stdout(PLAIN, 0);
    assert!(said.starts_with("ok       matrix: plain: 1 files of the stack compile ("), "{said}");
    assert!(said.ends_with("no warning)\n") && said.lines().count() == 1, "{said}");
}

#[test]
fn an_error_fails_a_row() {
    let said = with("BROKEN").stdout(PLAIN, 1);
    assert!(said.starts_with("FAILED   matrix: plain:\n"), "{said}");
    assert!(said.contains("BROKEN") && said.contains("plain.log\n"), "{said}");
}

#[test]
fn a_warning_that_the_base_does_not_have_fails_a_row_each_time() {
    let checkout = with("ODD");
    for _ in 0..2 {
        let said = checkout.stdout(PLAIN, 1);
        let found = "FAILED   matrix: plain:\n         kernel/tick.c:1:1: warning: odd x86_64\n";
        assert!(said.starts_with(found), "{said}");
    }
}

#[test]
fn a_warning_that_the_base_has_too_fails_no_row() {
    let checkout = Checkout::with_text(&format!("{BASE}/* OLD */\n"));
    let patch = "kernel/series/lower/6.12/0001-tick-Name-it-low.patch";
    checkout.write("kernel/series/lower/6.12/series", "0001-tick-Name-it-low.patch\n");
    checkout.write(
        patch,
        "From: A <a@b>\nSubject: [PATCH] tick: Name it low\n\n---\n\
         diff --git a/kernel/tick.c b/kernel/tick.c\n--- a/kernel/tick.c\n+++ b/kernel/tick.c\n\
         @@ -1,2 +1,2 @@\n-int a;\n+int low;\n \n",
    );
    let said = checkout.stdout(PLAIN, 0);
    assert!(said.contains("1 warnings, all of which the base has, too"), "{said}");
}

#[test]
fn a_comment_that_kernel_doc_complains_of_is_named_once_for_all_rows() {
    let said = with("UNSAID").stdout(&["kernel", "check"], 1);
    let found = "FAILED   matrix: comments:\n         kernel/tick.c:9: warning: PLANTED\n";
    assert!(said.contains(found) && said.contains("ok       matrix: plain: "), "{said}");
    assert_eq!(said.matches("FAILED").count(), 1, "{said}");
}

#[test]
fn a_line_that_does_not_hold_fails_a_row() {
    let checkout = Checkout::with_series();
    let rows = checkout.read("kernel/matrix.toml");
    checkout.write("kernel/matrix.toml", &rows.replace("CONFIG_B=y", "CONFIG_DROPPED=y"));
    let said = checkout.stdout(PLAIN, 1);
    assert!(
        said.contains("lacks what was asked for:\n           CONFIG_DROPPED=y (is n)"),
        "{said}"
    );
}

#[test]
fn a_row_whose_compiler_is_missing_is_skipped_with_what_installs_it() {
    let checkout = Checkout::with_series();
    let programs = checkout.path("programs");
    fs::create_dir(&programs).unwrap();
    for dir in env::split_paths(&env::var_os("PATH").unwrap()).filter(|dir| dir.is_dir()) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            if !entry.file_name().to_string_lossy().starts_with("m68k-") {
                // The first of a name is the one that counts.
                symlink(entry.path(), programs.join(entry.file_name())).ok();
            }
        }
    }
    let mut command = checkout.paratick(&["kernel", "check", "--config", "old"]);
    let done = command.arg("--config=plain").env("PATH", &programs).assert().code(0);
    let said = String::from_utf8(done.get_output().stdout.clone()).unwrap();
    assert!(said.contains("skipped  matrix: old: this needs gcc-m68k-linux-gnu"), "{said}");
    assert!(said.contains("hint: apt-get install"), "{said}");
    assert!(said.contains("ok       matrix: plain: "), "{said}");
}

#[test]
fn an_unknown_row_is_refused_with_those_that_there_are() {
    let error = Checkout::new().stderr(&["kernel", "check", "--config", "odd"], 2);
    assert!(error.contains("no configuration odd\nhint: ") && error.contains("plain"), "{error}");
    Checkout::new().stderr(&[PLAIN, &["--quick"]].concat(), 2);
}
