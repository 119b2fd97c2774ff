// SPDX-License-Identifier: GPL-2.0-only
//! What a guest's kernel decides when a vCPU goes idle: stop the tick, or keep it, and why.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the guest's kernel decided when vCPUs went idle, in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IdleEntries {
    /// The kernel looked for its next event.
    ///
    /// To stop the tick or keep it (`tick_nohz_next_event()`).
    pub decisions: u64,
    /// Of these it kept the tick: the next event is near.
    pub kept: u64,
    /// Of `decisions`: callbacks waited for RCU (`rcu_needs_cpu()`).
    ///
    /// An event of the next period.
    pub rcu_waiting: u64,
    /// Callbacks given to `call_rcu()`, by function.
    pub rcu_callbacks: BTreeMap<String, u64>,
}

impl IdleEntries {
    pub fn since(mut self, before: &IdleEntries) -> IdleEntries {
        self.decisions = self.decisions.saturating_sub(before.decisions);
        self.kept = self.kept.saturating_sub(before.kept);
        self.rcu_waiting = self.rcu_waiting.saturating_sub(before.rcu_waiting);
        for (function, count) in &before.rcu_callbacks {
            if let Some(all) = self.rcu_callbacks.get_mut(function) {
                *all = all.saturating_sub(*count);
            }
        }
        self.rcu_callbacks.retain(|_, count| *count > 0);
        self
    }

    pub fn add(&mut self, other: IdleEntries) {
        self.decisions += other.decisions;
        self.kept += other.kept;
        self.rcu_waiting += other.rcu_waiting;
        for (function, count) in other.rcu_callbacks {
            *self.rcu_callbacks.entry(function).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries() -> impl Strategy<Value = IdleEntries> {
        let callbacks = prop::collection::btree_map("[a-c]", 1..1000u64, 0..3);
        (0..1000u64, 0..1000u64, 0..1000u64, callbacks).prop_map(
            |(decisions, kept, rcu_waiting, rcu_callbacks)| IdleEntries {
                decisions,
                kept,
                rcu_waiting,
                rcu_callbacks,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_added_is_what_came_since(before in entries(), more in entries()) {
            let mut after = before.clone();
            after.add(more.clone());
            prop_assert_eq!(after.since(&before), more);
        }
    }
}
