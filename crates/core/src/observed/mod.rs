// SPDX-License-Identifier: GPL-2.0-only
//! What was counted of a machine's VMs while they ran: no records, but sums by vCPU and kind.

mod change;
mod rows;
mod spent;
mod ticks;
mod would;

pub use change::{CauseChange, Change, Rate, VmChange};
pub use spent::{Bound, Spent};
pub use ticks::Ticks;
pub use would::{Spares, Would, NO_CLOCKS, WATCHED};

use crate::{cause::Cause, units::Hz};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// What an exit was.  Thousands of counts share a few texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Kind {
    pub cause: Cause,
    /// As KVM's tracepoint prints it.
    pub reason: Arc<str>,
    /// What it was about, where more than the reason is known.
    pub about: Option<Arc<str>>,
}

impl Kind {
    /// The best that is known in few words.
    pub fn words(&self) -> &str {
        self.about.as_ref().unwrap_or(&self.reason)
    }
}

/// The exits of one kind of one vCPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exits {
    pub vcpu: u32,
    #[serde(flatten)]
    pub kind: Kind,
    #[serde(flatten)]
    pub spent: Spent,
}

/// Of one VM, as the sensor counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    pub exits: Vec<Exits>,
    /// Exits that found no room.
    pub lost: u64,
    /// When the last one ended, by CLOCK_MONOTONIC; 0: none has.
    pub last_ns: u64,
}

/// The sensor's reading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// By the process of the VM.
    pub vms: BTreeMap<u32, Counted>,
    /// Exits of VMs without a place of their own.
    pub lost: u64,
    pub now_ns: u64,
    /// Where the VMM's time could not be told from KVM's, it is the VMM's up to the entry.
    pub vmm_end_unknown: bool,
}

/// A VM, for as long as it was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vm {
    pub name: String,
    /// What else it is called: a UUID, a number.
    pub others: Vec<String>,
    /// Its VMM, or whoever runs its vCPUs.
    pub process: u32,
    pub ended: bool,
    /// For how long it ran meanwhile.
    pub ns: u64,
    pub lost: u64,
    pub exits: Vec<Exits>,
}

impl Vm {
    pub fn all(&self) -> Spent {
        sum(&self.exits)
    }

    /// The vCPUs that made an exit.
    pub fn vcpus(&self) -> usize {
        let vcpus = self.exits.iter().map(|exits| exits.vcpu);
        vcpus.collect::<std::collections::BTreeSet<_>>().len()
    }

    /// A time as a share of one CPU.
    pub fn share(&self, ns: u64) -> f64 {
        ns as f64 / self.ns.max(1) as f64
    }

    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.ns.max(1) as f64
    }

    /// The exits by cause, the most frequent first.
    pub fn causes(&self) -> Vec<(Cause, Vec<&Exits>)> {
        let mut causes: BTreeMap<Cause, Vec<&Exits>> = BTreeMap::new();
        for exits in &self.exits {
            causes.entry(exits.kind.cause).or_default().push(exits);
        }
        let mut causes: Vec<_> = causes.into_iter().collect();
        causes.sort_by_key(|(_, exits)| std::cmp::Reverse(sum(exits.iter().copied()).count));
        causes
    }
}

impl Observed {
    /// Whether its numbers can be added up: somebody may have put it together by hand.
    pub fn is_sound(&self) -> bool {
        let all = self.vms.iter().flat_map(|vm| &vm.exits).map(|one| &one.spent);
        let parts = all.flat_map(|one| {
            let times = [one.kvm_ns, one.vmm_ns, one.interrupts_ns, one.blocked_ns];
            let more = [one.steal_ns, one.unplaced_ns.unwrap_or(0), one.count];
            times.into_iter().chain(more).chain(one.lengths.iter().copied())
        });
        let vms = self.vms.iter().flat_map(|vm| [vm.ns, vm.lost]).chain([self.lost]);
        parts.chain(vms).try_fold(0u64, u64::checked_add).is_some()
    }
}

pub fn sum<'a>(exits: impl IntoIterator<Item = &'a Exits>) -> Spent {
    let mut all = Spent::default();
    exits.into_iter().for_each(|exits| all += &exits.spent);
    all
}

/// What most of these exits were, and their share; how many kinds where none has a tenth of them.
pub fn mostly<'a>(exits: impl IntoIterator<Item = &'a Exits>) -> Option<(String, f64)> {
    let mut words: BTreeMap<&str, u64> = BTreeMap::new();
    for exits in exits {
        *words.entry(exits.kind.words()).or_default() += exits.spent.count;
    }
    let all: u64 = words.values().sum();
    let kinds = words.len();
    let (words, count) = words.into_iter().max_by_key(|(_, count)| *count)?;
    let share = count as f64 / all.max(1) as f64;
    Some(match share < 0.1 && all > 0 {
        true => (format!("{kinds} kinds"), 1.0),
        false => (words.to_string(), share),
    })
}

/// What a look at VMs does not tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Exits that found no room.
    pub lost: u64,
    /// Those of them whose VM is not known.
    pub lost_of_unknown: u64,
    pub vmm_end_unknown: bool,
    pub lacks: Vec<String>,
}

/// What `paratick exits` saves and compares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    pub schema: String,
    /// For how long the machine was looked at.
    pub ns: u64,
    pub vms: Vec<Vm>,
    /// VMs that ended so early that only their sum is kept: it is the last of them.
    pub earlier: u64,
    /// Exits that found no room, and whose VM is not known.
    pub lost: u64,
    /// Exits of all VMs by KVM's own statistics; none where they cannot be read.
    pub exits_by_kvm: Option<u64>,
    pub vmm_end_unknown: bool,
    /// Of the host's tick; none where it is not known, as in older files.
    #[serde(default)]
    pub host_hz: Option<Hz>,
    /// What a recording of other tools does not tell, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
}

pub const SCHEMA: &str = "paratick-exits/1";

impl Observed {
    /// What came since an earlier look: VMs that did nothing meanwhile are there all the same.
    pub fn since(&self, earlier: &Observed) -> Observed {
        let vms = self.vms.iter().map(|vm| {
            let before = earlier.vms.iter().find(|other| other.process == vm.process);
            before.map_or_else(|| vm.clone(), |before| vm_since(vm, before))
        });
        Observed { ns: self.ns.saturating_sub(earlier.ns), vms: vms.collect(), ..self.clone() }
    }

    pub fn missing(&self) -> Missing {
        Missing {
            lost: self.lost + self.vms.iter().map(|vm| vm.lost).sum::<u64>(),
            lost_of_unknown: self.lost,
            vmm_end_unknown: self.vmm_end_unknown,
            lacks: self.lacks.clone(),
        }
    }

    pub fn total(&self) -> Spent {
        sum(self.vms.iter().flat_map(|vm| &vm.exits))
    }
}

fn vm_since(vm: &Vm, before: &Vm) -> Vm {
    let known: BTreeMap<(u32, &Kind), &Spent> =
        before.exits.iter().map(|exits| ((exits.vcpu, &exits.kind), &exits.spent)).collect();
    let since = |exits: &Exits| {
        let before = known.get(&(exits.vcpu, &exits.kind));
        let spent = before.map_or_else(|| exits.spent.clone(), |before| &exits.spent - before);
        Exits { spent, ..exits.clone() }
    };
    Vm {
        ns: vm.ns.saturating_sub(before.ns),
        lost: vm.lost.saturating_sub(before.lost),
        exits: vm.exits.iter().map(since).collect(),
        ..vm.clone()
    }
}

#[cfg(test)]
mod tests;
