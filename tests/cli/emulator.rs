// SPDX-License-Identifier: GPL-2.0-only
//! `paratick emulator`: what it says without building or booting anything.

use crate::support::{bzimage, paratick};
use assert_cmd::Command;
use tempfile::TempDir;

/// With an empty cache.
fn emulator(cache: &TempDir, arguments: &[&str]) -> Command {
    let mut command = paratick(&["emulator"]);
    command.args(arguments).env("PARATICK_CACHE", cache.path()).env_remove("PARATICK_QEMU");
    command
}

fn stdout(command: &mut Command) -> String {
    let output = command.assert().success().get_output().stdout.clone();
    String::from_utf8(output).unwrap()
}

#[test]
fn status_says_what_is_missing_and_which_patches_there_are() {
    let cache = TempDir::new().unwrap();
    let said = stdout(&mut emulator(&cache, &["status"]));
    assert!(said.contains("not built") && said.contains("hint:"), "{said}");
    assert!(said.contains("0001-target-i386-svm"), "{said}");
    assert!(said.contains("0004-icount-"), "{said}");
}

#[test]
fn status_names_the_users_own_emulator() {
    let cache = TempDir::new().unwrap();
    let said = stdout(emulator(&cache, &["status"]).env("PARATICK_QEMU", "/bin/true"));
    assert!(said.contains("named by PARATICK_QEMU"), "{said}");
    assert!(said.contains("world switches are not counted"), "{said}");
}

/// What a dry run of `lab run` prints.
fn dry_run(options: &[&str]) -> String {
    dry_run_of("", options)
}

fn dry_run_of(version: &str, options: &[&str]) -> String {
    let dir = TempDir::new().unwrap();
    let kernel = dir.path().join("bzImage");
    std::fs::write(&kernel, bzimage(version)).unwrap();
    let mut command = paratick(&["lab", "run", "--dry-run", "--accel", "tcg", "--kernel"]);
    command.arg(&kernel).args(options).args(["--", "true"]);
    command
        .env("PARATICK_CACHE", dir.path())
        .env("PARATICK_QEMU", "/bin/true")
        .env("PARATICK_AGENT", "/bin/true");
    stdout(&mut command)
}

#[test]
fn a_world_switch_costs_what_one_says_and_nothing_otherwise() {
    let said = dry_run(&["--exit-cost", "2000"]);
    assert!(said.contains("shift=0,sleep=off,vmexit=2000"), "{said}");
    assert!(!dry_run(&[]).contains("vmexit"));
}

#[test]
fn the_clock_is_parallel_where_it_is_asked_for() {
    let said = dry_run(&["--parallel-clock"]);
    assert!(said.contains("shift=0,sleep=off,parallel=on"), "{said}");
    let said = dry_run(&["--parallel-clock", "--exit-cost", "500"]);
    assert!(said.contains("sleep=off,vmexit=500,parallel=on"), "{said}");
    assert!(!dry_run(&[]).contains("parallel=on"));
}

#[test]
fn only_the_host_of_a_real_time_kernel_says_that_its_tsc_is_constant() {
    let said = |kind: &str| dry_run_of(&format!("6.12.117 (paratick@lab) #1 SMP {kind} Thu"), &[]);
    assert!(said("PREEMPT_RT").contains(",+invtsc,x-force-features=on"));
    assert!(!said("PREEMPT_DYNAMIC").contains("invtsc"));
}
