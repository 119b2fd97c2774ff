// SPDX-License-Identifier: GPL-2.0-only
//! The processes of this machine's VMs, from /proc and the files of what started them.

use crate::names::{of_domain, Identity};
use paratick_core::units::{Hz, Nanos};
use rustix::{
    io::Errno,
    process::{test_kill_process, Pid},
};
use std::fs;

/// Of /proc, on x86.
const USER_HZ: Hz = Hz(100);

/// Where libvirt has a file for each domain that runs.
const LIBVIRT: [&str; 2] = ["/run/libvirt/qemu", "/run/libvirt/ch"];

/// What a process has open that has a VM of KVM's.
const VM: &str = "anon_inode:kvm-vm";

/// All VMs that run now.
pub fn running() -> Vec<Identity> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(|process| has_vm(*process)).map(identify).collect()
}

fn has_vm(process: u32) -> bool {
    let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let mut links = open.filter_map(|file| fs::read_link(file.path()).ok());
    links.any(|link| link.to_str() == Some(VM))
}

pub fn identify(process: u32) -> Identity {
    let cgroup = fs::read(format!("/proc/{process}/cgroup")).unwrap_or_default();
    let in_pod = String::from_utf8_lossy(&cgroup).contains("kubepods");
    let identity = Identity::of(process, &command_line(process), in_pod);
    match identity.name {
        Some(_) => identity,
        None => libvirt_s(process).unwrap_or(identity),
    }
}

/// The words that a process was started with.
pub fn command_line(process: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let line = line.strip_suffix(b"\0").unwrap_or(&line).split(|byte| *byte == 0);
    line.map(|word| String::from_utf8_lossy(word).into()).collect()
}

fn libvirt_s(process: u32) -> Option<Identity> {
    let files = LIBVIRT.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    files
        .filter_map(|file| fs::read_to_string(file.path()).ok())
        .find_map(|text| of_domain(&text, process))
}

/// When a process began, in clock ticks since the boot: with it a number names one process alone.
/// None: it has ended.
pub fn born(process: u32) -> Option<u64> {
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else {
        // It may be hidden (hidepid=) from whoever is not root.
        return exists(process).then_some(0);
    };
    let (state, born) = state_and_birth(&stat)?;
    // One that ended stays until its parent looks; but its first thread may end before others.
    let threads = || fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count);
    (!matches!(state, 'Z' | 'X') || threads() > 1).then_some(born)
}

fn exists(process: u32) -> bool {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| !matches!(test_kill_process(pid), Err(Errno::SRCH)))
}

/// The name, which may have spaces and parentheses, is in parentheses.
fn state_and_birth(stat: &str) -> Option<(char, u64)> {
    let rest: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some((rest.first()?.chars().next()?, rest.get(19)?.parse().ok()?))
}

/// The same on CLOCK_MONOTONIC, in ns; before that began, 0.
pub fn born_ns(ticks: u64) -> u64 {
    let now = |clock| {
        let now = rustix::time::clock_gettime(clock);
        now.tv_sec as u64 * Nanos::SECOND.0 + now.tv_nsec as u64
    };
    let slept =
        now(rustix::time::ClockId::Boottime).saturating_sub(now(rustix::time::ClockId::Monotonic));
    Nanos::from_clock_ticks(ticks, USER_HZ).0.saturating_sub(slept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_s_birth_is_read_behind_its_name() {
        let stat = "412 (a) b (c) S 1 412 412 0 -1 0 0 0 0 0 3 4 0 0 20 0 9 0 4711 8 9 184467";
        assert_eq!(state_and_birth(stat), Some(('S', 4711)));
        assert_eq!(state_and_birth("412 (a"), None);
    }

    #[test]
    fn this_process_runs_and_has_no_vm() {
        let this = std::process::id();
        let born = born(this).unwrap();
        assert!(born_ns(born) > 0 && exists(this) && exists(1));
        assert!(super::born(0x7fff_fff0).is_none());
        assert!(!has_vm(this) && identify(this).process == this);
    }
}
