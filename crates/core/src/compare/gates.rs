// SPDX-License-Identifier: GPL-2.0-only
//! The three gates between a difference and a change.

use crate::{
    results::Figure,
    stats::{self, Observation, Verdict, MIN_VERDICT},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// A smaller relative change is noise: the exits of one cell, measured again, differ by 1 to 3 %.
pub const DEFAULT_NOISE: f64 = 0.03;

/// The smallest change that matters, in the figure's unit.  25 exits; and for instructions and
/// times what they cost in the lab, where an exit takes about 4 000 instructions of the host
/// (docs/measuring.md), each of them a nanosecond.
pub const DEFAULT_SIZES: [(Figure, f64); 7] = [
    (Figure::Exits, 25.0),
    (Figure::TimerExits, 25.0),
    (Figure::TscDeadlineWrites, 25.0),
    (Figure::Instructions, 100_000.0),
    (Figure::Cycles, 100_000.0),
    (Figure::CpuNs, 100_000.0),
    (Figure::DurationNs, 100_000.0),
];

/// What a change must pass, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// The interval of the ratio leaves out 1.
    Significance,
    /// The medians differ by the figure's smallest size at least.
    Size,
    /// Relative to `before`, they differ by more than the threshold and than the spread seen
    /// within either file.
    Noise,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Less,
    More,
    NoDifferenceShown,
    /// On one side at least; nothing is concluded.
    TooFewSamples,
    /// By one file at least.
    NotMeasured,
}

impl Outcome {
    pub fn is_change(self) -> bool {
        matches!(self, Outcome::Less | Outcome::More)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gates {
    /// By figure, in its unit; a figure that is not named has none.
    pub sizes: BTreeMap<Figure, f64>,
    /// Relative: 0.03 is 3 %.
    pub noise: f64,
}

impl Default for Gates {
    fn default() -> Gates {
        Gates { sizes: BTreeMap::from(DEFAULT_SIZES), noise: DEFAULT_NOISE }
    }
}

impl Gates {
    pub fn judge(
        &self,
        figure: Figure,
        old: &[Observation],
        new: &[Observation],
    ) -> (Outcome, Option<Gate>) {
        let (Some(before), Some(after)) = (median(old), median(new)) else {
            return (Outcome::NotMeasured, None);
        };
        if stats::rounds(old).min(stats::rounds(new)) < MIN_VERDICT {
            return (Outcome::TooFewSamples, None);
        }
        let size = self.sizes.get(&figure).copied().unwrap_or(0.0);
        let difference = after - before;
        let noise = [Some(self.noise), spread(old), spread(new)];
        let noise = noise.into_iter().flatten().fold(0.0, f64::max);
        let stopped_by = match () {
            () if !is_significant(old, new) => Some(Gate::Significance),
            () if difference == 0.0 || difference.abs() < size => Some(Gate::Size),
            () if difference.abs() <= noise * before.abs() => Some(Gate::Noise),
            () => None,
        };
        let outcome = match stopped_by {
            Some(_) => Outcome::NoDifferenceShown,
            None if difference < 0.0 => Outcome::Less,
            None => Outcome::More,
        };
        (outcome, stopped_by)
    }
}

/// There is no ratio to 0: then every sample of one side must lie below every one of the other's,
/// which equal things do with a probability of 2.9 % from 4 and 4 samples on, and less with more.
fn is_significant(old: &[Observation], new: &[Observation]) -> bool {
    match stats::compare_unpaired(new, old) {
        Some(compared) => matches!(compared.verdict, Verdict::Less | Verdict::More),
        None => all_below(old, new) || all_below(new, old),
    }
}

fn all_below(low: &[Observation], high: &[Observation]) -> bool {
    let most = values(low).fold(f64::NEG_INFINITY, f64::max);
    values(high).all(|value| value > most)
}

/// Half of the samples lie within this of their median, as a part of it; none around 0.
pub(super) fn spread(seen: &[Observation]) -> Option<f64> {
    let middle = median(seen).filter(|middle| *middle != 0.0)?;
    let away: Vec<f64> = values(seen).map(|value| (value - middle).abs()).collect();
    Some(stats::median(&away)? / middle.abs())
}

fn median(seen: &[Observation]) -> Option<f64> {
    stats::median(&values(seen).collect::<Vec<_>>())
}

fn values(seen: &[Observation]) -> impl Iterator<Item = f64> + '_ {
    seen.iter().map(|seen| seen.value)
}
