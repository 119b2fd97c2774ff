// SPDX-License-Identifier: GPL-2.0-only
//! Exact counts of VM exits: per window, per vCPU, by reason and cause.

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

/// How many exits of one vCPU had this reason and cause, and were about the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitCount {
    /// As KVM's tracepoint prints it; see [`crate::reason`].
    pub reason: String,
    /// What it was about, where more than the reason is known: an MSR, a port, a timer.
    pub about: Option<String>,
    pub cause: Cause,
    pub count: u64,
}

/// Exits of one vCPU, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Counts {
    /// All exits.
    pub total: u64,
    /// By exit reason, spelled as KVM's tracepoints do.
    pub by_reason: BTreeMap<String, u64>,
    /// By cause.
    pub by_cause: BTreeMap<Cause, u64>,
    /// Exits for MSR writes, by the MSR's name.
    ///
    /// `null`: an older file left them out.
    pub msr_writes: Option<BTreeMap<String, u64>>,
    /// Virtual ticks; `null`: the host's kernel has none.
    pub ticks_delivered: Option<u64>,
}

impl Counts {
    pub fn cause(&self, cause: Cause) -> u64 {
        self.by_cause.get(&cause).copied().unwrap_or(0)
    }

    /// Adds what was counted elsewhere.  A sum of which a part is not known is not known.
    pub fn add(&mut self, other: &Counts) {
        fn add<K: Ord + Clone>(sums: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
            for (key, count) in more {
                *sums.entry(key.clone()).or_default() += count;
            }
        }
        self.total += other.total;
        add(&mut self.by_reason, &other.by_reason);
        add(&mut self.by_cause, &other.by_cause);
        self.msr_writes =
            self.msr_writes.take().zip(other.msr_writes.as_ref()).map(|(mut sums, more)| {
                add(&mut sums, more);
                sums
            });
        let ticks = self.ticks_delivered.zip(other.ticks_delivered);
        self.ticks_delivered = ticks.map(|(one, other)| one + other);
    }
}

impl VcpuCounts {
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { ticks_delivered: self.ticks_delivered, ..Counts::default() };
        let mut msr_writes = BTreeMap::new();
        for exit in &self.exits {
            counts.total += exit.count;
            *counts.by_reason.entry(exit.reason.clone()).or_default() += exit.count;
            *counts.by_cause.entry(exit.cause).or_default() += exit.count;
            if reason::is_msr_write(&exit.reason) {
                let msr = exit.about.clone().unwrap_or("unknown".into());
                *msr_writes.entry(msr).or_default() += exit.count;
            }
        }
        Counts { msr_writes: Some(msr_writes), ..counts }
    }

    pub fn total(&self) -> u64 {
        self.exits.iter().map(|exit| exit.count).sum()
    }
}

impl WindowCounts {
    /// Of all vCPUs together.
    pub fn counts(&self) -> Counts {
        let mut each = self.vcpus.iter().map(VcpuCounts::counts);
        let mut all = each.next().unwrap_or(Counts {
            msr_writes: Some(BTreeMap::new()),
            ticks_delivered: Some(0),
            ..Counts::default()
        });
        each.for_each(|counts| all.add(&counts));
        all
    }

    pub fn total(&self) -> u64 {
        self.vcpus.iter().map(VcpuCounts::total).sum()
    }

    pub fn cause(&self, cause: Cause) -> u64 {
        self.counts().cause(cause)
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_exit() -> impl Strategy<Value = ExitCount> {
        let reason = prop::sample::select(vec!["msr_write", "msr_read", "hlt", "interrupt", "io"]);
        let about = ["TSC_DEADLINE", "X2APIC_EOI", "X2APIC_ICR", "MSR 0x12345678"];
        let about = prop::option::of(prop::sample::select(about.map(String::from).to_vec()));
        let cause = prop::sample::select(Cause::ALL.to_vec());
        (reason, about, cause, 0u64..1_000_000).prop_map(|(reason, about, cause, count)| {
            ExitCount { reason: reason.to_string(), about, cause, count }
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
            let (total, counts) = (window.total(), window.counts());
            prop_assert_eq!(counts.total, total);
            prop_assert_eq!(counts.by_reason.values().sum::<u64>(), total);
            prop_assert_eq!(counts.by_cause.values().sum::<u64>(), total);
            prop_assert_eq!(window.vcpus.iter().map(VcpuCounts::total).sum::<u64>(), total);
            prop_assert_eq!(Cause::ALL.map(|cause| window.cause(cause)).iter().sum::<u64>(), total);
        }

        #[test]
        fn msr_writes_sum_to_the_write_exits(window in any_window()) {
            let counts = window.counts();
            let writes = counts.by_reason.get("msr_write").copied().unwrap_or(0);
            prop_assert_eq!(counts.msr_writes.unwrap().values().sum::<u64>(), writes);
        }

        #[test]
        fn ticks_are_a_number_only_if_every_vcpu_has_one(window in any_window()) {
            let known = window.vcpus.iter().all(|vcpu| vcpu.ticks_delivered.is_some());
            prop_assert_eq!(window.ticks_delivered().is_some(), known);
            prop_assert_eq!(window.counts().ticks_delivered, window.ticks_delivered());
        }

        #[test]
        fn a_window_reads_back_from_its_json(window in any_window()) {
            let json = serde_json::to_string(&window).unwrap();
            prop_assert_eq!(serde_json::from_str::<WindowCounts>(&json).unwrap(), window);
        }
    }
}
