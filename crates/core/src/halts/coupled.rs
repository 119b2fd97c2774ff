// SPDX-License-Identifier: GPL-2.0-only
//! What a rule would have done with the halts of vCPUs that wait for each other.
//!
//! [`replay`](super::replay()) takes for given when a halt's end comes.  That holds for timers and
//! devices.  What ends a halt by an IPI is another vCPU, and if that one need not wake up from a
//! block any more, it comes sooner.  So here an IPI keeps its distance from when its sender last
//! woke up, and each vCPU runs for as long as it did between two halts.

use super::{
    policy::Policy,
    recording::{VcpuHalts, Waker},
    replay::{step, until_event},
    rule::Rule,
    tally::Tally,
};

/// Who sent an IPI, and when: so long after the end of that vCPU's nth halt, or after the
/// recording's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sent {
    vcpu: usize,
    halt: Option<usize>,
    after_ns: u64,
}

/// All vCPUs of one VM under a rule; halts in which no rule is asked take their time and are not
/// counted.  One whose IPI now comes before it began is none.
///
/// An IPI's sender is not recorded.  It is taken for the vCPU that ran when it came; of several
/// that did, for the one that woke up last.
pub fn coupled(vcpus: &[&VcpuHalts], rule: Rule, wake_ns: u32) -> Tally {
    let mut order: Vec<(u64, usize, usize)> = vcpus
        .iter()
        .enumerate()
        .flat_map(|(vcpu, of)| of.halts.iter().enumerate().map(move |(nth, h)| (h, vcpu, nth)))
        .map(|(halt, vcpu, nth)| (halt.begin_ns + halt.ns, vcpu, nth))
        .collect();
    // A sender's last halt ended before its IPI came, and so before the halt that this ended.
    order.sort_unstable();
    let mut policies: Vec<Policy> = vcpus.iter().map(|_| Policy::new(rule)).collect();
    let mut ends: Vec<Vec<u64>> = vcpus.iter().map(|of| Vec::with_capacity(of.halts.len())).collect();
    let mut tally = Tally::default();
    for (_, vcpu, nth) in order {
        let halt = &vcpus[vcpu].halts[nth];
        let (ended, now_ended) = match nth.checked_sub(1) {
            Some(last) => (end(vcpus[vcpu], last), ends[vcpu][last]),
            None => (0, 0),
        };
        let begin = now_ended + halt.begin_ns.saturating_sub(ended);
        let event = match sent(vcpus, vcpu, nth, wake_ns) {
            Some(Sent { vcpu, halt, after_ns }) => {
                halt.map_or(0, |halt| ends[vcpu][halt]) + after_ns
            }
            None => begin + until_event(halt, wake_ns),
        };
        let Some(event) = event.checked_sub(begin) else {
            ends[vcpu].push(begin);
            continue;
        };
        let (replayed, ns) = step(halt, &mut policies[vcpu], event, wake_ns.into());
        ends[vcpu].push(begin + ns);
        if halt.allowed {
            tally.replayed(&replayed, ns);
        }
    }
    tally
}

fn end(vcpu: &VcpuHalts, nth: usize) -> u64 {
    vcpu.halts[nth].begin_ns + vcpu.halts[nth].ns
}

fn sent(vcpus: &[&VcpuHalts], to: usize, nth: usize, wake_ns: u32) -> Option<Sent> {
    let halt = &vcpus[to].halts[nth];
    if halt.waker != Waker::Ipi {
        return None;
    }
    let at = halt.begin_ns + until_event(halt, wake_ns);
    let ran = vcpus.iter().enumerate().filter(|(vcpu, _)| *vcpu != to).filter_map(|(vcpu, of)| {
        let before = of.halts.partition_point(|halt| halt.begin_ns + halt.ns <= at);
        if of.halts.get(before).is_some_and(|next| next.begin_ns < at) {
            return None;
        }
        let halt = before.checked_sub(1);
        let woke = halt.map_or(0, |halt| end(of, halt));
        Some(Sent { vcpu, halt, after_ns: at - woke })
    });
    ran.min_by_key(|sent| sent.after_ns)
}

#[cfg(test)]
#[path = "coupled_tests.rs"]
mod tests;
