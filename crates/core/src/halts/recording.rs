// SPDX-License-Identifier: GPL-2.0-only
//! What was recorded of the halts of vCPUs, on the host or in a guest.

use super::{maximum::Maximum, rule::Rule};
use crate::vms::OfVms;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halts {
    /// For how long was recorded.
    pub window_ns: u64,
    /// What processes are called, of those that run a VM with a name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<u32, String>,
    pub vcpus: Vec<VcpuHalts>,
}

impl OfVms for Halts {
    fn vcpus(&self) -> BTreeSet<(u32, u32)> {
        self.vcpus.iter().filter_map(|one| Some((one.process?, one.vcpu))).collect()
    }

    fn only(&mut self, has: impl Fn(u32, u32) -> bool) {
        self.vcpus.retain(|one| one.process.is_some_and(|process| has(process, one.vcpu)));
        self.names.retain(|name, _| self.vcpus.iter().any(|one| one.process == Some(*name)));
    }

    fn names(&self) -> &BTreeMap<u32, String> {
        &self.names
    }

    fn set_names(&mut self, names: BTreeMap<u32, String>) {
        self.names = names;
    }
}

/// The halts of one vCPU, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VcpuHalts {
    pub side: Side,
    /// The number of the vCPU in its VM; on the guest's side that of its CPU.
    pub vcpu: u32,
    /// The VM's process and the vCPU's thread on the host, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    /// The rule that was in force, with its parameters; none where they could not be read.  On the
    /// host they are the module's: a VM may have its own `maximum`.
    pub rule: Option<Rule>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub maximum: Maximum,
    /// Nothing came before the first halt: the rule was in its initial state.
    #[serde(default, skip_serializing_if = "is_default")]
    pub from_start: bool,
    /// Records that were lost; with any, halts are missing and no replay can be exact.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lost: u64,
    pub halts: Vec<Halt>,
}

impl VcpuHalts {
    /// By which rule this vCPU was polled for; none where that is not known.
    pub fn in_force(&self) -> Option<Rule> {
        self.maximum.of(self.rule?)
    }
}

/// Who recorded, and so whose rule was in force.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// `kvm_vcpu_halt()`: a halt begins after the exit.
    #[default]
    Host,
    /// cpuidle: a halt begins when the idle loop begins to poll, or halts without.
    Guest,
}

/// A vCPU had nothing to do: it was polled for, and then blocked, as far as it came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halt {
    /// From the beginning of the recording.
    pub begin_ns: u64,
    /// Polled and blocked.  Rules compare it, so it is what they saw: on the host `ns` of
    /// `kvm:kvm_vcpu_wakeup`; in the guest `polled_ns` plus the residency in the halting state
    /// (`last_residency_ns`), without what lies between.
    pub ns: u64,
    /// Of these: polled.
    pub polled_ns: u64,
    /// It blocked: polling was not enough, or there was none.
    pub waited: bool,
    /// KVM's `vcpu_valid_wakeup()`; always so on x86 and in the guest.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub valid: bool,
    /// Not: the guest has switched the host's polling off (`MSR_KVM_POLL_CONTROL`), and the host's
    /// rule is not even asked.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub allowed: bool,
    /// The limit in force at its beginning, at most `max`; none while it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ns: Option<u32>,
    /// What `kvm:kvm_halt_poll_ns` (`power:guest_halt_poll_ns`) said at its end; none if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced: Option<Traced>,
    #[serde(default)]
    pub waker: Waker,
    /// When the timer that was armed is due, from the halt's beginning; 0 if it was due already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<u64>,
    /// When the vCPU's thread was woken, from the halt's beginning; none if it did not block, or
    /// that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_ns: Option<u64>,
    /// Which vCPU of its VM did that, by an IPI; none if none did, or that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<u32>,
    /// How often the vCPU's thread was switched out meanwhile.
    #[serde(default, skip_serializing_if = "is_default")]
    pub switches: u32,
}

/// A change of the limit, as it was traced; `old` and `new` may be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Traced {
    pub old: u32,
    /// May exceed `max` on the host until the next halt begins.
    pub new: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Waker {
    /// A timer of the vCPU's own.
    Timer,
    VirtualTick,
    /// Another vCPU.
    Ipi,
    Device,
    Other,
    #[default]
    Unknown,
}

impl Waker {
    pub const ALL: [Waker; 6] =
        [Waker::Timer, Waker::VirtualTick, Waker::Ipi, Waker::Device, Waker::Other, Waker::Unknown];
}

impl Halt {
    /// One that nothing is known of but its beginning and its length; nobody polled for it.
    pub fn blocked(begin_ns: u64, ns: u64) -> Halt {
        Halt {
            begin_ns,
            ns,
            polled_ns: 0,
            waited: true,
            valid: true,
            allowed: true,
            limit_ns: None,
            traced: None,
            waker: Waker::Unknown,
            deadline_ns: None,
            woken_ns: None,
            sender: None,
            switches: 0,
        }
    }

    pub fn blocked_ns(&self) -> u64 {
        self.ns.saturating_sub(self.polled_ns)
    }

    /// It was polled for, if only for an instant.
    pub fn was_polled(&self) -> bool {
        match self.limit_ns {
            Some(limit) => self.allowed && limit > 0,
            None => self.polled_ns > 0,
        }
    }
}

fn yes() -> bool {
    true
}

fn is_true(value: &bool) -> bool {
    *value
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
