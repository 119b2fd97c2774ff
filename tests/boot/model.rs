// SPDX-License-Identifier: GPL-2.0-only
//! The model against the lab: what it predicts of a load is what is counted.

use crate::support::{kernel, mode};
use paratick_core::{
    model::{measured, TickModel},
    results,
};
use std::{fs, process::Command};

/// How far prediction and count may be apart.
const AGREEMENT: f64 = 0.10;

/// One point of each kind: a tick that never stops, busy vCPUs, and short idle periods.
const POINTS: [(&str, &str); 3] =
    [("idle", "periodic"), ("cpu", "tickless"), ("sleep", "paratick-ticks")];

#[test]
fn predicted_and_counted_timer_exits_agree() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.json");
    let status = Command::new(assert_cmd::cargo::cargo_bin("paratick"))
        .args(["bench", "quick", "--modes", "periodic,tickless,paratick-ticks"])
        .args(["--workloads", "idle,cpu,sleep", "--rounds", "1"])
        .arg("--kernel")
        .arg(kernel())
        .arg("--output")
        .arg(&file)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0));
    let results = results::read(&fs::read_to_string(&file).unwrap()).unwrap();
    for (workload, name) in POINTS {
        let cell = results.cell(workload, mode(name)).unwrap();
        let observed = measured::observe_cell(&results, cell);
        let predicted = measured::predict_all(TickModel::of(cell.subject.mode), &observed).unwrap();
        let counted = measured::measured_timer_exits(&observed).unwrap();
        let error = predicted.timer.likely / counted - 1.0;
        println!("{workload}, {name}: {predicted:?}, counted {counted}");
        assert!(error.abs() < AGREEMENT, "{workload}, {name}: {error:+.2}");
    }
}
