// SPDX-License-Identifier: GPL-2.0-only
//! Medians, their intervals, and the comparison of two modes.
//!
//! * The interval is a 95 % percentile bootstrap of the median, from [`RESAMPLES`] resamples drawn
//!   by a generator with a fixed seed: the same samples always give the same interval.
//! * Samples come in rounds (one boot of a guest per mode and round), and samples of one boot are
//!   alike.  So a resample draws rounds first, then samples within each drawn round; with several
//!   rounds, what differs from boot to boot is in the interval.  With one round it cannot be.
//! * Below [`MIN_BOOTSTRAP`] samples the range (smallest to largest) is given instead, and said to
//!   be that: the range of n samples holds the true median with a probability of 1 − 2^(1−n),
//!   which reaches 95 % only at n = 6, so no narrower interval could be honest.
//! * Two modes are compared by the ratio of their medians over the rounds that both have, which lie
//!   side by side in time.  Each boot is its own, so a resample draws the rounds of each side for
//!   themselves: drawn together, four rounds of two boots each would give an interval that leaves
//!   out 1 for one in seven pairs of equal things that differ from boot to boot.  Where the
//!   interval holds 1, no difference is shown: that is a result, and not the same as "equal".
//!   Measurements that share no boot are compared in the same way, over all of their rounds.
//! * Below [`MIN_VERDICT`] rounds on either side nothing is concluded, however many samples:
//!   samples of one boot say nothing of the next.  Of 3 and 3 boots of equal things, one side lies
//!   wholly below the other with a probability of 10 %; of 4 and 4 it is 2.9 %.

mod bootstrap;
mod line;
mod median;
pub mod random;

pub use bootstrap::{CONFIDENCE, RESAMPLES};
pub use line::{line, Line};
pub use median::median;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Fewer samples than this get their range for an interval.
pub const MIN_BOOTSTRAP: usize = 6;
/// Fewer rounds than this, on either side, and a comparison has no verdict.
pub const MIN_VERDICT: usize = 4;

/// One number of one measured run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    pub round: u32,
    pub value: f64,
}

/// How an interval is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// A 95 % interval.
    Bootstrap,
    /// Smallest to largest: below 6 samples.
    Range,
}

/// A median and its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Summary {
    /// Of all samples.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// How many had the figure.
    pub samples: u32,
    /// How the interval was made.
    pub method: Method,
}

/// What an interval of a ratio says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The interval is wholly below 1.
    Less,
    /// It is wholly above 1.
    More,
    /// It contains 1. This does not mean "equal".
    NoDifferenceShown,
    /// Fewer than 4 rounds on a side, so no conclusion.
    TooFewSamples,
}

impl Verdict {
    /// Of an interval of a ratio from enough samples.
    pub fn of(low: f64, high: f64) -> Verdict {
        match () {
            () if high < 1.0 => Verdict::Less,
            () if low > 1.0 => Verdict::More,
            () => Verdict::NoDifferenceShown,
        }
    }
}

/// The ratio of two modes' medians.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Median / the baseline's median: 0.4 is 60 % less.
    pub ratio: f64,
    /// Lower end of the ratio's interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Of the mode, in rounds that both have.
    pub samples: u32,
    /// The same of the baseline.
    pub baseline_samples: u32,
    /// How the interval was made.
    pub method: Method,
    /// What follows from it.
    pub verdict: Verdict,
}

impl Comparison {
    /// Of what is inversely proportional.
    pub fn inverse(self) -> Comparison {
        Comparison {
            ratio: 1.0 / self.ratio,
            low: 1.0 / self.high,
            high: 1.0 / self.low,
            verdict: match self.verdict {
                Verdict::Less => Verdict::More,
                Verdict::More => Verdict::Less,
                other => other,
            },
            ..self
        }
    }
}

/// The median and its interval; none of no observations.
/// The least that so many per cent of them are not above; `None` of none.
pub fn at_most(sorted: &[u64], percent: usize) -> Option<u64> {
    sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied()
}

pub fn summarize(observations: &[Observation]) -> Option<Summary> {
    let rounds = by_round(observations);
    let values: Vec<f64> = rounds.values().flatten().copied().collect();
    let median = median(&values)?;
    let (low, high, method) = if values.len() < MIN_BOOTSTRAP {
        let (low, high) = range(&values);
        (low, high, Method::Range)
    } else {
        let rounds: Vec<_> = rounds.into_values().collect();
        let (low, high) = bootstrap::median_interval(&rounds);
        (low.min(median), high.max(median), Method::Bootstrap)
    };
    Some(Summary { median, low, high, samples: values.len() as u32, method })
}

/// `mode` against `baseline`.  None where they share no round, or where the baseline has a sample
/// that is not positive: a ratio to (almost) nothing says nothing.
pub fn compare(mode: &[Observation], baseline: &[Observation]) -> Option<Comparison> {
    let mut mode = by_round(mode);
    let mut base = by_round(baseline);
    mode.retain(|round, _| base.contains_key(round));
    base.retain(|round, _| mode.contains_key(round));
    ratio(mode, base)
}

/// One measurement against another that shares no boot with it, such as those of two files: all
/// rounds of both count, whatever their numbers.  None where a side is empty, or where `before` has
/// a sample that is not positive.
pub fn compare_unpaired(after: &[Observation], before: &[Observation]) -> Option<Comparison> {
    ratio(by_round(after), by_round(before))
}

/// How many rounds a sample is from.
pub fn rounds(observations: &[Observation]) -> usize {
    by_round(observations).len()
}

type Rounds = BTreeMap<u32, Vec<f64>>;

fn ratio(mode: Rounds, base: Rounds) -> Option<Comparison> {
    let (mode, base): (Vec<_>, Vec<_>) =
        (mode.into_values().collect(), base.into_values().collect());
    let (mode_values, base_values) = (mode.concat(), base.concat());
    if base_values.iter().any(|value| *value <= 0.0) {
        return None;
    }
    let ratio = median(&mode_values)? / median(&base_values)?;
    let (low, high, method) = if mode_values.len().min(base_values.len()) < MIN_BOOTSTRAP {
        let ((low, high), (base_low, base_high)) = (range(&mode_values), range(&base_values));
        (low / base_high, high / base_low, Method::Range)
    } else {
        let (low, high) = bootstrap::ratio_interval(&mode, &base);
        (low.min(ratio), high.max(ratio), Method::Bootstrap)
    };
    Some(Comparison {
        ratio,
        low,
        high,
        samples: mode_values.len() as u32,
        baseline_samples: base_values.len() as u32,
        method,
        verdict: match mode.len().min(base.len()) < MIN_VERDICT {
            true => Verdict::TooFewSamples,
            false => Verdict::of(low, high),
        },
    })
}

fn by_round(observations: &[Observation]) -> Rounds {
    let mut rounds = Rounds::new();
    for seen in observations.iter().filter(|seen| seen.value.is_finite()) {
        rounds.entry(seen.round).or_default().push(seen.value);
    }
    rounds
}

fn range(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (low, high)
}

#[cfg(test)]
mod tests;
