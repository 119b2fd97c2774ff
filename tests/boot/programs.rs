// SPDX-License-Identifier: GPL-2.0-only
//! Benches of programs and of several guests, for real but small.

use crate::support::{kernel, mode};
use paratick_core::results::{self, Results};
use std::{fs, path::Path, process::Command};

fn bench(mode: &str, arguments: &[&str], output: &Path) -> (Option<i32>, String) {
    let run = Command::new(assert_cmd::cargo::cargo_bin("paratick"))
        .arg("bench")
        .args(arguments)
        .args(["--modes", mode, "--rounds", "1", "--repeat", "2"])
        .arg("--kernel")
        .arg(kernel())
        .arg("--output")
        .arg(output)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    println!("{said}");
    (run.status.code(), said)
}

fn read(file: &Path) -> Results {
    results::read(&fs::read_to_string(file).unwrap()).unwrap()
}

/// Fails only where its kernel was told of a root: in a guest, and not while it is prepared.
const FAILS_IN_GUESTS: &str =
    "bad=if grep -q PARATICK_ROOT /proc/cmdline; then echo no luck >&2; exit 3; fi";

#[test]
fn a_program_that_fails_is_told_and_the_others_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.json");
    let (code, said) = bench(
        "tickless-stop",
        &[
            "sequential",
            "--program",
            FAILS_IN_GUESTS,
            "--program",
            "good=sleep 0.02; sha256sum /bin/bash",
            "--exit-cost",
            "500",
        ],
        &file,
    );
    assert_eq!(code, Some(1));
    assert_eq!(said.matches("once on this machine").count(), 2);
    assert!(said.contains("bad") && said.contains("code 3") && said.contains("no luck"));
    let results = read(&file);
    assert!(results.cell("bad", mode("tickless-stop")).is_none());
    let good = results.cell("good", mode("tickless-stop")).unwrap();
    assert_eq!(good.samples().len(), 2);
    for sample in good.samples() {
        assert_eq!(sample.exits.as_ref().map(|exits| exits.total), sample.world_switches);
        let instructions = sample.host_instructions.unwrap() + sample.guest_instructions.unwrap();
        let charged = 500 * sample.world_switches.unwrap();
        assert_eq!(sample.cpu_ns, Some(instructions + charged));
        assert!(sample.duration_ns.unwrap() >= charged);
    }
    // Each process that ends leaves callbacks to RCU.
    let idle = good.readings.idle.as_ref().unwrap();
    assert!(idle.decisions > 0 && idle.kept <= idle.decisions, "{idle:?}");
    assert!(idle.rcu_waiting > 0 && idle.rcu_callbacks.contains_key("delayed_put_pid"), "{idle:?}");
}

#[test]
fn without_preparation_a_program_runs_from_the_guest_s_own_root() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.json");
    // On the machine it would fail.
    let command = "in-place=grep -q PARATICK_ROOT /proc/cmdline";
    let arguments = ["sequential", "--program", command, "--no-prepare"];
    let (code, said) = bench("tickless", &arguments, &file);
    assert_eq!(code, Some(0));
    assert!(!said.contains("once on this machine"));
    let results = read(&file);
    let program = results.plan.workloads[0].program.as_ref().unwrap();
    assert!(program.in_place);
    let cell = results.cell("in-place", mode("tickless")).unwrap();
    assert_eq!(cell.samples().len(), 2);
}

#[test]
#[ignore = "1 minute"]
fn table_1_counts_guests_side_by_side_together() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("table1");
    let (code, _) = bench("tickless", &["table1", "--quick", "--vcpus", "2"], &output);
    assert_eq!(code, Some(0));
    let one = read(&output.join("table1-1.json"));
    let four = read(&output.join("table1-4.json"));
    for (results, guests) in [(&one, 1), (&four, 4)] {
        assert_eq!(results.plan.guests, guests);
        for sample in results.cells.iter().flat_map(|cell| cell.samples()) {
            assert_eq!(sample.per_vcpu.len(), 2 * guests as usize);
            let sum: u64 = sample.per_vcpu.iter().map(|vcpu| vcpu.total).sum();
            assert_eq!(sample.exits.as_ref().map(|exits| exits.total), Some(sum));
        }
    }
}
