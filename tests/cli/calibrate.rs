// SPDX-License-Identifier: GPL-2.0-only
//! `paratick calibrate` where nothing can be measured, and of what was saved before.

use crate::support::paratick;
use paratick_core::calibration::{Calibration, Machine, Meaning, Row, Spread, SCHEMA};
use std::fs;
use tempfile::TempDir;

fn saved() -> Calibration {
    let cpuid = Row {
        name: "CPUID".into(),
        between: "around the instruction".into(),
        samples: 100,
        exits_per_sample: Some(1.0),
        cycles: Spread::of((1..=100).collect()),
        not_measured: None,
    };
    Calibration {
        schema: SCHEMA.into(),
        machine: Machine { kernel: "6.12".into(), ..Machine::default() },
        meaning: Meaning::Nested("KVMKVMKVM".into()),
        tsc_khz: Some(1_000_000),
        rows: vec![cpuid],
        executed: [("cpuid".into(), 164)].into(),
    }
}

#[test]
fn what_was_saved_is_shown_and_is_the_same_for_programs() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("calibration.json");
    fs::write(&file, serde_json::to_string(&saved()).unwrap()).unwrap();
    let shown = |options: &[&str]| {
        let recording = ["calibrate", "--recording", file.to_str().unwrap()];
        let output = paratick(&[&recording, options].concat()).assert().success();
        String::from_utf8(output.get_output().stdout.clone()).unwrap()
    };
    let text = shown(&[]);
    assert!(text.contains("CPUID") && text.contains("not the costs of hardware"), "{text}");
    assert_eq!(
        serde_json::from_str::<Calibration>(&shown(&["--format", "json"])).unwrap(),
        saved()
    );
}

#[test]
fn a_file_of_another_schema_is_refused() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("calibration.json");
    let other = Calibration { schema: "paratick-calibrate/9".into(), ..saved() };
    fs::write(&file, serde_json::to_string(&other).unwrap()).unwrap();
    let output = paratick(&["calibrate", "--recording", file.to_str().unwrap()]).assert().code(2);
    let error = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(
        error.contains("its schema is paratick-calibrate/9, not paratick-calibrate/1"),
        "{error}"
    );
}

/// In a mount namespace without /dev/kvm.
#[test]
fn without_kvm_there_is_nothing_to_measure() {
    let program = assert_cmd::cargo::cargo_bin("paratick").display().to_string();
    let mut hidden = assert_cmd::Command::new("unshare");
    let mounted = "mount -t tmpfs none /dev && exec \"$@\"";
    // Root needs no user namespace, which chroots cannot have.
    let namespaces = if rustix::process::getuid().is_root() { "-m" } else { "-rm" };
    hidden.args([namespaces, "sh", "-c", mounted, "sh", &program, "calibrate"]);
    let output = hidden.assert().code(69).get_output().clone();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.stdout.is_empty());
    assert!(error.starts_with("error: cannot open /dev/kvm: "), "{error}");
    assert!(error.contains("\nhint: load KVM"), "{error}");
}
