// SPDX-License-Identifier: GPL-2.0-only
//! Whether a rule did what was predicted of it.

use super::tally::Tally;
use crate::units::Nanos;
use serde::Serialize;
use std::fmt;

/// What may lie between prediction and measurement: of the predicted, and of what there is at all.
const WITHIN: f64 = 0.10;
const TRIFLE: f64 = 0.01;

/// Per halt, as no two recordings have the same number of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Verdict {
    pub blocks: Claim,
    /// Context switches of vCPUs' threads.
    pub switches: Claim,
    /// In ns.
    pub polled: Claim,
    /// In ns; `before` and `measured` decide whether the rule was worth it.
    pub cost: Claim,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Claim {
    pub before: f64,
    pub predicted: f64,
    pub measured: f64,
    /// A difference below it is none.
    #[serde(skip)]
    trifle: f64,
}

impl Claim {
    /// What was measured beyond what was predicted, as a part of it; 0 for a trifle.
    pub fn off(&self) -> f64 {
        match self.measured - self.predicted {
            off if off.abs() <= self.trifle => 0.0,
            off => off / self.predicted.max(self.trifle),
        }
    }

    pub fn came_true(&self) -> bool {
        self.off().abs() <= WITHIN
    }
}

/// One VM's halts.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    pub before: Tally,
    pub predicted: Tally,
    pub measured: Tally,
}

impl Verdict {
    /// `cost` is that of a block, in ns.  Of several VMs each counts by the halts that were
    /// measured of it: how they mix is nobody's prediction.
    pub fn new(cost: u32, vms: &[Compared]) -> Verdict {
        let all: u64 = vms.iter().map(|vm| vm.measured.halts).sum();
        let claim = |of: &dyn Fn(&Tally) -> u64, trifle: f64| {
            let each = |which: &dyn Fn(&Compared) -> &Tally| {
                let scaled = vms.iter().map(|vm| {
                    let tally = which(vm);
                    let halts = vm.measured.halts as f64 / tally.halts.max(1) as f64;
                    of(tally) as f64 * halts
                });
                scaled.sum::<f64>() / all.max(1) as f64
            };
            let before = each(&|vm| &vm.before);
            let (predicted, measured) = (each(&|vm| &vm.predicted), each(&|vm| &vm.measured));
            Claim { before, predicted, measured, trifle }
        };
        let block = f64::from(cost) * TRIFLE;
        Verdict {
            blocks: claim(&|tally| tally.blocks, TRIFLE),
            switches: claim(&|tally| tally.switches, TRIFLE),
            polled: claim(&|tally| tally.polled_ns, block),
            cost: claim(&|tally| tally.cost_ns(cost), block),
        }
    }

    /// The halts cost more than before, by more than a prediction may be off.
    pub fn costs_more(&self) -> bool {
        let Claim { before, measured, trifle, .. } = self.cost;
        measured > before * (1.0 + WITHIN) + trifle
    }

    /// The rule costs no more than was predicted, and no more than the one before.
    pub fn came_true(&self) -> bool {
        let cheaper = self.cost.measured <= self.cost.before + self.cost.trifle;
        self.cost.off() <= WITHIN && cheaper
    }
}

impl Verdict {
    /// The line of the cost alone.
    pub fn cost_line(&self) -> String {
        line("cost of each halt", &self.cost, &time)
    }
}

fn time(ns: f64) -> String {
    Nanos(ns.round() as u64).to_string()
}

fn line(what: &str, claim: &Claim, write: &dyn Fn(f64) -> String) -> String {
    let Claim { before, predicted, measured, .. } = claim;
    let [before, predicted, measured] = [before, predicted, measured].map(|value| write(*value));
    let off = match claim.came_true() {
        true => String::new(),
        false => format!(" ({:+.0} %)", 100.0 * claim.off()),
    };
    format!("{what}: {before} before, {predicted} predicted, {measured} measured{off}")
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |blocks: f64| format!("{blocks:.3}");
        writeln!(f, "  {}", line("blocks of each halt", &self.blocks, &share))?;
        writeln!(f, "  {}", line("switches of each halt", &self.switches, &share))?;
        writeln!(f, "  {}", line("polled for each halt", &self.polled, &time))?;
        writeln!(f, "  {}", self.cost_line())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(halts: u64, blocks: u64, polled_ns: u64) -> Tally {
        Tally { halts, blocks, polled_ns, ..Tally::default() }
    }

    fn verdict(before: &Tally, predicted: &Tally, measured: &Tally) -> Verdict {
        Verdict::new(10_000, &[compared(before, predicted, measured)])
    }

    fn compared(before: &Tally, predicted: &Tally, measured: &Tally) -> Compared {
        let [before, predicted, measured] = [before, predicted, measured].map(Clone::clone);
        Compared { before, predicted, measured }
    }

    #[test]
    fn a_prediction_comes_true_if_the_rule_costs_no_more_than_a_tenth_beyond_it() {
        let before = tally(1000, 500, 5_000_000);
        let predicted = tally(1000, 200, 2_000_000);
        let verdict = |measured| verdict(&before, &predicted, &measured);
        let close = verdict(tally(2000, 430, 3_800_000));
        assert!(close.came_true() && close.blocks.came_true(), "{close}");
        assert!(close.to_string().contains("0.500 before, 0.200 predicted, 0.215 measured\n"));
        let better = verdict(tally(1000, 100, 1_000_000));
        assert!(better.came_true() && !better.blocks.came_true(), "{better}");
        assert!(better.to_string().contains("0.100 measured (-50 %)\n"), "{better}");
        assert!(!verdict(tally(1000, 250, 2_000_000)).came_true());
    }

    #[test]
    fn a_rule_that_costs_more_than_before_does_not_come_true() {
        let predicted = tally(1000, 200, 2_000_000);
        let before = tally(1000, 190, 1_900_000);
        assert!(!verdict(&before, &predicted, &predicted).came_true());
    }

    #[test]
    fn what_is_next_to_nothing_may_be_twice_as_much() {
        let before = tally(1000, 500, 5_000_000);
        let verdict = verdict(&before, &tally(1000, 2, 1000), &tally(1000, 5, 40_000));
        assert!(verdict.came_true() && verdict.blocks.came_true(), "{verdict}");
    }

    #[test]
    fn each_vm_counts_by_the_halts_that_were_measured_of_it() {
        // The one blocks always, the other never; the second time there are fewer of the other's.
        let (blocks, polls) = (tally(100, 100, 0), tally(1000, 0, 1_000_000));
        let same = |of: &Tally, times: u64| {
            let measured = tally(of.halts / times, of.blocks / times, of.polled_ns / times);
            compared(of, of, &measured)
        };
        let verdict = Verdict::new(10_000, &[same(&blocks, 1), same(&polls, 10)]);
        assert!(verdict.came_true() && !verdict.costs_more(), "{verdict}");
        assert_eq!((verdict.blocks.before, verdict.blocks.measured), (0.5, 0.5));
        let lost = Verdict::new(10_000, &[compared(&polls, &polls, &tally(1000, 200, 0))]);
        assert!(lost.costs_more(), "{lost}");
    }
}
