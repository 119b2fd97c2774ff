// SPDX-License-Identifier: GPL-2.0-only
//! The command where there is no checkout: a copy of the programs, in a folder of their own.

use crate::support::{bzimage, paratick};
use assert_cmd::Command;
use std::{fs, path::PathBuf};
use tempfile::TempDir;

/// Programs, an empty folder to run them in, and a cache.
struct Outside {
    dir: TempDir,
}

impl Outside {
    fn new() -> Self {
        let outside = Outside { dir: TempDir::new().unwrap() };
        for folder in ["bin", "here"] {
            fs::create_dir(outside.path(folder)).unwrap();
        }
        let program = paratick(&[]).get_program().to_owned();
        // By another process: a child that another test starts meanwhile would keep the file open
        // for writing until it runs its own program, and what is open so cannot be run.
        let copied = std::process::Command::new("cp")
            .args([program, outside.path("bin/paratick").into()])
            .status()
            .unwrap();
        assert!(copied.success());
        // Nothing is booted.
        fs::copy("/bin/true", outside.path("bin/paratick-agent")).unwrap();
        fs::write(outside.path("bzImage"), bzimage("")).unwrap();
        outside
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn paratick(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("bin/paratick"));
        command
            .args(arguments)
            .current_dir(self.path("here"))
            .env("PARATICK_CACHE", self.path("cache"));
        for name in ["PARATICK_ROOT", "PARATICK_AGENT", "PARATICK_QEMU"] {
            command.env_remove(name);
        }
        command
    }

    /// What it prints when it ends with `code`: on standard output, and on standard error.
    fn said(&self, arguments: &[&str], code: i32) -> (String, String) {
        said(&mut self.paratick(arguments), code)
    }
}

fn said(command: &mut Command, code: i32) -> (String, String) {
    let assert = command.assert().code(code);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let output = assert.get_output();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_doctor_works() {
    let outside = Outside::new();
    let output = outside.paratick(&["doctor"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("linux-source-6.12"), "{said}");
    assert!([Some(0), Some(69)].contains(&output.status.code()));
}

#[test]
fn without_the_lab_vms_are_looked_at_all_the_same() {
    let outside = Outside::new();
    fs::remove_file(outside.path("bin/paratick-agent")).unwrap();
    let output = outside.paratick(&["doctor", "--format", "json"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let items = report["items"].as_array().unwrap();
    let groups = |group: &str| items.iter().filter(|item| item["group"] == group).count();
    // Whether this machine is a guest, or a host, or neither.
    let links = groups("paratick");
    assert_eq!((groups("observe"), groups("lab"), items.len()), (3, 1, 4 + links), "{report}");
    let seen = items[0]["state"] == "ok";
    assert_eq!(output.status.code(), Some(if seen { 0 } else { 69 }), "{report}");
    assert_eq!((&report["ok"], &report["lab"]), (&seen.into(), &false.into()));
    let (_, said) = outside.said(&["bench", "quick"], 69);
    assert!(said.contains("hint: install the package paratick-lab"), "{said}");
    // It fails, if at all, for what the machine lacks: VMs, KVM or root.
    for verb in ["halts", "noise", "idle"] {
        let output = outside.paratick(&[verb, "--for", "100ms"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let code = output.status.code();
        assert!(code == Some(0) || code == Some(69) && said.contains("hint: "), "{said}");
        assert!(!said.contains("paratick-agent"), "{said}");
    }
}

#[test]
fn a_run_is_planned() {
    let outside = Outside::new();
    let kernel = outside.path("bzImage");
    let kernel = kernel.to_str().unwrap();
    for host in [&["--accel", "tcg"][..], &["--host", "here"]] {
        let options = ["lab", "run", "--dry-run", "--kernel", kernel];
        let mut run = outside.paratick(&[&options[..], host, &["--", "true"]].concat());
        let (plan, _) = said(run.env("PARATICK_QEMU", "/bin/true"), 0);
        assert!(plan.contains(kernel), "{plan}");
    }
}

#[test]
fn the_emulator_is_made_of_what_the_checkout_has() {
    let outside = Outside::new();
    let (status, _) = outside.said(&["emulator", "status"], 0);
    assert!(status.contains("0001-target-i386-svm"), "{status}");
    let mut inside = paratick(&["emulator", "status"]);
    inside.env("PARATICK_CACHE", outside.path("cache")).env_remove("PARATICK_QEMU");
    assert_eq!(status, said(&mut inside, 0).0);
}

#[test]
fn kernels_can_be_built() {
    let outside = Outside::new();
    let (_, error) = outside.said(&["kernel", "build", "1.0"], 69);
    assert!(error.contains("there is no base kernel 1.0"), "{error}");
    assert!(error.contains("bases.toml knows 6.12"), "{error}");
}

#[test]
fn the_series_is_worked_on_in_a_checkout_only() {
    for verb in ["tree", "export", "check"] {
        let outside = Outside::new();
        let (_, error) = outside.said(&["kernel", verb], 69);
        assert!(
            error.contains("no checkout of paratick") && error.contains("hint: run it inside"),
            "{error}"
        );
        assert!(!outside.path("cache").exists(), "{verb}");
    }
}
