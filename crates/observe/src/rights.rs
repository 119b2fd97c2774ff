// SPDX-License-Identifier: GPL-2.0-only
//! What is needed to look at other people's VMs, and what is missing.

use anyhow::{bail, Context, Result};
use paratick_instruments::perf_is_for_admins;
use rustix::thread::{capabilities, set_capabilities, CapabilitySet};
use std::{fs, path::Path};

/// Number, name; those that CAP_SYS_ADMIN includes stand first (capabilities(7)).
const NEEDED: [(u32, &str); 4] =
    [(39, "CAP_BPF"), (38, "CAP_PERFMON"), (34, "CAP_SYSLOG"), (2, "CAP_DAC_READ_SEARCH")];
const SYS_ADMIN: u32 = 21;
const DAC_OVERRIDE: u32 = 1;

/// The first process namespace of a system (include/linux/proc_ns.h).
const INITIAL: &str = "pid:[4026531836]";

/// An error names what is missing, and how to get it.
pub fn check() -> Result<()> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let missing = missing(&status, rustix::process::geteuid().is_root());
    if !missing.is_empty() {
        let program = std::env::current_exe().unwrap_or_else(|_| "paratick".into());
        let more = if perf_is_for_admins() { ",cap_sys_admin" } else { "" };
        bail!(
            "this process may not look at the machine's VMs: it lacks {}\n\
             hint: be root; or once, as root: setcap {}{more}+ep {}",
            missing.join(" and "),
            NEEDED.map(|(_, name)| name.to_lowercase()).join(","),
            program.display()
        );
    }
    if let Ok(namespace) = fs::read_link("/proc/self/ns/pid") {
        if namespace != Path::new(INITIAL) {
            bail!(
                "the kernel's numbers of processes are not known in this container\n\
                 hint: run it on the host itself, or in a container with the host's processes \
                 (--pid=host)"
            );
        }
    }
    if !Path::new("/dev/kvm").exists() {
        bail!(
            "there is no /dev/kvm: this kernel runs no VMs\n\
             hint: load KVM (modprobe kvm_amd or kvm_intel), or look where the VMs run"
        );
    }
    if fs::read_to_string("/sys/kernel/security/lockdown").is_ok_and(|on| is_confidential(&on)) {
        bail!(
            "the kernel is locked down (confidentiality): nobody may read it\n\
             hint: boot with lockdown=integrity, or without"
        );
    }
    Ok(())
}

/// Gives up, for this thread and those that it starts, what only the start of a
/// [`Watch`](crate::Watch) needs.
pub fn keep_to_reading() -> Result<()> {
    let mut all = capabilities(None).context("cannot read this process' capabilities")?;
    for set in [&mut all.effective, &mut all.permitted, &mut all.inheritable] {
        *set = kept(*set);
    }
    set_capabilities(None, all).context("cannot give up capabilities")
}

/// What reads BPF maps (before 5.19), and libvirt's files.
fn kept(set: CapabilitySet) -> CapabilitySet {
    let bpf = set & CapabilitySet::BPF;
    let maps = if bpf.is_empty() { set & CapabilitySet::SYS_ADMIN } else { bpf };
    maps | set & (CapabilitySet::DAC_READ_SEARCH | CapabilitySet::DAC_OVERRIDE)
}

fn is_confidential(lockdown: &str) -> bool {
    lockdown.contains("[confidentiality]")
}

/// By the effective capabilities; root owns the files that others need a capability for.
fn missing(status: &str, is_root: bool) -> Vec<&'static str> {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    // A kernel that does not say refuses by itself.
    let Some(effective) = effective else { return Vec::new() };
    let has = |number: u32| effective >> number & 1 == 1;
    let lacks = |number: u32| match number {
        2 => !has(2) && !has(DAC_OVERRIDE) && !is_root,
        number => !has(number) && !has(SYS_ADMIN),
    };
    NEEDED.into_iter().filter(|(number, _)| lacks(*number)).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_capability_is_named() {
        let with = |bits: u64| format!("Name:\tx\nCapEff:\t{bits:016x}\nCapBnd:\t0\n");
        let all = 1 << 39 | 1 << 38 | 1 << 34 | 1 << 2;
        assert!(missing(&with(all), false).is_empty());
        assert!(missing(&with(1 << SYS_ADMIN), true).is_empty());
        assert_eq!(missing(&with(1 << SYS_ADMIN), false), ["CAP_DAC_READ_SEARCH"]);
        assert_eq!(missing(&with(all & !(1 << 39)), false), ["CAP_BPF"]);
        assert_eq!(missing(&with(0), true), ["CAP_BPF", "CAP_PERFMON", "CAP_SYSLOG"]);
        assert!(missing("", false).is_empty());
    }

    #[test]
    fn what_reads_is_kept() {
        use CapabilitySet as Set;
        let reads = Set::BPF | Set::DAC_READ_SEARCH;
        assert_eq!(kept(Set::all()), reads | Set::DAC_OVERRIDE);
        assert_eq!(kept(reads | Set::PERFMON | Set::SYSLOG | Set::SYS_ADMIN), reads);
        assert_eq!(kept(Set::SYS_ADMIN | Set::SYSLOG), Set::SYS_ADMIN);
    }

    #[test]
    fn only_confidentiality_is_in_the_way() {
        assert!(is_confidential("none integrity [confidentiality]"));
        assert!(!is_confidential("none [integrity] confidentiality"));
    }
}
