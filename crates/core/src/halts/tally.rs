// SPDX-License-Identifier: GPL-2.0-only
//! What halts come to, recorded or replayed.

use super::recording::{Halt, Halts, VcpuHalts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What halts come to, recorded or replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Tally {
    /// Their number.
    pub halts: u64,
    /// Halts that began with each limit in force, in ns.
    ///
    /// Of the host's polling (the article's Graphs 1 and 2).
    pub limits: BTreeMap<u32, u64>,
    /// Halts whose limit is not known.
    pub limits_unknown: u64,
    /// Polls that saw the end of the halt.
    ///
    /// KVM's `halt_successful_poll`; with `misses` they are its `halt_attempted_poll`.
    pub hits: u64,
    /// Polls that did not.
    pub misses: u64,
    /// Halts in which the vCPU blocked.
    pub blocks: u64,
    /// Polled and blocked, all vCPUs.
    pub halted_ns: u64,
    /// Polled.
    pub polled_ns: u64,
    /// Polled in halts that blocked.
    pub wasted_ns: u64,
    /// How often vCPU threads were switched out; a replay knows none.
    pub switches: u64,
}

impl Tally {
    pub fn of(vcpu: &VcpuHalts) -> Tally {
        let mut tally = Tally::default();
        for halt in &vcpu.halts {
            tally.add(halt);
        }
        tally
    }

    pub fn of_all(halts: &Halts) -> Tally {
        let mut tally = Tally::default();
        for vcpu in &halts.vcpus {
            tally.merge(&Tally::of(vcpu));
        }
        tally
    }

    fn add(&mut self, halt: &Halt) {
        match halt.limit_ns {
            Some(limit) => *self.limits.entry(limit).or_default() += 1,
            None => self.limits_unknown += 1,
        }
        self.count(halt.ns, halt.polled_ns, halt.was_polled(), halt.waited);
        self.switches += u64::from(halt.switches);
    }

    /// One halt, apart from its limit.
    pub fn count(&mut self, ns: u64, polled_ns: u64, polled: bool, blocked: bool) {
        self.halts += 1;
        self.hits += u64::from(polled && !blocked);
        self.misses += u64::from(polled && blocked);
        self.blocks += u64::from(blocked);
        self.halted_ns = self.halted_ns.saturating_add(ns);
        self.polled_ns = self.polled_ns.saturating_add(polled_ns);
        if blocked {
            self.wasted_ns = self.wasted_ns.saturating_add(polled_ns);
        }
    }

    pub fn merge(&mut self, other: &Tally) {
        for (limit, count) in &other.limits {
            *self.limits.entry(*limit).or_default() += count;
        }
        self.limits_unknown += other.limits_unknown;
        self.halts += other.halts;
        self.hits += other.hits;
        self.misses += other.misses;
        self.blocks += other.blocks;
        self.halted_ns = self.halted_ns.saturating_add(other.halted_ns);
        self.polled_ns = self.polled_ns.saturating_add(other.polled_ns);
        self.wasted_ns = self.wasted_ns.saturating_add(other.wasted_ns);
        self.switches += other.switches;
    }

    /// Time polled, and `cost` nanoseconds for each block.
    pub fn cost_ns(&self, cost: u32) -> u64 {
        self.polled_ns.saturating_add(self.blocks.saturating_mul(cost.into()))
    }

    /// Which part of the halted time was polled; none if nothing halted.
    pub fn polled_share(&self) -> Option<f64> {
        (self.halted_ns > 0).then(|| self.polled_ns as f64 / self.halted_ns as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::recording::Side;
    use super::*;

    #[test]
    fn what_was_recorded_adds_up() {
        let hit = Halt { polled_ns: 5, waited: false, ..Halt::blocked(0, 5) };
        let halts = vec![
            Halt { limit_ns: Some(10), ..hit.clone() },
            Halt { limit_ns: Some(10), polled_ns: 10, switches: 1, ..Halt::blocked(10, 100) },
            // Something had come before the poll began.
            Halt { limit_ns: Some(0), waited: false, ..Halt::blocked(200, 1) },
            hit,
            // The guest polls itself.
            Halt { limit_ns: Some(10), allowed: false, switches: 2, ..Halt::blocked(300, 50) },
        ];
        let (side, rule) = (Side::Host, None);
        let vcpu = VcpuHalts { side, rule, halts, ..VcpuHalts::default() };
        let tally = Tally::of(&vcpu);
        let wanted = Tally {
            halts: 5,
            limits: BTreeMap::from([(0, 1), (10, 3)]),
            limits_unknown: 1,
            hits: 2,
            misses: 1,
            blocks: 2,
            halted_ns: 161,
            polled_ns: 20,
            wasted_ns: 10,
            switches: 3,
        };
        assert_eq!(tally, wanted);
        assert_eq!((tally.cost_ns(1000), Tally::default().polled_share()), (2020, None));
        let mut twice = tally.clone();
        twice.merge(&tally);
        assert_eq!((twice.limits[&10], twice.cost_ns(1000)), (6, 4040));
        assert_eq!(twice.polled_share(), tally.polled_share());
    }
}
