// SPDX-License-Identifier: GPL-2.0-only
//! What the host's kernel counted so far of a VM beside its exits: quotas, polling, threads.

use super::threads::Threads;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{BufRead, BufReader},
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
    /// The host's ticks, and when that was, in ns.  None: nobody tells.
    pub jiffies: Option<(u64, u64)>,
    pub threads: Threads,
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
        let timers = File::open("/proc/timer_list").map(BufReader::new);
        Limits {
            quotas: quotas(process),
            polls: polls(process),
            jiffies: timers.ok().and_then(jiffies),
            threads: Threads::of(process),
        }
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

/// What /proc/timer_list says of its first CPU: the rest may be long.
fn jiffies(timers: impl BufRead) -> Option<(u64, u64)> {
    let (mut now, mut jiffies) = (None, None);
    for line in timers.lines().map_while(Result::ok) {
        if let Some(ns) = line.strip_prefix("now at ") {
            now = ns.split_whitespace().next()?.parse().ok();
        } else if let Some(count) = line.trim_start().strip_prefix("jiffies: ") {
            jiffies = count.trim().parse().ok();
            break;
        }
    }
    jiffies.zip(now)
}

/// The rate of the host's tick in Hz: one of those that kernels are built with.  None of fewer
/// ticks, of which one more or less is much.
pub fn rate((before, after): ((u64, u64), (u64, u64))) -> Option<u32> {
    const RATES: [u32; 4] = [100, 250, 300, 1000];
    const FEWEST: u64 = 40;
    let ns = after.1.checked_sub(before.1).filter(|ns| *ns > 0)?;
    let ticks = after.0.checked_sub(before.0).filter(|ticks| *ticks >= FEWEST)?;
    let seen = ticks as f64 * 1e9 / ns as f64;
    RATES.into_iter().find(|rate| (seen / f64::from(*rate) - 1.0).abs() < 0.05)
}

/// KVM's maximum of polling, in ns.
pub fn halt_poll_ns() -> Option<u64> {
    read("/sys/module/kvm/parameters/halt_poll_ns")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tick_s_rate_is_that_of_ticks_between_two_looks() {
        let text =
            "Timer List Version: v0.10\nnow at 6000000 nsecs\n\ncpu: 0\n  .idle_sleeps    : 7\n\
                    jiffies: 4295\n\ncpu: 1\njiffies: 4296\n";
        assert_eq!(jiffies(text.as_bytes()), Some((4295, 6_000_000)));
        assert_eq!(jiffies("now at 6 nsecs\n".as_bytes()), None);
        let second = |ticks: u64| rate(((7, 5), (7 + ticks, 1_000_000_005)));
        assert_eq!([second(250), second(1002), second(98)], [Some(250), Some(1000), Some(100)]);
        assert_eq!((second(600), rate(((7, 5), (7, 5)))), (None, None));
        // 300 Hz, or 250 and one more.
        assert_eq!(rate(((7, 5), (7 + 6, 20_000_005))), None);
    }

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
