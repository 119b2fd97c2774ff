// SPDX-License-Identifier: GPL-2.0-only
//! What a number depends on besides the workload and the subject.

use crate::units::Hz;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// The guest's kernel, as `uname -r` says there.
    pub kernel_version: String,
    pub host_kernel_version: String,
    /// Hash of the patches in the guest's kernel; `null`: unpatched, or an image named by the user.
    pub patch_set_hash: Option<String>,
    pub host_patch_set_hash: Option<String>,
    pub configuration: Configuration,
    pub qemu_version: Option<String>,
    pub qemu_command_lines: QemuCommandLines,
    pub machine: Machine,
    /// Versions of the distribution's packages whose programs were measured, by name; empty: there
    /// are none, or they are not known.
    #[serde(default)]
    pub packages: BTreeMap<String, String>,
    /// SHA-256 of what else the numbers depend on, by name: `agent`, `qemu`, `plugin`; and where
    /// the machine is the host, `host`: its processor, kernel and settings of KVM.
    #[serde(default)]
    pub hashes: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// SHA-256 of the images of the guest's and the host's kernel.
    pub kernel_sha256: String,
    pub host_kernel_sha256: String,
    /// Rate of the guest's scheduler tick, where the configuration is known.
    pub hz: Option<Hz>,
    /// The same of the host's; `null`: not known, as in older files.
    #[serde(default)]
    pub host_hz: Option<Hz>,
    /// The options set in the guest kernel's configuration, where it is known.
    pub kernel_config: Option<BTreeMap<String, String>>,
    pub guest_memory_bytes: u64,
    pub host_cpus: u32,
    pub host_memory_bytes: u64,
    /// The machine is the host: nothing is emulated.
    pub host_is_machine: bool,
    /// How the host is run: `tcg` or `kvm`; `null` where the machine is the host.
    pub accelerator: Option<String>,
    /// Under instruction counting one instruction is this many nanoseconds of virtual time, summed
    /// over all CPUs.
    pub ns_per_instruction: Option<u32>,
    /// What the emulator adds to virtual time for every world switch; `null` where it does not.
    pub exit_cost_ns: Option<u32>,
    /// CPUs that run at once share the virtual time between them, as if they ran in parallel.
    #[serde(default)]
    pub parallel_clock: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QemuCommandLines {
    /// Empty where the machine is the host.
    pub host: Vec<String>,
    /// One for each subject, by its name: the first guest booted for it.
    pub guests: BTreeMap<String, Vec<String>>,
}

/// Where the bench was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's model name.
    pub cpu: String,
    pub cpus: u32,
    pub memory_bytes: u64,
    pub kernel_version: String,
    pub distribution: Option<String>,
}
