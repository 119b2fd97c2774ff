// SPDX-License-Identifier: GPL-2.0-only
//! What a rule would have done with the halts that another one met.
//!
//! Taken for given: what ends a halt comes when it came.  A halt that was blocked for is longer
//! than until then, by the time that it takes to wake up.

use super::{
    policy::{Met, Policy},
    recording::Halt,
    tally::Tally,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    pub limit_ns: u32,
    /// It was polled for, if only for an instant.
    pub polled: bool,
    pub polled_ns: u64,
    pub blocked: bool,
    pub traced: Option<super::recording::Traced>,
}

impl Replayed {
    /// A halt of so many ns.
    pub fn count(&self, ns: u64, tally: &mut Tally) {
        *tally.limits.entry(self.limit_ns).or_default() += 1;
        tally.count(ns, self.polled_ns, self.polled, self.blocked);
    }
}

/// Every halt of one vCPU, and what they come to.  With a `wake_ns` of 0 halts are as long as they
/// were recorded.
pub fn replay(halts: &[Halt], mut policy: Policy, wake_ns: u32) -> (Vec<Replayed>, Tally) {
    let mut tally = Tally::default();
    let replayed = halts.iter().map(|halt| {
        let (replayed, ns) = step(halt, &mut policy, until_event(halt, wake_ns), wake_ns);
        replayed.count(ns, &mut tally);
        replayed
    });
    (replayed.collect(), tally)
}

/// How long after a halt's beginning came what ended it, in ns.
pub fn until_event(halt: &Halt, wake_ns: u32) -> u64 {
    match halt.woken_ns {
        _ if !halt.waited => halt.ns,
        Some(woken) => woken.min(halt.ns),
        None => halt.ns.saturating_sub(wake_ns.into()),
    }
}

/// One halt, if what ends it comes after `event` ns, and how long it then is.  To wake up takes
/// what it took, and `wake_ns` if it did not block.
pub fn step(halt: &Halt, policy: &mut Policy, event: u64, wake_ns: u32) -> (Replayed, u64) {
    let limit_ns = policy.limit(halt);
    let patience = policy.patience(halt);
    let polled = halt.allowed && (limit_ns > 0 || patience.is_some());
    let until = if polled { u64::from(limit_ns) + u64::from(patience.unwrap_or(0)) } else { 0 };
    let blocked = !polled || event > until;
    let polled_ns = event.min(until);
    let wake = match halt.waited {
        true => halt.ns - until_event(halt, wake_ns),
        false => wake_ns.into(),
    };
    let ns = if blocked { event.saturating_add(wake) } else { event };
    let traced = policy.learn(&Met {
        ns,
        blocked_ns: ns - polled_ns,
        waited: blocked,
        valid: halt.valid,
        allowed: halt.allowed,
        deadline_ns: halt.deadline_ns,
    });
    (Replayed { limit_ns, polled, polled_ns, blocked, traced }, ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::halts::{HostRule, Rule};

    #[test]
    fn who_polls_does_not_wait_for_the_wake_up_of_who_blocks() {
        let halts = vec![Halt::blocked(0, 7_000); 10];
        let rule = Rule::Host(HostRule { grow_start: 5_000, ..HostRule::DEFAULT });
        let (_, as_recorded) = replay(&halts, Policy::new(rule), 0);
        let (_, with_wake) = replay(&halts, Policy::new(rule), 3_000);
        // The first blocks; then 5 us are enough for what comes after 4.
        assert_eq!((as_recorded.blocks, as_recorded.polled_ns), (2, 5_000 + 8 * 7_000));
        assert_eq!((with_wake.blocks, with_wake.polled_ns), (1, 9 * 4_000));
        assert_eq!(with_wake.halted_ns, 7_000 + 9 * 4_000);
    }
}
