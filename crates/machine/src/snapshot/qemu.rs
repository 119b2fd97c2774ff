// SPDX-License-Identifier: GPL-2.0-only
//! What QEMU's monitor is asked for: the state of a host that is idle, and to go on from one.

use crate::booted::Booted;
use anyhow::{bail, ensure, Context, Result};
use paratick_service::monitor::Monitor;
use serde_json::json;
use std::{
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// How long a host is left alone before it is kept: what it still had to do after its boot is then
/// done.  It has nothing to wait for, so its own clock goes on by many seconds.
const SETTLES: Duration = Duration::from_millis(300);
/// How often it is looked at until all CPUs are idle at once.
const LOOKS: u32 = 2000;
/// How long saving or loading a state may take.
const MOVING: Duration = Duration::from_secs(120);

pub fn monitor_socket(run: &Path) -> PathBuf {
    run.join("monitor")
}

/// Writes the state of a host in which nothing runs.
pub fn save(host: &Booted, to: &Path) -> Result<()> {
    host.link.check()?;
    thread::sleep(SETTLES);
    let mut monitor = Monitor::new(UnixStream::connect(monitor_socket(host.run.path()))?)?;
    let mut looks = 0;
    loop {
        monitor.ask("stop", json!({}))?;
        let registers = json!({ "command-line": "info registers -a" });
        let said = monitor.ask("human-monitor-command", registers)?;
        if said.as_str().is_some_and(all_halted) {
            break;
        }
        looks += 1;
        ensure!(looks < LOOKS, "its CPUs are never idle");
        monitor.ask("cont", json!({}))?;
        thread::sleep(Duration::from_millis(u64::from(looks % 3)));
    }
    leave_memory(&mut monitor)?;
    monitor.ask("migrate", json!({ "uri": format!("exec:cat >{}", quote(to)) }))?;
    moved(&mut monitor).context("saving it")?;
    host.link.check()
}

/// Waits until QEMU has written or read the state.
fn moved(monitor: &mut Monitor) -> Result<()> {
    let begun = Instant::now();
    loop {
        let said = monitor.ask("query-migrate", json!({}))?;
        match said["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("failed" | "cancelled") => {
                bail!("QEMU failed: {}", said["error-desc"].as_str().unwrap_or("it says no more"))
            }
            _ if begun.elapsed() > MOVING => bail!("QEMU takes too long"),
            _ => thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Lets a QEMU that waits for it go on from a state that was saved.
pub fn load(monitor: UnixStream, state: &Path) -> Result<()> {
    let mut monitor = Monitor::new(monitor)?;
    leave_memory(&mut monitor)?;
    monitor.ask("migrate-incoming", json!({ "uri": format!("exec:cat {}", quote(state)) }))?;
    moved(&mut monitor)?;
    monitor.cont()
}

/// Memory that is a file is no part of the state.
fn leave_memory(monitor: &mut Monitor) -> Result<()> {
    let shared = json!({ "capability": "x-ignore-shared", "state": true });
    monitor.ask("migrate-set-capabilities", json!({ "capabilities": [shared] })).map(drop)
}

fn quote(path: &Path) -> String {
    paratick_core::shell::quote(&path.display().to_string())
}

/// Whether QEMU's registers of all CPUs say that nothing runs: none of them is in a guest then.
fn all_halted(registers: &str) -> bool {
    let halted = registers.matches(" HLT=1").count();
    halted > 0 && halted == registers.matches(" HLT=").count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_quiet_when_all_of_its_cpus_are_halted() {
        let cpu = |halted| format!("EIP=000 EFL=00 CPL=0 II=0 A20=1 SMM=0 HLT={halted}\nES =0\n");
        assert!(all_halted(&[cpu(1), cpu(1)].concat()));
        assert!(!all_halted(&[cpu(1), cpu(0)].concat()));
        assert!(!all_halted(""));
    }
}
