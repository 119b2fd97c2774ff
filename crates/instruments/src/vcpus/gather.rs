// SPDX-License-Identifier: GPL-2.0-only
//! From what bpf/vcpu.bpf.c counted to exits by VM, vCPU and cause.  Pure.

use super::raw::{
    self, Vcpu, BLOCKED, INTERRUPTED, IN_GUEST, IN_KVM, IN_VMM, KINDS_OF_ONE, WAITING,
};
use crate::facts::{explain, raw::FACT_MANY};
use paratick_core::observed::{self, Counted, Exits, Spent};
use std::collections::BTreeMap;

/// The vCPUs' threads, and then their counts: in this order.
#[derive(Default)]
pub struct Snapshot {
    threads: Vec<Vcpu>,
    pub lost: BTreeMap<u32, u64>,
    now_ns: u64,
    /// So far.
    vms: BTreeMap<u32, Counted>,
    /// Exits, by threads.
    ended: BTreeMap<u32, u64>,
    /// What was explained before: exits of all vCPUs are of a few kinds.
    explained: BTreeMap<(u32, u32, u64, u32), observed::Kind>,
}

impl Snapshot {
    pub fn new(threads: Vec<Vcpu>, lost: BTreeMap<u32, u64>, now_ns: u64) -> Snapshot {
        Snapshot { threads, lost, now_ns, ..Snapshot::default() }
    }

    /// One count after the other: all of them at once take as much memory again.
    pub fn add(&mut self, kind: &raw::Kind, spent: &raw::Spent) {
        *self.ended.entry(kind.thread).or_default() += spent.count;
        let vm = self.vms.entry(kind.tgid).or_default();
        vm.last_ns = vm.last_ns.max(spent.last_ns);
        let explained = explained(&mut self.explained, kind);
        vm.exits.push(Exits { vcpu: kind.vcpu, kind: explained, spent: of(spent) });
    }

    /// By the process of each VM.  `known` are the kinds that have counts.
    pub fn gather(mut self, known: impl Fn(&raw::Kind) -> bool) -> BTreeMap<u32, Counted> {
        let mut vms = std::mem::take(&mut self.vms);
        for thread in &std::mem::take(&mut self.threads) {
            let ended = self.ended.get(&thread.thread).copied().unwrap_or(0) + thread.lost;
            // If it has ended since, it is among the counts, which were read later.
            if thread.state != IN_GUEST && ended < thread.exits {
                let kind = kind(thread, &known);
                let (vcpu, spent) = (kind.vcpu, self.open(thread));
                let explained = explained(&mut self.explained, &kind);
                let vm = vms.entry(kind.tgid).or_default();
                vm.exits.push(Exits { vcpu, kind: explained, spent });
            }
        }
        vms.values_mut().for_each(|vm| sum_of_same(&mut vm.exits));
        for (process, lost) in &self.lost {
            if *process != 0 {
                vms.entry(*process).or_default().lost = *lost;
            }
        }
        vms
    }

    /// An exit that has not ended, as far as it has come.
    fn open(&self, thread: &Vcpu) -> Spent {
        let (so_far, state) = (&thread.absence, thread.state);
        let since = self.now_ns.saturating_sub(thread.since_ns);
        let ns = |before: u64, its: u32| before + if state == its { since } else { 0 };
        Spent {
            count: 1,
            kvm_ns: ns(so_far.kvm_ns, IN_KVM),
            vmm_ns: ns(so_far.vmm_ns, IN_VMM),
            interrupts_ns: ns(so_far.interrupted_ns, INTERRUPTED),
            blocked_ns: ns(so_far.blocked_ns, BLOCKED),
            steal_ns: ns(so_far.waited_ns, WAITING),
            ..Spent::default()
        }
    }
}

/// Where the exit of a thread will be counted.
fn kind(thread: &Vcpu, known: impl Fn(&raw::Kind) -> bool) -> raw::Kind {
    let kind = raw::Kind {
        thread: thread.thread,
        tgid: thread.absence.tgid,
        vcpu: thread.absence.vcpu,
        isa: thread.noted.isa,
        reason: thread.noted.reason,
        facts: thread.noted.facts,
        detail: thread.noted.detail,
    };
    let full = thread.kinds >= KINDS_OF_ONE && kind.detail != 0;
    match full && !known(&kind) {
        true => raw::Kind { facts: FACT_MANY, detail: 0, ..kind },
        false => kind,
    }
}

fn explained(
    before: &mut BTreeMap<(u32, u32, u64, u32), observed::Kind>,
    kind: &raw::Kind,
) -> observed::Kind {
    let raw::Kind { isa, reason, detail, facts, .. } = *kind;
    let told = before.entry((isa, reason, detail, facts)).or_insert_with(|| {
        let told = explain(isa, reason, detail, facts);
        let about = told.about.map(Into::into);
        observed::Kind { cause: told.cause, reason: told.reason.into(), about }
    });
    told.clone()
}

/// Some kinds are named alike, and a vCPU may have had several threads.
fn sum_of_same(exits: &mut Vec<Exits>) {
    exits.sort_by(|one, other| (one.vcpu, &one.kind).cmp(&(other.vcpu, &other.kind)));
    exits.dedup_by(|more, first| {
        let same = (more.vcpu, &more.kind) == (first.vcpu, &first.kind);
        if same {
            first.spent += &more.spent;
        }
        same
    });
    exits.shrink_to_fit();
}

fn of(spent: &raw::Spent) -> Spent {
    let used = spent.took.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    Spent {
        count: spent.count,
        kvm_ns: spent.kvm_ns,
        vmm_ns: spent.vmm_ns,
        interrupts_ns: spent.interrupted_ns,
        blocked_ns: spent.blocked_ns,
        steal_ns: spent.waited_ns,
        lengths: spent.took[..used].to_vec(),
        ..Spent::default()
    }
}
