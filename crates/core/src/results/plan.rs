// SPDX-License-Identifier: GPL-2.0-only
//! What a bench sets out to measure.

use crate::{
    balancing::Balancing, clock_device::ClockDevice, disk_device::DiskDevice, isolation::Isolation,
    latency_program::LatencyProgram, network::Network, subject::Subject, workload::Workload,
};
use serde::{Deserialize, Serialize};

/// What was to be measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Plan {
    /// vCPUs of each guest.
    pub vcpus: u32,
    /// Packages that these are divided among; else one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sockets: Option<u32>,
    /// How long the disk takes for a request, in ns; else a file in memory is the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_latency_ns: Option<u64>,
    /// What a guest's disk is; else `virtio-blk`.
    #[serde(default, skip_serializing_if = "DiskDevice::is_default")]
    pub disk_device: DiskDevice,
    /// Guests talk to each other; who moves their packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Guests side by side, all alike.
    ///
    /// A sample holds what they did together.
    #[serde(default = "one")]
    pub guests: u32,
    /// What is compared.
    pub subjects: Vec<Subject>,
    /// What each of them runs.
    pub workloads: Vec<PlannedWorkload>,
    /// In each a guest is booted for every subject.
    ///
    /// Grows while intervals are too wide.
    pub rounds: u32,
    /// How far `rounds` may grow.
    pub rounds_at_most: Option<u32>,
    /// Half width / ratio that intervals shall have.
    ///
    /// Of the exits.
    pub precision: Option<f64>,
    /// Runs of each workload in each guest.
    pub repeats: u32,
    /// The first guest of `tickless-stop` counts idle entries.
    ///
    /// In one more run of each workload.
    #[serde(default)]
    pub idle_entries: bool,
    /// The first guest of every subject records halts.
    ///
    /// In one more run of each workload.
    #[serde(default)]
    pub halts: bool,
    /// A sample is one window of all guests.
    ///
    /// The workload runs in the first guest alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_window: bool,
    /// Of `bench noise`: which CPUs are isolated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// Of `bench noise`: programs that measured, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency_programs: Vec<LatencyProgram>,
    /// CPUs of the host; else one more than a guest has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_cpus: Option<u32>,
    /// What guests' timers are armed with; else `tsc-deadline`.
    #[serde(default, skip_serializing_if = "ClockDevice::is_default")]
    pub clock_device: ClockDevice,
    /// The timer of the lab's kernel that samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampler: Option<Sampler>,
    /// Who balances load for idle CPUs is measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub balances: bool,
    /// The lab's policy, where ticks stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balancing: Option<Balancing>,
    /// Wake-ups are recorded after the last run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub records_wakeups: bool,
    /// Lateness is recorded after the last run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub records_lateness: bool,
}

/// A timer on each CPU that expires again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sampler {
    /// How often it expires, on each CPU.
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

/// A workload of the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PlannedWorkload {
    /// Its name.
    pub workload: String,
    /// Units of work of one run.
    pub work: u64,
    /// What one unit is, in the plural.
    pub unit: String,
    /// What runs; `null`: the agent's own workload.
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Program {
    /// For `sh -c`, with the number of threads put in.
    pub command: String,
    /// Makes its input, outside all windows.
    pub prepare: Option<String>,
    /// Runs meanwhile in the second guest, and is talked to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The paper's workload in whose place it runs.
    pub stands_for: Option<String>,
    /// It ran over 9p (`--no-prepare`), not from memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_place: bool,
}

fn one() -> u32 {
    1
}
