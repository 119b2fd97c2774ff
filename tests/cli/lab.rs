// SPDX-License-Identifier: GPL-2.0-only
//! `paratick lab`: everything that it refuses or shows without booting.

use crate::support::{bzimage, paratick};
use assert_cmd::Command;
use std::fs;
use tempfile::TempDir;

/// `paratick lab run` with programs that exist and do nothing; boots fail at once.
struct Lab {
    dir: TempDir,
}

impl Lab {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("bzImage"), bzimage("")).unwrap();
        Lab { dir }
    }

    fn run(&self, options: &[&str], command: &[&str]) -> Command {
        let kernel = self.dir.path().join("bzImage");
        let mut run = paratick(&["lab", "run", "--kernel", kernel.to_str().unwrap()]);
        run.args(options).arg("--").args(command);
        run.env("PARATICK_CACHE", self.dir.path().join("cache"))
            .env("PARATICK_QEMU", "/bin/true")
            .env("PARATICK_AGENT", "/bin/true");
        run
    }
}

/// Runs it and returns standard error.
fn fails(command: &mut Command, code: i32) -> String {
    let output = command.assert().code(code).get_output().stderr.clone();
    String::from_utf8(output).unwrap()
}

#[test]
fn a_command_that_the_guest_would_not_see_is_refused() {
    let program = tempfile::Builder::new().tempfile_in("/tmp").unwrap();
    let path = program.path().to_str().unwrap();
    fs::copy("/bin/true", path).unwrap();
    let error = fails(&mut Lab::new().run(&[], &[path]), 127);
    assert!(error.contains("its own there"), "{error}");
}

#[test]
fn what_the_lab_is_made_of_is_named_where_it_is_missing() {
    let lab = Lab::new();
    let error = fails(lab.run(&[], &["true"]).env("PARATICK_QEMU", "no-qemu"), 69);
    assert!(error.contains("no-qemu") && error.contains("hint:"));
    let error = fails(lab.run(&[], &["true"]).env("PARATICK_AGENT", "/no/agent"), 69);
    assert!(error.contains("/no/agent") && error.contains("hint:"));
    let error = fails(&mut lab.run(&["--host-kernel", "/no/kernel"], &["true"]), 2);
    assert!(error.contains("/no/kernel") && error.contains("hint:"));
}

#[test]
fn an_emulator_that_ends_at_once_is_reported_and_leaves_nothing() {
    let lab = Lab::new();
    let error = fails(&mut lab.run(&[], &["true"]), 69);
    assert!(error.contains("its emulator ended"), "{error}");
    let runs = fs::read_dir(lab.dir.path().join("cache/run")).unwrap();
    assert_eq!(runs.count(), 0);
}

#[test]
fn a_disk_that_does_not_fit_is_refused() {
    let error = fails(&mut Lab::new().run(&["--disk", "4000T"], &["true"]), 69);
    assert!(error.contains("no room for a disk of 4000T") && error.contains("hint:"), "{error}");
}

#[test]
fn this_machine_is_no_host_without_kvm() {
    if paratick_machine::accel::kvm_works().is_ok() {
        eprintln!("skipped: KVM works on this machine");
        return;
    }
    let error = fails(&mut Lab::new().run(&["--host", "here"], &["true"]), 69);
    assert!(error.contains("/dev/kvm") && error.contains("hint:"), "{error}");
}

#[test]
fn a_shell_needs_a_terminal() {
    let error = fails(&mut paratick(&["lab", "shell"]), 2);
    assert!(error.contains("terminal") || error.contains("agent"), "{error}");
}

#[test]
fn a_dry_run_shows_both_command_lines_and_runs_nothing() {
    let lab = Lab::new();
    let options = [
        "--dry-run",
        "--accel",
        "tcg",
        "--mode",
        "tickless-stop+poll",
        "--vcpus",
        "4",
        "--memory",
        "1G",
        "--disk",
        "64M",
        "--halt-poll",
        "200000",
    ];
    let output = lab.run(&options, &["true"]).assert().code(0);
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    let (host, guest) = text.split_once("# the guest").unwrap();
    for part in [
        "-smp 5",
        "-m 2048M",
        "-icount shift=0",
        "virtio-9p-pci.ioeventfd=off",
        "truncate -s 64M",
        "name=paratick.host",
        "kvm.halt_poll_ns=200000",
    ] {
        assert!(host.contains(part), "{part}: {host}");
    }
    for part in [
        "-smp 4",
        "-m 1024M",
        "-accel kvm",
        "tickless_stop",
        "cpuidle_haltpoll.force=1",
        "file=/dev/vda",
        "name=paratick.guest",
    ] {
        assert!(guest.contains(part), "{part}: {guest}");
    }
    assert!(!lab.dir.path().join("cache/run").exists());
}

#[test]
fn a_default_may_be_named() {
    let lab = Lab::new();
    let planned = |options: &[&str]| {
        let mut run = lab.run(&[&["--dry-run", "--accel", "tcg"], options].concat(), &["true"]);
        let output = run.assert().code(0).get_output().clone();
        String::from_utf8(output.stdout).unwrap()
    };
    let named =
        ["--vcpus", "2", "--sockets", "1", "--halt-poll", "0", "--disk-device", "virtio-blk"];
    assert_eq!(planned(&named), planned(&[]));
}

#[test]
fn a_disk_is_virtio_blk_or_what_is_asked_for() {
    for (options, device) in [
        (&["--dry-run", "--disk", "64M"][..], "-device virtio-blk-pci,drive=disk\n"),
        (
            &["--dry-run", "--disk", "64M", "--disk-device", "nvme"],
            "-device nvme,drive=disk,serial=paratick\n",
        ),
    ] {
        let output = Lab::new().run(options, &["true"]).assert().code(0);
        let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
        let (host, guest) = text.split_once("# the guest").unwrap();
        // What is the guest's disk is a virtio disk of the host's.
        assert!(host.contains("-device virtio-blk-pci,drive=disk0"), "{host}");
        let guest = format!("{guest}\n");
        assert!(guest.contains(device), "{device}: {guest}");
        assert_eq!(guest.matches("drive=disk").count(), 1, "{guest}");
    }
}

#[test]
fn a_dry_run_names_what_fetches_a_kernel_that_is_missing() {
    let dir = TempDir::new().unwrap();
    let mut command = paratick(&["lab", "run", "--dry-run", "--mode", "tickless", "--kernel"]);
    command.args(["debian:6.12", "--", "true"]);
    command.env("PARATICK_CACHE", dir.path()).env("PARATICK_AGENT", "/bin/true");
    let error = fails(&mut command, 2);
    assert!(error.contains("debian:6.12 is not built\nhint: `paratick lab run"), "{error}");
}
