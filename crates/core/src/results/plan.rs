// SPDX-License-Identifier: GPL-2.0-only
//! What a bench sets out to measure.

use crate::{
    balancing::Balancing, clock_device::ClockDevice, isolation::Isolation,
    latency_program::LatencyProgram, subject::Subject, workload::Workload,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub vcpus: u32,
    /// Guests that run side by side, all alike; a sample holds what they did together.
    #[serde(default = "one")]
    pub guests: u32,
    pub subjects: Vec<Subject>,
    pub workloads: Vec<PlannedWorkload>,
    /// In each round fresh guests are booted for every subject.  Grows while intervals are too
    /// wide.
    pub rounds: u32,
    /// How far `rounds` may grow; `null`: not at all.
    pub rounds_at_most: Option<u32>,
    /// How narrow the intervals of the exits' ratios shall be: half their width, of the ratio.
    pub precision: Option<f64>,
    /// How often each workload runs in each guest.
    pub repeats: u32,
    /// Each workload runs once more, in the first guest whose kernel stops its tick
    /// wherever it can (`tickless-stop`), to count its idle entries.
    #[serde(default)]
    pub idle_entries: bool,
    /// Each workload runs once more, in the first guest of every subject, to record its halts.
    #[serde(default)]
    pub halts: bool,
    /// The workload runs in the first guest alone, and its window is of all guests and of the
    /// host's CPUs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_window: bool,
    /// The noise of a busy guest is recorded, with these CPUs isolated; `null`: it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// What measures latency from user space after each recording of noise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency_programs: Vec<LatencyProgram>,
    /// CPUs of the host; `null`: one more than a guest has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_cpus: Option<u32>,
    /// What the guests' timers are armed with.
    #[serde(default, skip_serializing_if = "ClockDevice::is_default")]
    pub clock_device: ClockDevice,
    /// The timer of the lab's kernel that samples; none: it is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampler: Option<Sampler>,
    /// It is about who balances load for idle CPUs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub balances: bool,
    /// By what policy of the lab's kernel; none: by none, as no tick stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balancing: Option<Balancing>,
    /// What wakes it is recorded in each guest, after the last run of each workload.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub records_wakeups: bool,
    /// How late timers are is recorded in all guests, after the last run of each workload.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub records_lateness: bool,
}

/// A timer on each CPU that expires again and again (kernel/series/lab).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampler {
    pub period_us: u32,
    /// An idle CPU is not woken for it.
    pub deferrable: bool,
}

impl Sampler {
    /// The guest's kernel parameters, as module and parameter and value.
    pub fn parameters(self) -> [(&'static str, String); 2] {
        let deferrable = if self.deferrable { "Y" } else { "N" };
        [("period_us", self.period_us.to_string()), ("deferrable", deferrable.into())]
    }
}

impl Plan {
    /// Of every subject and workload given, in their order.
    pub fn new(
        vcpus: u32,
        subjects: impl IntoIterator<Item = impl Into<Subject>>,
        workloads: impl IntoIterator<Item = impl Into<PlannedWorkload>>,
        rounds: u32,
        repeats: u32,
    ) -> Plan {
        Plan {
            vcpus,
            guests: 1,
            subjects: subjects.into_iter().map(Into::into).collect(),
            workloads: workloads.into_iter().map(Into::into).collect(),
            rounds,
            repeats,
            ..Plan::default()
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedWorkload {
    pub workload: String,
    /// How many units of work one run does.
    pub work: u64,
    /// What one unit is, in the plural.
    pub unit: String,
    /// What runs; `null`: the agent's own workload of this name.
    pub program: Option<Program>,
}

impl PlannedWorkload {
    /// One of the agent's own, with its unit in the plural.
    pub fn new(workload: &str, work: u64, unit: &str) -> PlannedWorkload {
        PlannedWorkload { workload: workload.into(), work, unit: unit.into(), program: None }
    }

    /// So much of a workload that the agent has.
    pub fn of(known: &Workload, work: u64) -> PlannedWorkload {
        PlannedWorkload::new(known.name, work, known.unit)
    }

    pub fn run_of(name: &str, program: Program) -> PlannedWorkload {
        PlannedWorkload { program: Some(program), ..PlannedWorkload::new(name, 1, "runs") }
    }
}

/// A program of the guest's distribution, or the user's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Program {
    /// For `sh -c`, with the number of threads put in.
    pub command: String,
    /// Makes its input, before the first sample and outside all windows.
    pub prepare: Option<String>,
    /// The workload of the paper's suite in whose place it runs.
    pub stands_for: Option<String>,
    /// Runs from the guest's own root, over 9p, instead of from its memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_place: bool,
}

fn one() -> u32 {
    1
}
