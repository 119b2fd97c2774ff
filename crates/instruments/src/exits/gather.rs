// SPDX-License-Identifier: GPL-2.0-only
//! From what the BPF programs noted to counts by reason, MSR and cause.  Pure.

use crate::facts::{
    raw::{Key, Thread, Window},
    Explained,
};
use paratick_core::{
    cause::Facts,
    exits::{ExitCount, VcpuCounts, WindowCounts},
    reason::Isa,
};
use std::collections::{BTreeMap, BTreeSet};

pub struct Snapshot<'a> {
    pub windows: &'a [Window],
    pub threads: &'a BTreeMap<u32, Thread>,
    pub counts: &'a BTreeMap<Key, u64>,
    /// Whether this kernel delivers virtual ticks.
    pub ticks: bool,
}

/// Of the decisions about ticks (`enum kvm_pv_tick_what`) those by which the guest gets one: raised
/// after a tick of the host, or by KVM's own timer.
const TICKS_DELIVERED: [u32; 2] = [0, 1];

impl Snapshot<'_> {
    /// Whether `again` has the same exits pending in the closed windows.
    pub fn same_pending(&self, again: &BTreeMap<u32, Thread>) -> bool {
        let pending = |threads: &BTreeMap<u32, Thread>| -> Vec<(u32, Key)> {
            threads
                .iter()
                .filter_map(|(pid, thread)| Some((*pid, thread.pending()?)))
                .filter(|(_, key)| self.closed().any(|window| window.sequence == key.window))
                .collect()
        };
        pending(self.threads) == pending(again)
    }

    pub fn gather(&self) -> Vec<WindowCounts> {
        self.closed().map(|window| self.window(window)).collect()
    }

    fn closed(&self) -> impl Iterator<Item = &Window> {
        self.windows.iter().filter(|window| window.closed_ns != 0)
    }

    fn window(&self, window: &Window) -> WindowCounts {
        // The least key of a window.
        let first = |window| Key { window, ..Key::default() };
        let mut counts: BTreeMap<Key, u64> = self
            .counts
            .range(first(window.sequence)..first(window.sequence + 1))
            .map(|(key, count)| (*key, *count))
            .collect();
        for key in self.threads.values().filter_map(Thread::pending) {
            if key.window == window.sequence {
                *counts.entry(key).or_default() += 1;
            }
        }
        WindowCounts {
            window: window.id,
            opened_ns: window.opened_ns,
            closed_ns: window.closed_ns,
            vcpus: self
                .vcpus(window.tgid, &counts)
                .into_iter()
                .map(|vcpu| self.vcpu(window.tgid, vcpu, &counts))
                .collect(),
        }
    }

    /// The guest's vCPUs, in order: those that run, and those that are gone but did count.
    fn vcpus(&self, tgid: u32, counts: &BTreeMap<Key, u64>) -> BTreeSet<u32> {
        let running = self.threads.values().filter(|thread| thread.tgid == tgid);
        running.map(|thread| thread.vcpu).chain(counts.keys().map(|key| key.vcpu)).collect()
    }

    /// One host has one kind of processor, so any vCPU tells it.
    fn isa(&self) -> Isa {
        Isa::of(self.threads.values().map(|thread| thread.isa).find(|isa| *isa != 0).unwrap_or(0))
    }

    fn vcpu(&self, vm: u32, vcpu: u32, counts: &BTreeMap<Key, u64>) -> VcpuCounts {
        let isa = self.isa();
        let mut exits = BTreeMap::new();
        let mut ticks = 0;
        for (key, count) in counts.iter().filter(|(key, _)| key.vcpu == vcpu) {
            if key.facts().has(Facts::TICK) {
                if TICKS_DELIVERED.contains(&key.reason) {
                    ticks += count;
                }
                continue;
            }
            // Facts that make no difference to the cause are not shown.
            *exits.entry(key.explain(isa)).or_default() += count;
        }
        let exits = exits.into_iter().map(|(Explained { cause, reason, about }, count)| {
            ExitCount { reason, about, cause, count }
        });
        VcpuCounts {
            vm,
            vcpu,
            exits: exits.collect(),
            ticks_delivered: self.ticks.then_some(ticks),
        }
    }
}

/// The first window that can still be closed: each running guest's latest, unless it is closed.
pub fn first_open(windows: &[Window], alive: impl Fn(u32) -> bool) -> Option<u32> {
    let latest: BTreeMap<u32, &Window> = windows.iter().map(|w| (w.tgid, w)).collect();
    latest
        .values()
        .filter(|window| window.closed_ns == 0 && alive(window.tgid))
        .map(|window| window.sequence)
        .min()
}

#[cfg(test)]
#[path = "gather_tests.rs"]
mod tests;
