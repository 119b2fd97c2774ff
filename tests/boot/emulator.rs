// SPDX-License-Identifier: GPL-2.0-only
//! The emulator's fix, proved: the stress passes with it and fails without it.

use crate::support::{kernel, text};
use assert_cmd::Command;
use std::time::Duration;

/// Longer than the stress takes on a busy machine, a build of the second variant included.
const PATIENCE: Duration = Duration::from_secs(600);

fn stress(options: &[&str]) -> Command {
    let mut stress = Command::cargo_bin("paratick").unwrap();
    stress
        .args(["emulator", "stress", "--kernel"])
        .arg(kernel());
    stress.args(options).timeout(PATIENCE);
    stress
}

#[test]
fn the_lab_s_emulator_delivers_each_interrupt_once() {
    let assert = stress(&[]).assert().code(0);
    let said = text(&assert.get_output().stdout);
    assert!(said.contains("sound: "), "{said}");
}

#[test]
fn without_the_fix_it_does_not() {
    let assert = stress(&["--unfixed"]).assert().code(1);
    let said = text(&assert.get_output().stdout);
    assert!(
        said.contains("BROKEN: ") && said.contains("0001-"),
        "{said}"
    );
}
