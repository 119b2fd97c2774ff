// SPDX-License-Identifier: GPL-2.0-only
//! The fewest knobs after which no gap is longer than one can afford.

use super::{
    knob::Knob,
    ledger::{Entry, Ledger},
    rank::Source,
};
use serde::Serialize;
use std::cmp::Reverse;

/// What [`Source::knob`]s would leave of the recorded gaps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Budget {
    pub budget_ns: u64,
    /// Gaps that are longer than that now.
    pub over: usize,
    /// To turn; all that there are if the budget cannot be met.
    pub knobs: Vec<Knob>,
    /// What is predicted after that: the longest gap, all gaps that are longer than the budget,
    /// and the noise.
    pub longest_ns: u64,
    pub still_over: usize,
    pub noise_ns: u64,
    /// What is left of the longest gap, for which there is no knob or for which none is needed.
    pub left: Vec<Source>,
}

/// What was predicted of knobs, beside what there was with them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trial {
    pub budget_ns: u64,
    pub before: Level,
    pub predicted: Level,
    pub measured: Level,
    /// Of the knobs, those that no boot turns: they are as they were.
    pub not_turned: Vec<Knob>,
    /// The measured gaps that are longer than the budget, the longest first.
    pub over: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Level {
    pub longest_ns: u64,
    /// Gaps that are longer than the budget.
    pub over: usize,
    pub noise_ns: u64,
}

impl Level {
    fn of(ledger: &Ledger, budget_ns: u64) -> Level {
        let gaps = || ledger.entries.iter().map(|gap| gap.ns);
        Level {
            longest_ns: gaps().max().unwrap_or(0),
            over: gaps().filter(|ns| *ns > budget_ns).count(),
            noise_ns: ledger.noise_ns(),
        }
    }
}

impl Trial {
    /// `before` is what the budget was made of.
    pub fn of(budget: &Budget, before: &Ledger, measured: &Ledger) -> Trial {
        let Budget { budget_ns, longest_ns, still_over, noise_ns, .. } = *budget;
        let not_turned = budget.knobs.iter().filter(|knob| !knob.is_turned_by_a_boot());
        let over = measured.entries.iter().filter(|gap| gap.ns > budget_ns);
        let mut over: Vec<Entry> = over.cloned().collect();
        over.sort_by_key(|gap| (Reverse(gap.ns), gap.begin_ns));
        Trial {
            budget_ns,
            before: Level::of(before, budget_ns),
            predicted: Level { longest_ns, over: still_over, noise_ns },
            measured: Level::of(measured, budget_ns),
            not_turned: not_turned.copied().collect(),
            over,
        }
    }
}

/// A set of knobs, by their places.
type Set = u32;

/// Of a gap: what has no knob, what each knob would end, and the ways there and back.
struct Parts {
    fixed: u64,
    of_knobs: Vec<(Set, u64)>,
    edges: u64,
}

impl Parts {
    fn of(entry: &Entry, knobs: &[Knob]) -> Parts {
        let mut parts = Parts { fixed: 0, of_knobs: Vec::new(), edges: 0 };
        for event in &entry.events {
            match (&event.source, place(&event.source, knobs)) {
                (Source::Edges, _) => parts.edges += event.ns,
                (_, Some(place)) => parts.of_knobs.push((1 << place, event.ns)),
                (_, None) => parts.fixed += event.ns,
            }
        }
        parts
    }

    /// What is left if these knobs are turned.  The edges stay as long as anything does.
    fn left(&self, turned: Set) -> u64 {
        let kept = self.of_knobs.iter().filter(|(knob, _)| knob & turned == 0);
        match self.fixed + kept.map(|(_, ns)| ns).sum::<u64>() {
            0 if !self.of_knobs.is_empty() => 0,
            ns => ns + self.edges,
        }
    }
}

fn place(source: &Source, knobs: &[Knob]) -> Option<usize> {
    let wanted = source.knob()?;
    knobs.iter().position(|knob| *knob == wanted)
}

/// Of the smallest sets that do, the one that leaves least noise.
pub fn budget(ledger: &Ledger, budget_ns: u64) -> Budget {
    let events = || ledger.entries.iter().flat_map(|entry| &entry.events);
    let mut knobs: Vec<Knob> =
        events().filter(|event| event.ns > 0).filter_map(|event| event.source.knob()).collect();
    knobs.sort_unstable();
    knobs.dedup();
    let gaps: Vec<Parts> = ledger.entries.iter().map(|gap| Parts::of(gap, &knobs)).collect();
    let long: Vec<&Parts> = gaps.iter().filter(|gap| gap.left(0) > budget_ns).collect();
    let noise = |turned: Set| gaps.iter().map(|gap| gap.left(turned)).sum::<u64>();
    let all = (1 << knobs.len()) - 1;
    let mut smallest: Vec<Set> = Vec::new();
    for turned in 0..=all {
        let size = |set: Set| set.count_ones();
        if smallest.first().is_some_and(|best| size(turned) > size(*best))
            || !long.iter().all(|gap| gap.left(turned) <= budget_ns)
        {
            continue;
        }
        smallest.retain(|best| size(*best) == size(turned));
        smallest.push(turned);
    }
    let turned = smallest.into_iter().min_by_key(|set| noise(*set)).unwrap_or(all);
    let left = |gap: &Parts| gap.left(turned);
    let longest = (0..gaps.len()).max_by_key(|at| left(&gaps[*at]));
    let longest_ns = longest.map_or(0, |at| left(&gaps[at]));
    Budget {
        budget_ns,
        over: long.len(),
        longest_ns,
        still_over: gaps.iter().filter(|gap| left(gap) > budget_ns).count(),
        noise_ns: noise(turned),
        left: longest.filter(|_| longest_ns > 0).map_or(Vec::new(), |at| {
            let is_kept = |source: &Source| {
                place(source, &knobs).is_none_or(|place| turned & (1 << place) == 0)
            };
            let sources = ledger.entries[at].events.iter().map(|event| &event.source);
            sources.filter(|source| is_kept(source)).cloned().collect()
        }),
        knobs: (0..knobs.len()).filter(|at| turned & (1 << at) != 0).map(|at| knobs[at]).collect(),
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
