// SPDX-License-Identifier: GPL-2.0-only
//! Timers of user space in idle guests: who groups them wakes the pCPU less often.

use crate::{
    coalesce::{sample, wake_ups},
    support::kernel,
};
use paratick_core::results;
use std::{
    fs,
    process::{Command, Stdio},
};

const GUESTS: &str = "2";

/// How often ten threads in each of two guests wake up their pCPU in a second.
fn with(timers: &str) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Command::new(assert_cmd::cargo::cargo_bin("paratick"));
    bench.args(["bench", "idle", "--quick", "--guests", GUESTS, "--timers", timers]);
    bench.args(["--modes", "tickless", "--kernel"]).arg(kernel());
    bench.arg("--output").arg(folder.path()).stdout(Stdio::null());
    assert_eq!(bench.status().unwrap().code(), Some(0));
    let file = folder.path().join(format!("idle-{GUESTS}-{timers}.json"));
    let results = results::read(&fs::read_to_string(file).unwrap()).unwrap();
    wake_ups(sample(&results, timers, "tickless"))
}

/// Twenty phases of threads, against two offsets of guests: 18 wake-ups a second less, and the
/// ticks that go on for each.  What else wakes the pCPU, some 45 times, differs by a few.
fn wake_it_less_often(timers: &str, fewer: f64) {
    let (phases, found) = (with("phases"), with(timers));
    println!("{timers}: {found} wake-ups a second, with phases {phases}");
    assert!(phases - found >= fewer, "{timers}: {found}, {phases}");
}

#[test]
fn grouped_timers_wake_their_pcpu_less_often() {
    wake_it_less_often("grouped", 18.0);
}

#[test]
fn timers_with_slack_wake_their_pcpu_less_often() {
    wake_it_less_often("slack", 9.0);
}

#[test]
fn timers_of_less_accuracy_wake_their_pcpu_less_often() {
    wake_it_less_often("accuracy", 9.0);
}
