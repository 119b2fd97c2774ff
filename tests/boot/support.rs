// SPDX-License-Identifier: GPL-2.0-only
//! What every boot test needs: a kernel, the emulator, the agent.

use assert_cmd::Command;
use paratick_core::{mode::Mode, size::Size};
use paratick_lab::{
    exec::{Exec, ExecResult},
    guest::{Guest, GuestSpec},
    host::{Host, HostSpec},
    kernel::{self, Variant},
    tools::Tools,
};
use std::{path::PathBuf, time::Duration};

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

pub fn kernel() -> PathBuf {
    match std::env::var_os("PARATICK_TEST_KERNEL") {
        Some(kernel) => kernel.into(),
        None => {
            let image = kernel::ensure(kernel::DEFAULT_BASE, Variant::Patched, &mut |_| {});
            image.expect("a kernel for the boot tests").bzimage
        }
    }
}

pub fn tools() -> Tools {
    Tools::find(&mut |_| {}).expect("what a lab is made of")
}

pub fn mode(name: &str) -> Mode {
    name.parse().unwrap()
}

/// `paratick lab run` in a guest of one vCPU, with the tests' kernel.
pub fn lab_run(options: &[&str], command: &[&str]) -> Command {
    let mut run = Command::cargo_bin("paratick").unwrap();
    run.args(["lab", "run", "--vcpus", "1", "--kernel"]);
    run.arg(kernel()).args(options).arg("--").args(command);
    run.timeout(PATIENCE);
    run
}

/// A host and one guest on it.
pub struct Pair {
    // In this order: the guest ends first.
    pub guest: Guest,
    pub host: Host,
}

impl Pair {
    pub fn boot(vcpus: u32, mode_name: &str) -> Pair {
        let memory = Size::mib(512);
        let host = HostSpec::for_guests(kernel(), vcpus, memory);
        let host = Host::boot(host, &tools(), &mut |_| {}).unwrap();
        let guest = GuestSpec::new(kernel(), vcpus, memory, mode(mode_name));
        let guest = host.start_guest(guest).unwrap();
        Pair { guest, host }
    }

    /// Runs a line of shell in the guest.
    pub fn sh(&self, line: &str) -> ExecResult {
        self.guest.exec(sh(line)).unwrap()
    }
}

pub fn sh(line: &str) -> Exec {
    Exec::new(["sh", "-c", line]).timeout(PATIENCE)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
