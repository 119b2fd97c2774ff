// SPDX-License-Identifier: GPL-2.0-only
//! What one run of a workload came to.

use super::problem::Fault;
use crate::{
    exits::Counts,
    interrupts::Interrupts,
    noise::NoiseSample,
    pcpu::Pcpu,
    wakeups::{self, Lateness, Woken},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One run of a workload, between its two window marks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sample {
    /// Which boot, from 1.
    pub round: u32,
    /// Which run in that boot, from 1.
    pub repeat: u32,
    /// VM exits of all vCPUs.
    pub exits: Option<Counts>,
    /// What the emulator counted (#VMEXITs); must equal `exits`.
    pub world_switches: Option<u64>,
    /// Executed by the host, on all its CPUs.
    ///
    /// Where the machine is the host: in the VMs' threads, by its PMU.
    pub host_instructions: Option<u64>,
    /// Executed by guests.
    pub guest_instructions: Option<u64>,
    /// CPU cycles of the host in the VMs' threads.
    ///
    /// Only where the machine is the host, and has a PMU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_cycles: Option<u64>,
    /// The same of guests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_cycles: Option<u64>,
    /// CPU time of the host, world switches included.
    ///
    /// The instructions of host and guest, each counted as a nanosecond, and the stated cost of
    /// every world switch; where the machine is the host, time of the VMs' threads, from the start
    /// of the workload to its end.
    pub cpu_ns: Option<u64>,
    /// Between the marks, on the host's clock.
    pub duration_ns: Option<u64>,
    /// The same on the guest's own clock.
    pub guest_duration_ns: Option<u64>,
    /// In user mode, all vCPUs, by the guest's `/proc/stat`.
    pub user_ns: Option<u64>,
    /// In the guest's kernel, interrupts included.
    pub system_ns: Option<u64>,
    /// Idle time.
    pub idle_ns: Option<u64>,
    /// Each vCPU's exits, from vCPU 0 on.
    #[serde(default)]
    pub per_vcpu: Vec<Counts>,
    /// By the emulator, each CPU; empty: it did not count.
    #[serde(default)]
    pub per_host_cpu: Vec<HostCpuSample>,
    /// Each CPU of the host's, by its kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pcpus: Vec<Pcpu>,
    /// Of a guest that osnoise kept busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<NoiseSample>,
    /// By its `/proc/interrupts`; `intr`: of `/proc/stat`.
    #[serde(default, skip_serializing_if = "Interrupts::is_empty")]
    pub guest_interrupts: Interrupts,
    /// What woke the guest, in another window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken: Option<Woken>,
    /// Lateness by class, in another window.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub late: BTreeMap<wakeups::Class, Lateness>,
    /// What the workload itself reports, in units as named.
    #[serde(default)]
    pub metrics: BTreeMap<String, f64>,
    /// Why this sample is not to be trusted; empty: it is.
    #[serde(default)]
    pub problems: Vec<Fault>,
}

/// What the emulator counted on one of the host's CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HostCpuSample {
    /// World switches on it.
    pub world_switches: u64,
    /// Executed on it by the host.
    pub host_instructions: u64,
    /// Executed on it by guests.
    pub guest_instructions: u64,
}
