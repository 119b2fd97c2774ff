// SPDX-License-Identifier: GPL-2.0-only
//! What a rule would have done with the halts that another one met.
//!
//! Taken for given: halts begin when they did and are as long as they were.  In truth one that was
//! blocked for is longer, by the time that it took to wake up.

use super::{
    policy::{Met, Policy},
    recording::Halt,
    tally::Tally,
};

/// One halt under a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    pub limit_ns: u32,
    pub polled_ns: u64,
    pub blocked: bool,
    pub traced: Option<super::recording::Traced>,
}

/// Every halt of one vCPU, and what they come to.
pub fn replay(halts: &[Halt], mut policy: Policy) -> (Vec<Replayed>, Tally) {
    let mut tally = Tally::default();
    let replayed = halts.iter().map(|halt| {
        let replayed = step(halt, &mut policy);
        *tally.limits.entry(replayed.limit_ns).or_default() += 1;
        let polled = halt.allowed && replayed.limit_ns > 0;
        tally.count(halt.ns, replayed.polled_ns, polled, replayed.blocked);
        replayed
    });
    (replayed.collect(), tally)
}

fn step(halt: &Halt, policy: &mut Policy) -> Replayed {
    let limit_ns = policy.limit(halt);
    let limit = if halt.allowed { u64::from(limit_ns) } else { 0 };
    let blocked = limit == 0 || halt.ns > limit;
    let polled_ns = halt.ns.min(limit);
    let traced = policy.learn(&Met {
        ns: halt.ns,
        blocked_ns: halt.ns - polled_ns,
        waited: blocked,
        valid: halt.valid,
        allowed: halt.allowed,
    });
    Replayed { limit_ns, polled_ns, blocked, traced }
}
