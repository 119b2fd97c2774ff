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

/// When the halts of one vCPU began and ended as they were recorded, in their order.
struct Recorded<'a> {
    of: &'a VcpuHalts,
    ends: Vec<u64>,
}

/// All vCPUs of one VM under a rule; halts in which no rule is asked take their time and are not
/// counted.  One whose IPI now comes before it began is none.
///
/// Where an IPI's sender was not recorded, it is taken for the vCPU that ran when it came; of
/// several that did, for the one that woke up last.
pub fn coupled(vcpus: &[&VcpuHalts], rule: Rule, wake_ns: u32) -> Tally {
    let vcpus: Vec<Recorded> = vcpus.iter().map(|of| Recorded::new(of)).collect();
    // The halt that a sender woke up from ended before its IPI came, and so before what this ended.
    let mut order: Vec<(u64, usize, usize)> = Vec::new();
    for (which, vcpu) in vcpus.iter().enumerate() {
        order.extend(vcpu.ends.iter().enumerate().map(|(nth, end)| (*end, which, nth)));
    }
    order.sort_unstable();
    let mut policies: Vec<Policy> = vcpus.iter().map(|_| Policy::new(rule)).collect();
    let mut ends: Vec<Vec<u64>> = vcpus.iter().map(|_| Vec::new()).collect();
    let mut tally = Tally::default();
    for (_, which, nth) in order {
        let halt = &vcpus[which].of.halts[nth];
        let ran = halt.begin_ns.saturating_sub(vcpus[which].ended(nth));
        let begin = ends[which].last().unwrap_or(&0).saturating_add(ran);
        let until = until_event(halt, wake_ns);
        let moved = match halt.waker {
            Waker::Ipi => {
                let at = halt.begin_ns.saturating_add(until);
                sender(&vcpus, which, halt.sender, at).and_then(|(sender, halts, after)| {
                    Some(woke(&ends[sender], halts)?.saturating_add(after))
                })
            }
            _ => None,
        };
        let event = moved.unwrap_or(begin.saturating_add(until));
        let Some(until) = event.checked_sub(begin) else {
            ends[which].push(begin);
            continue;
        };
        let (replayed, ns) = step(halt, &mut policies[which], until, wake_ns);
        ends[which].push(begin.saturating_add(ns));
        if halt.allowed {
            replayed.count(ns, &mut tally);
        }
    }
    tally
}

impl Recorded<'_> {
    fn new(of: &VcpuHalts) -> Recorded<'_> {
        let ends = of.halts.iter().scan(0, |last, halt| {
            *last = halt.begin_ns.saturating_add(halt.ns).max(*last);
            Some(*last)
        });
        Recorded { of, ends: ends.collect() }
    }

    /// When the last one of the first `halts` ended: since then it ran.
    fn ended(&self, halts: usize) -> u64 {
        woke(&self.ends, halts).unwrap_or(0)
    }
}

/// When the last one of so many halts ended, or the recording began; none if not all are known.
fn woke(ends: &[u64], halts: usize) -> Option<u64> {
    match halts.checked_sub(1) {
        Some(last) => ends.get(last).copied(),
        None => Some(0),
    }
}

/// Which vCPU sent the IPI that came to another one `at`, how many halts it had had, and how long
/// after the end of the last one.
fn sender(
    vcpus: &[Recorded],
    to: usize,
    recorded: Option<u32>,
    at: u64,
) -> Option<(usize, usize, u64)> {
    let others = vcpus.iter().enumerate().filter(|(which, vcpu)| {
        *which != to && recorded.is_none_or(|sender| sender == vcpu.of.vcpu)
    });
    let ran = others.filter_map(|(which, vcpu)| {
        let halts = vcpu.ends.partition_point(|end| *end <= at);
        let halted = vcpu.of.halts.get(halts).is_some_and(|next| next.begin_ns < at);
        (!halted).then(|| (which, halts, at - vcpu.ended(halts)))
    });
    ran.min_by_key(|(_, _, after)| *after)
}

#[cfg(test)]
#[path = "coupled_tests.rs"]
mod tests;
