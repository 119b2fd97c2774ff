// SPDX-License-Identifier: GPL-2.0-only
//! What a number depends on besides the workload and the subject.

use crate::units::Hz;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the numbers depend on, besides workload and subject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Environment {
    /// `uname -r` of the guests.
    pub kernel_version: String,
    /// The same of the host.
    pub host_kernel_version: String,
    /// Patches of the guests' kernel; `null`: none, or unknown.
    pub patch_set_hash: Option<String>,
    /// The same of the host's kernel.
    pub host_patch_set_hash: Option<String>,
    /// How host and guests are set up.
    pub configuration: Configuration,
    /// First line of what QEMU says of itself.
    pub qemu_version: Option<String>,
    /// How QEMU was started.
    pub qemu_command_lines: QemuCommandLines,
    /// Where the bench was started.
    pub machine: Machine,
    /// Versions of packages with measured programs.
    ///
    /// Empty: there are none, or they are not known.
    #[serde(default)]
    pub packages: BTreeMap<String, String>,
    /// SHA-256 by name: `agent`, `qemu`, `host`.
    ///
    /// `host`: of its processor, kernel and settings of KVM, where the machine is the host.
    #[serde(default)]
    pub hashes: BTreeMap<String, String>,
}

/// How host and guests are set up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Configuration {
    /// Of the image of the guests' kernel.
    pub kernel_sha256: String,
    /// Of the image of the host's kernel.
    pub host_kernel_sha256: String,
    /// Ticks a second of the guests' scheduler (CONFIG_HZ).
    pub hz: Option<Hz>,
    /// The same of the host's.
    #[serde(default)]
    pub host_hz: Option<Hz>,
    /// Options set in the guests' kernel, without `CONFIG_`.
    pub kernel_config: Option<BTreeMap<String, String>>,
    /// Memory of each guest.
    pub guest_memory_bytes: u64,
    /// CPUs of the host.
    pub host_cpus: u32,
    /// Memory of the host.
    pub host_memory_bytes: u64,
    /// The machine was the host.
    pub host_is_machine: bool,
    /// `tcg` (emulation) or `kvm`; `null`: the machine is the host.
    pub accelerator: Option<String>,
    /// Virtual time of one instruction; `null`: real time.
    ///
    /// Summed over all CPUs, unless they share it.
    pub ns_per_instruction: Option<u32>,
    /// What the emulator charges for a world switch.
    pub exit_cost_ns: Option<u32>,
    /// CPUs that run at once share virtual time.
    ///
    /// As if they ran in parallel.
    #[serde(default)]
    pub parallel_clock: bool,
}

/// How QEMU was started, word by word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QemuCommandLines {
    /// The host's; empty where the machine is the host.
    pub host: Vec<String>,
    /// By subject: of the first guest booted for it.
    pub guests: BTreeMap<String, Vec<String>>,
}

/// Where the bench was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Machine {
    /// Model name of its processor.
    pub cpu: String,
    /// Its CPUs that are online.
    pub cpus: u32,
    /// Its memory.
    pub memory_bytes: u64,
    /// Its `uname -r`.
    pub kernel_version: String,
    /// `PRETTY_NAME` of its os-release.
    pub distribution: Option<String>,
}
