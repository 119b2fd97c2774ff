// SPDX-License-Identifier: GPL-2.0-only
//! How a mode changes one of the paper's three metrics against a baseline.

use crate::number;
use paratick_core::{
    mode::{Mode, TickMode},
    results::{Cell, Figure},
    stats::{Comparison, Method, Verdict},
};

pub const PARATICK: Mode = plain(TickMode::Paratick);
pub const TICKLESS: Mode = plain(TickMode::Tickless);
pub const TICKLESS_STOP: Mode = plain(TickMode::TicklessStop);

const fn plain(tick: TickMode) -> Mode {
    Mode { tick, poll: false }
}

/// What paratick is held against: the paper's baseline first, then today's.
pub const BASELINES: [Mode; 2] = [TICKLESS_STOP, TICKLESS];

/// A ratio to a baseline, with its interval and what it shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    /// How the interval was found; of a mean, [`Method::Range`] where one of its ratios has a range.
    pub method: Method,
    pub verdict: Verdict,
}

/// The paper's three metrics (section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    Exits,
    /// Work per CPU time of the host: the inverse of the ratio of `cpu_ns`.
    Throughput,
    /// The ratio of `duration_ns`.
    Time,
}

/// What a change means for whoever pays for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Wins,
    Ties,
    Loses,
    /// Too few samples, or not measured.
    Open,
}

impl Metric {
    pub const ALL: [Metric; 3] = [Metric::Exits, Metric::Throughput, Metric::Time];

    pub fn name(self) -> &'static str {
        match self {
            Metric::Exits => "VM exits",
            Metric::Throughput => "System throughput",
            Metric::Time => "Execution time",
        }
    }

    /// Which way is better, for an axis.
    pub fn better(self) -> &'static str {
        match self {
            Metric::Throughput => "more is better",
            _ => "less is better",
        }
    }

    pub fn of(self, cell: &Cell, baseline: Mode) -> Option<Change> {
        let versus = |figure| cell.versus(baseline, figure).map(Change::from);
        match self {
            Metric::Exits => versus(Figure::Exits),
            Metric::Throughput => versus(Figure::CpuNs).map(Change::inverse),
            Metric::Time => versus(Figure::DurationNs),
        }
    }

    pub fn outcome(self, change: Option<Change>) -> Outcome {
        let Some(change) = change else {
            return Outcome::Open;
        };
        match (change.verdict, self) {
            (Verdict::TooFewSamples, _) => Outcome::Open,
            (Verdict::NoDifferenceShown, _) => Outcome::Ties,
            (Verdict::More, Metric::Throughput) => Outcome::Wins,
            (Verdict::Less, Metric::Exits | Metric::Time) => Outcome::Wins,
            _ => Outcome::Loses,
        }
    }
}

impl From<Comparison> for Change {
    fn from(comparison: Comparison) -> Change {
        Change {
            ratio: comparison.ratio,
            low: comparison.low,
            high: comparison.high,
            method: comparison.method,
            verdict: comparison.verdict,
        }
    }
}

impl Change {
    /// Of what is inversely proportional.
    pub fn inverse(self) -> Change {
        Change {
            ratio: 1.0 / self.ratio,
            low: 1.0 / self.high,
            high: 1.0 / self.low,
            method: self.method,
            verdict: match self.verdict {
                Verdict::Less => Verdict::More,
                Verdict::More => Verdict::Less,
                other => other,
            },
        }
    }

    /// `−52 % [−54 to −50]`, and in words what it does not show, or what its digits do not.
    pub fn words(self) -> String {
        let write = match self.high < 3.0 {
            true => number::decisive_percent,
            false => number::change,
        };
        let [low, high] = [self.low, self.high].map(write);
        let caveat = match self.verdict {
            Verdict::NoDifferenceShown => ", no difference shown",
            Verdict::TooFewSamples => ", too few boots to conclude",
            Verdict::Less if high == "0" => ", a little less",
            Verdict::More if low == "0" => ", a little more",
            _ => "",
        };
        let change = match self.verdict {
            Verdict::Less | Verdict::More if number::percent(self.ratio) == "0" => format!(
                "{}{}%",
                number::decisive_percent(self.ratio),
                number::NARROW_SPACE
            ),
            _ => number::change(self.ratio),
        };
        let space = number::SPACE;
        format!("{change}{space}[{low}{space}to{space}{high}]{caveat}")
    }
}

pub fn words(change: Option<Change>) -> String {
    change.map_or(number::NOTHING.into(), Change::words)
}

