// SPDX-License-Identifier: GPL-2.0-only
//! The project's own workloads: what each is, how much it does by default, what it reports.

use crate::{cycle::Why, idle::IdleEntries, interrupts::Interrupts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    pub name: &'static str,
    /// What one unit of work is, in the plural.
    pub unit: &'static str,
    /// Units done if `--work` does not say otherwise.
    pub work: u64,
    /// How many threads if `--threads` does not say otherwise.
    pub threads: Threads,
    pub about: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// However many vCPUs there are.
    Exactly(usize),
    /// One for each vCPU, but at least so many.
    PerVcpu { at_least: usize },
    /// Three on each two vCPUs, so that some must share one.
    Crowded,
}

impl Threads {
    pub fn on(self, vcpus: usize) -> usize {
        match self {
            Threads::Exactly(threads) => threads,
            Threads::PerVcpu { at_least } => vcpus.max(at_least),
            Threads::Crowded => vcpus + vcpus.div_ceil(2),
        }
    }
}

const ONE_EACH: Threads = Threads::PerVcpu { at_least: 1 };

/// Every workload; the sizes are about those of the prototype's table in the design.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "idle",
        unit: "ms",
        work: 2000,
        threads: Threads::Exactly(1),
        about: "sleeps: the guest has nothing to do",
    },
    Workload {
        name: "phases",
        unit: "ms",
        work: 2000,
        threads: Threads::Exactly(10),
        about: "wakes up once a second in ten threads, each at a phase of its own",
    },
    Workload {
        name: "grouped",
        unit: "ms",
        work: 2000,
        threads: Threads::Exactly(10),
        about: "is phases, all at one offset that the system has of its own",
    },
    Workload {
        name: "slack",
        unit: "ms",
        work: 2000,
        threads: Threads::Exactly(10),
        about: "is phases with a timer slack of a tenth of a second",
    },
    Workload {
        name: "accuracy",
        unit: "ms",
        work: 2000,
        threads: Threads::Exactly(10),
        about: "is phases, up to a quarter of a second later to meet others",
    },
    Workload {
        name: "cpu",
        unit: "million loops",
        work: 25,
        threads: ONE_EACH,
        about: "runs a loop of four instructions, that many times per thread",
    },
    Workload {
        name: "pingpong",
        unit: "round trips",
        work: 1000,
        threads: Threads::Exactly(2),
        about: "passes a byte back and forth between two vCPUs through pipes",
    },
    Workload {
        name: "barrier",
        unit: "barriers",
        work: 1000,
        threads: Threads::PerVcpu { at_least: 2 },
        about: "makes all threads wait for each other, with a futex",
    },
    Workload {
        name: "sync",
        unit: "synchronizations",
        work: 1000,
        threads: Threads::PerVcpu { at_least: 2 },
        about: "makes all threads wait for one of them, --rate times a second",
    },
    Workload {
        name: "sleep",
        unit: "sleeps",
        work: 2000,
        threads: Threads::Exactly(1),
        about: "sleeps for 100 us, then works for about 10 us",
    },
    Workload {
        name: "exponential",
        unit: "sleeps",
        work: 2000,
        threads: Threads::Exactly(1),
        about: "is sleep with random times: exponential ones, of 300 us on average",
    },
    Workload {
        name: "block",
        unit: "reads",
        work: 2000,
        threads: Threads::Exactly(1),
        about: "reads 4 KiB with O_DIRECT from a block device, one at a time",
    },
    Workload {
        name: "itimer",
        unit: "million loops",
        work: 50,
        threads: Threads::Exactly(1),
        about: "is cpu on one vCPU with a 1 ms interval timer; reports the ticks",
    },
    Workload {
        name: "ticks",
        unit: "ms",
        work: 1000,
        threads: Threads::Exactly(1),
        about: "keeps one vCPU busy; reports ticks and how far jiffies lag",
    },
    Workload {
        name: "mix",
        unit: "ms",
        work: 2000,
        threads: Threads::Exactly(1),
        about: "computes for --busy-us and sleeps for --sleep-us in turn; reports the ticks",
    },
    Workload {
        name: "chores",
        unit: "ms",
        work: 2000,
        threads: Threads::Exactly(4),
        about: "computes and sleeps as mix does, in threads that may run anywhere",
    },
    Workload {
        name: "stencil",
        unit: "sweeps",
        work: 2400,
        threads: ONE_EACH,
        about: "relaxes a grid; all threads wait for each other after a sweep",
    },
    Workload {
        name: "finelock",
        unit: "thousand updates",
        work: 500,
        threads: ONE_EACH,
        about: "updates cells in all threads, under --locks different locks",
    },
    Workload {
        name: "warehouse",
        unit: "collections",
        work: 10,
        threads: Threads::Crowded,
        about: "computes in uneven, unpinned threads that wait for the last",
    },
    Workload {
        name: "nursery",
        unit: "collections",
        work: 40,
        threads: Threads::Crowded,
        about: "is warehouse with a quarter of the work before each wait",
    },
    Workload {
        name: "program",
        unit: "runs",
        work: 1,
        threads: Threads::Exactly(1),
        about: "runs a command from start to end",
    },
];

pub fn find(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| workload.name == name)
}

/// The one line of JSON that a workload prints.  Times are the guest's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub workload: String,
    /// Units done inside the window.
    pub work: u64,
    pub unit: String,
    pub window: u32,
    pub threads: u32,
    /// CLOCK_MONOTONIC from just after the window's opening to just before its closing.
    pub duration_ns: u64,
    /// Of the workload's process inside the window (getrusage).
    pub user_ns: u64,
    pub system_ns: u64,
    /// Of all the guest's CPUs around the window (/proc/stat, in hundredths of a second).
    pub cpu_user_ticks: u64,
    pub cpu_system_ticks: u64,
    pub cpu_idle_ticks: u64,
    pub cpu_steal_ticks: u64,
    /// Inside the window; none: they were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_entries: Option<IdleEntries>,
    /// Of all the guest's CPUs around the window; empty: not asked for.
    #[serde(default, skip_serializing_if = "Interrupts::is_empty")]
    pub interrupts: Interrupts,
    /// Why the first CPU wrote deadlines inside the window, in their order; none: not asked for, or
    /// its kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_writes: Option<Vec<Why>>,
    /// What only this workload reports.
    #[serde(flatten)]
    pub more: BTreeMap<String, serde_json::Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_found_by_its_name_only() {
        for workload in WORKLOADS {
            assert_eq!(find(workload.name), Some(workload));
            assert!(workload.work > 0);
        }
        assert_eq!(find("idl"), None);
    }

    #[test]
    fn threads_follow_the_vcpus_where_the_table_says_so() {
        assert_eq!(find("barrier").unwrap().threads.on(1), 2);
        assert_eq!(find("cpu").unwrap().threads.on(4), 4);
        assert_eq!(find("pingpong").unwrap().threads.on(16), 2);
    }
}
