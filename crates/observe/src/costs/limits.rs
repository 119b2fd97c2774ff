// SPDX-License-Identifier: GPL-2.0-only
//! What the host's kernel counted so far of a VM beside its exits: quotas, and polling.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

const CGROUPS: &str = "/sys/fs/cgroup";
const DEBUG: &str = "/sys/kernel/debug/kvm";

/// So far, for all of one process' threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// By cgroup; groups without a quota are left out.  None: nobody tells.
    pub quotas: Option<BTreeMap<String, Quota>>,
    /// For how long halted vCPUs polled until work came, and in vain, in ns.  None: nobody tells.
    pub polls: Option<(u64, u64)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// As cpu.max says: microseconds, and of how many.
    pub max: String,
    /// How often the group was held back, and for how long in microseconds (of all its CPUs).
    pub throttled: u64,
    pub throttled_us: u64,
}

impl Limits {
    pub fn of(process: u32) -> Limits {
        Limits { quotas: quotas(process), polls: polls(process) }
    }
}

fn read(file: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(file).ok()
}

/// Each group of a thread, and each above that.
fn quotas(process: u32) -> Option<BTreeMap<String, Quota>> {
    let controllers = read(format!("{CGROUPS}/cgroup.controllers"))?;
    if !controllers.split_whitespace().any(|one| one == "cpu") {
        return None;
    }
    let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten();
    let texts = tasks.filter_map(|task| read(task.path().join("cgroup")));
    let groups: BTreeSet<String> = texts.flat_map(|text| above(&text)).collect();
    let quota = |group: String| {
        let file = |name: &str| read(format!("{CGROUPS}{group}/{name}"));
        let max = file("cpu.max")?.trim().to_string();
        let quota = told(&max, &file("cpu.stat")?)?;
        Some((group, quota))
    };
    Some(groups.into_iter().filter_map(quota).collect())
}

/// The group of version 2 in /proc/PID/cgroup, and those above it but for the root.
fn above(text: &str) -> Vec<String> {
    let group = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    let groups = Path::new(group).ancestors().filter_map(|group| group.to_str());
    groups.filter(|group| group.len() > 1).map(String::from).collect()
}

/// None without a quota.
fn told(max: &str, stat: &str) -> Option<Quota> {
    if max.starts_with("max") {
        return None;
    }
    let number = |name: &str| {
        let value = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.trim().parse().ok())
    };
    let (throttled, throttled_us) = (number("nr_throttled")?, number("throttled_usec")?);
    Some(Quota { max: max.into(), throttled, throttled_us })
}

/// Of all VMs of the process.
fn polls(process: u32) -> Option<(u64, u64)> {
    let start = format!("{process}-");
    let vms = fs::read_dir(DEBUG).ok()?.flatten();
    let vms = vms.filter(|vm| vm.file_name().to_str().is_some_and(|n| n.starts_with(&start)));
    let number = |file: &Path| read(file)?.trim().parse::<u64>().ok();
    let of = |vm: fs::DirEntry| {
        let [good, vain] =
            ["halt_poll_success_ns", "halt_poll_fail_ns"].map(|name| number(&vm.path().join(name)));
        good.zip(vain)
    };
    let all: Vec<(u64, u64)> = vms.map(of).collect::<Option<_>>()?;
    all.into_iter().reduce(|a, b| (a.0 + b.0, a.1 + b.1))
}

/// The host's HZ, by the configuration of its kernel.
pub fn tick_rate() -> Option<u32> {
    let release = read("/proc/sys/kernel/osrelease")?;
    let release = release.trim();
    let files = [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")];
    let text = files.iter().find_map(read)?;
    text.lines().find_map(|line| line.strip_prefix("CONFIG_HZ=")?.parse().ok())
}

/// KVM's maximum of polling, in ns.
pub fn halt_poll_ns() -> Option<u64> {
    read("/sys/module/kvm/parameters/halt_poll_ns")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_stands_below_others_whose_quotas_count_too() {
        let text = "1:name=systemd:/x\n0::/machine.slice/vm.scope/libvirt/vcpu0\n";
        let groups = above(text);
        assert_eq!(groups.len(), 4);
        assert_eq!(groups[0], "/machine.slice/vm.scope/libvirt/vcpu0");
        assert_eq!(groups[3], "/machine.slice");
        assert!(above("0::/\n").is_empty() && above("4:cpu:/x\n").is_empty());
    }

    #[test]
    fn a_quota_is_told_with_what_it_held_back() {
        let stat = "usage_usec 9\nnr_periods 30\nnr_throttled 12\nthrottled_usec 840000\n";
        let max = "20000 100000";
        let quota = Quota { max: max.into(), throttled: 12, throttled_us: 840_000 };
        assert_eq!(told(max, stat), Some(quota));
        assert_eq!(told("max 100000", stat), None);
        assert_eq!(told(max, "usage_usec 9\n"), None);
    }
}