/// Half the width of a 95 % interval, in standard errors.
const Z: f64 = 1.96;

/// The geometric mean of ratios that were measured independently, with the interval that follows
/// from theirs: the errors of the logarithms add as squares.  It says how well these workloads were
/// measured, not how others would do.  A range is taken as if it were a 95 % interval, which it is not:
/// [`Change::method`] says so.  None of none, and none where a ratio is not positive.
pub fn geometric_mean(changes: &[Change]) -> Option<Change> {
    let count = changes.len() as f64;
    if changes.is_empty() {
        return None;
    }
    let mean = changes.iter().map(|c| c.ratio.ln()).sum::<f64>() / count;
    let variance: f64 = changes.iter().map(|c| error(c).powi(2)).sum();
    let half = Z * variance.sqrt() / count;
    if !mean.is_finite() || !half.is_finite() {
        return None;
    }
    let (low, high) = ((mean - half).exp(), (mean + half).exp());
    let few = |c: &Change| c.verdict == Verdict::TooFewSamples;
    Some(Change {
        ratio: mean.exp(),
        low,
        high,
        method: match changes.iter().all(|c| c.method == Method::Bootstrap) {
            true => Method::Bootstrap,
            false => Method::Range,
        },
        verdict: match () {
            () if changes.iter().any(few) => Verdict::TooFewSamples,
            () if high < 1.0 => Verdict::Less,
            () if low > 1.0 => Verdict::More,
            () => Verdict::NoDifferenceShown,
        },
    })
}

/// The standard error of the ratio's logarithm, by the wider side of its interval.
fn error(change: &Change) -> f64 {
    let up = change.high.ln() - change.ratio.ln();
    let down = change.ratio.ln() - change.low.ln();
    up.max(down) / Z
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(ratio: f64, low: f64, high: f64) -> Change {
        let verdict = match () {
            () if high < 1.0 => Verdict::Less,
            () if low > 1.0 => Verdict::More,
            () => Verdict::NoDifferenceShown,
        };
        Change {
            ratio,
            low,
            high,
            method: Method::Bootstrap,
            verdict,
        }
    }

    #[test]
    fn half_the_cpu_time_is_twice_the_throughput() {
        let throughput = change(0.5, 0.4, 0.8).inverse();
        assert_eq!(
            (throughput.ratio, throughput.low, throughput.high),
            (2.0, 1.25, 2.5)
        );
        assert_eq!(Metric::Throughput.outcome(Some(throughput)), Outcome::Wins);
        assert_eq!(Metric::Time.outcome(Some(throughput)), Outcome::Loses);
    }

    #[test]
    fn the_mean_of_half_and_double_is_no_change() {
        let mean = geometric_mean(&[change(0.5, 0.49, 0.51), change(2.0, 1.96, 2.04)]).unwrap();
        assert!((mean.ratio - 1.0).abs() < 1e-12);
        assert_eq!(mean.verdict, Verdict::NoDifferenceShown);
    }

    #[test]
    fn the_mean_of_several_is_known_better_than_each() {
        let one = change(0.9, 0.8, 1.01);
        let mean = geometric_mean(&[one; 9]).unwrap();
        assert!(mean.high < one.high && mean.low > one.low);
        assert_eq!(mean.verdict, Verdict::Less);
    }

    #[test]
    fn there_is_no_mean_with_nothing_or_of_nothing() {
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(
            geometric_mean(&[change(0.0, 0.0, 0.1), change(0.5, 0.4, 0.6)]),
            None
        );
    }

    #[test]
    fn a_mean_of_ranges_is_not_said_to_be_known_to_95_per_cent() {
        let sure = change(0.5, 0.49, 0.51);
        let range = Change {
            method: Method::Range,
            ..sure
        };
        let method = |changes: &[Change]| geometric_mean(changes).unwrap().method;
        assert_eq!(method(&[sure, sure]), Method::Bootstrap);
        assert_eq!(method(&[sure, range]), Method::Range);
    }

    #[test]
    fn a_bound_keeps_its_side_of_nothing() {
        let words = change(1.012, 1.0002, 1.02).words();
        assert!(words.contains("[+0.02\u{a0}to"), "{words}");
        let words = change(0.99, 0.98, 0.999_999).words();
        assert!(words.ends_with("0], a little less"), "{words}");
    }

    #[test]
    fn a_tie_is_called_one_in_words() {
        assert!(change(0.99, 0.97, 1.02)
            .words()
            .ends_with("no difference shown"));
        assert_eq!(words(None), "not measured");
    }
}
