// SPDX-License-Identifier: GPL-2.0-only
//! Exact counts of VM exits: per window, per vCPU, by reason, MSR and cause.

use crate::{cause::Cause, reason};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One measurement window, opened and closed by a workload inside a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowCounts {
    /// The number that the workload gave (`--window`).
    pub window: u32,
    /// The host's CLOCK_MONOTONIC when the guest's marker was handled, in ns.
    pub opened_ns: u64,
    pub closed_ns: u64,
    /// Every vCPU of the guest that has run so far, also those without an exit.
    pub vcpus: Vec<VcpuCounts>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VcpuCounts {
    /// The guest: the process id (tgid) of its QEMU.
    pub vm: u32,
    pub vcpu: u32,
    pub exits: Vec<ExitCount>,
    /// Virtual ticks delivered; `None` where the host's kernel has no such thing.
    pub ticks_delivered: Option<u64>,
}

/// How many exits of one vCPU had this reason, MSR and cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitCount {
    /// As KVM's tracepoint prints it; see [`crate::reason`].
    pub reason: String,
    /// The MSR's index, for MSR exits whose MSR KVM reported.
    pub msr: Option<u32>,
    pub cause: Cause,
    pub count: u64,
}

/// What the methods below offer for one vCPU and for a whole window alike.
macro_rules! aggregates {
    ($exits:item) => {
        $exits

        /// All exits.
        pub fn total(&self) -> u64 {
            self.each().map(|exit| exit.count).sum()
        }

        pub fn by_reason(&self) -> BTreeMap<String, u64> {
            sum_by(self.each(), |exit| Some(exit.reason.clone()))
        }

        pub fn by_cause(&self) -> BTreeMap<Cause, u64> {
            sum_by(self.each(), |exit| Some(exit.cause))
        }

        /// Exits for MSR writes, by the MSR's name (`TSC_DEADLINE`, …).
        pub fn msr_writes(&self) -> BTreeMap<String, u64> {
            sum_by(self.each(), |exit| {
                reason::is_msr_write(&exit.reason).then(|| match exit.msr {
                    Some(index) => reason::msr_name(index),
                    None => "unknown".to_string(),
                })
            })
        }

        pub fn cause(&self, cause: Cause) -> u64 {
            self.each().filter(|exit| exit.cause == cause).map(|exit| exit.count).sum()
        }
    };
}

impl VcpuCounts {
    aggregates! {
        fn each(&self) -> impl Iterator<Item = &ExitCount> {
            self.exits.iter()
        }
    }
}

impl WindowCounts {
    aggregates! {
        fn each(&self) -> impl Iterator<Item = &ExitCount> {
            self.vcpus.iter().flat_map(|vcpu| vcpu.exits.iter())
        }
    }

    /// The guest that opened the window.
    pub fn vm(&self) -> Option<u32> {
        self.vcpus.first().map(|vcpu| vcpu.vm)
    }

    pub fn duration_ns(&self) -> u64 {
        self.closed_ns.saturating_sub(self.opened_ns)
    }

    /// Virtual ticks of all vCPUs; `None` if any vCPU's were not counted.
    pub fn ticks_delivered(&self) -> Option<u64> {
        self.vcpus.iter().map(|vcpu| vcpu.ticks_delivered).sum()
    }
}

fn sum_by<'a, K: Ord>(
    exits: impl Iterator<Item = &'a ExitCount>,
    key: impl Fn(&ExitCount) -> Option<K>,
) -> BTreeMap<K, u64> {
    let mut sums = BTreeMap::new();
    for exit in exits {
        if let Some(key) = key(exit) {
            *sums.entry(key).or_default() += exit.count;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_exit() -> impl Strategy<Value = ExitCount> {
        let reason = prop::sample::select(vec!["msr_write", "msr_read", "hlt", "interrupt", "io"]);
        let msr = prop::option::of(prop::sample::select(vec![0x6e0, 0x80b, 0x830, 0x1234_5678]));
        let cause = prop::sample::select(Cause::ALL.to_vec());
        (reason, msr, cause, 0u64..1_000_000).prop_map(|(reason, msr, cause, count)| ExitCount {
            reason: reason.to_string(),
            msr,
            cause,
            count,
        })
    }

    fn any_window() -> impl Strategy<Value = WindowCounts> {
        let vcpu = prop::collection::vec(any_exit(), 0..20);
        prop::collection::vec((vcpu, prop::option::of(0u64..1000)), 0..5).prop_map(|vcpus| {
            WindowCounts {
                window: 1,
                opened_ns: 10,
                closed_ns: 20,
                vcpus: (0..)
                    .zip(vcpus)
                    .map(|(vcpu, (exits, ticks_delivered))| VcpuCounts {
                        vm: 7,
                        vcpu,
                        exits,
                        ticks_delivered,
                    })
                    .collect(),
            }
        })
    }

    proptest! {
        #[test]
        fn every_view_sums_to_the_total(window in any_window()) {
            let total = window.total();
            prop_assert_eq!(window.by_reason().values().sum::<u64>(), total);
            prop_assert_eq!(window.by_cause().values().sum::<u64>(), total);
            prop_assert_eq!(window.vcpus.iter().map(VcpuCounts::total).sum::<u64>(), total);
            prop_assert_eq!(Cause::ALL.map(|cause| window.cause(cause)).iter().sum::<u64>(), total);
        }

        #[test]
        fn msr_writes_sum_to_the_write_exits(window in any_window()) {
            let writes = window.by_reason().get("msr_write").copied().unwrap_or(0);
            prop_assert_eq!(window.msr_writes().values().sum::<u64>(), writes);
        }

        #[test]
        fn ticks_are_a_number_only_if_every_vcpu_has_one(window in any_window()) {
            let known = window.vcpus.iter().all(|vcpu| vcpu.ticks_delivered.is_some());
            prop_assert_eq!(window.ticks_delivered().is_some(), known);
        }

        #[test]
        fn a_window_reads_back_from_its_json(window in any_window()) {
            let json = serde_json::to_string(&window).unwrap();
            prop_assert_eq!(serde_json::from_str::<WindowCounts>(&json).unwrap(), window);
        }
    }
}
