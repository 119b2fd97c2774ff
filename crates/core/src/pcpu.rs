// SPDX-License-Identifier: GPL-2.0-only
//! What guests cost the host's CPUs, as its kernel counts it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Between the marks of one window of all guests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pcpus {
    pub duration_ns: u64,
    /// From pCPU 0 on.
    pub cpus: Vec<Pcpu>,
}

/// A CPU of the host's, in a window of all guests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pcpu {
    /// How often it left idle (`power:cpu_idle`).
    pub wake_ups: u64,
    /// Timers of vCPUs that expired on it.
    pub vcpu_timers: u64,
    /// By the names of `/proc/interrupts`; `device`: of all devices.
    pub interrupts: BTreeMap<Interrupt, u64>,
}

/// By the names of /proc/interrupts; all of devices together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Interrupt {
    #[serde(rename = "LOC")]
    LocalTimer,
    #[serde(rename = "RES")]
    Reschedule,
    #[serde(rename = "CAL")]
    CallFunction,
    #[serde(rename = "CAL single")]
    CallFunctionSingle,
    #[serde(rename = "IWI")]
    IrqWork,
    #[serde(rename = "device")]
    Device,
}

impl Pcpu {
    pub fn all_interrupts(&self) -> u64 {
        self.interrupts.values().sum()
    }
}
