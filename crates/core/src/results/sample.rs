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
pub struct Sample {
    pub round: u32,
    pub repeat: u32,
    /// Of all vCPUs.
    pub exits: Option<Counts>,
    /// Counted independently of the exits, by the emulator.
    pub world_switches: Option<u64>,
    pub host_instructions: Option<u64>,
    pub guest_instructions: Option<u64>,
    /// What the host's CPUs spent: the instructions of host and guest, each counted as a
    /// nanosecond, and the stated cost of every world switch.
    pub cpu_ns: Option<u64>,
    /// On the host's clock.
    pub duration_ns: Option<u64>,
    /// On the guest's clock.
    pub guest_duration_ns: Option<u64>,
    /// Of all vCPUs, by the guest's own accounting.
    pub user_ns: Option<u64>,
    pub system_ns: Option<u64>,
    pub idle_ns: Option<u64>,
    /// Each vCPU's exits, from vCPU 0 on.
    #[serde(default)]
    pub per_vcpu: Vec<Counts>,
    /// Each of the host's CPUs, as the emulator saw it; empty where it did not count.
    #[serde(default)]
    pub per_host_cpu: Vec<HostCpuSample>,
    /// Each of the host's CPUs, as its kernel counted; empty where it did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pcpus: Vec<Pcpu>,
    /// Of a guest that is busy sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<NoiseSample>,
    /// What the guest's own kernel counted; empty where it was not asked.
    #[serde(default, skip_serializing_if = "Interrupts::is_empty")]
    pub guest_interrupts: Interrupts,
    /// What woke the guest in another run of the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken: Option<Woken>,
    /// How late the timers of all guests were, in a window after that; empty where they were not
    /// recorded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub late: BTreeMap<wakeups::Class, Lateness>,
    /// What the workload itself reports, by name.
    #[serde(default)]
    pub metrics: BTreeMap<String, f64>,
    /// Why this sample is not to be trusted; empty: it is.
    #[serde(default)]
    pub problems: Vec<Fault>,
}

/// What the emulator counted on one of the host's CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCpuSample {
    pub world_switches: u64,
    pub host_instructions: u64,
    pub guest_instructions: u64,
}
