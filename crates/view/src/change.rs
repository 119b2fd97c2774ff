// SPDX-License-Identifier: GPL-2.0-only
//! How a mode changes one of the paper's three metrics against a baseline.

use crate::number;
use paratick_core::{
    mode::{Mode, Polling, TickMode},
    results::{Cell, Figure},
    stats::{Comparison, Method, Verdict},
};
use std::fmt;

/// Virtual ticks alone: of ours, what is nearest to the paper's.
pub const PARATICK_TICKS: Mode = TickMode::ParatickTicks.plain();
/// With halt-until.
pub const PARATICK: Mode = TickMode::Paratick.plain();
pub const TICKLESS: Mode = TickMode::Tickless.plain();
pub const TICKLESS_STOP: Mode = TickMode::TicklessStop.plain();
/// What a mode that polls is also held against.
pub const TICKLESS_POLL: Mode = Mode { tick: TickMode::Tickless, poll: Polling::Stock };

/// What is held against the baselines: virtual ticks alone, then with halt-until.
pub const OURS: [Mode; 2] = [PARATICK_TICKS, PARATICK];
/// What they are held against: the paper's baseline first, then today's.
pub const BASELINES: [Mode; 2] = [TICKLESS_STOP, TICKLESS];

/// One of ours, and what it is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versus {
    pub mode: Mode,
    pub baseline: Mode,
}

pub const PAPERS: Versus = Versus { mode: PARATICK_TICKS, baseline: TICKLESS_STOP };

impl Versus {
    /// Of both modes of ours with `baseline`.
    pub fn against(baseline: Mode) -> [Versus; 2] {
        OURS.map(|mode| Versus { mode, baseline })
    }

    /// Of `mode` with every baseline.
    pub fn of(mode: Mode) -> impl Iterator<Item = Versus> {
        BASELINES.into_iter().map(move |baseline| Versus { mode, baseline })
    }

    /// By baseline, and with each virtual ticks alone first.
    pub fn all() -> impl Iterator<Item = Versus> {
        BASELINES.into_iter().flat_map(Versus::against)
    }
}

/// "paratick against tickless".
impl fmt::Display for Versus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} against {}", self.mode, self.baseline)
    }
}

/// A ratio to a baseline, with its interval and what it shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    /// How the interval was found; of a mean, [`Method::Range`] where one of its ratios has a
    /// range.
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
        // On a host with the same settings.
        let baseline = cell.subject.with(baseline);
        let versus = |figure| cell.versus(baseline, figure);
        let compared = match self {
            Metric::Exits => versus(Figure::Exits),
            Metric::Throughput => versus(Figure::CpuNs).map(Comparison::inverse),
            Metric::Time => versus(Figure::DurationNs),
        };
        compared.map(Change::from)
    }

    pub fn outcome(self, change: Option<Change>) -> Outcome {
        let Some(change) = change else { return Outcome::Open };
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
    /// [`Change::sized`], with `≈` where no difference is shown, in brackets where there are too
    /// few boots to conclude anything.
    pub fn text(self) -> String {
        let text = self.sized();
        match self.verdict {
            Verdict::Less | Verdict::More => text,
            Verdict::NoDifferenceShown => format!("≈{}{text}", number::SPACE),
            Verdict::TooFewSamples => format!("({text})"),
        }
    }

    /// `−52 % [−54..−50]` or `×18.2 [15.0..20.3]`.  A bound that decides shows on which side of 0
    /// it is.
    pub fn sized(self) -> String {
        let factor = self.ratio >= number::FACTOR;
        let write = |ratio: f64| match factor {
            true => number::decimal(ratio),
            false => number::decisive_percent(ratio),
        };
        let [ratio, mut low, mut high] = [self.ratio, self.low, self.high].map(write);
        match self.verdict {
            Verdict::Less if high == "0" => high = "−0".into(),
            Verdict::More if low == "0" => low = "+0".into(),
            _ => {}
        }
        let size = match factor {
            true => format!("×{ratio}"),
            false => format!("{ratio}{}%", number::NARROW_SPACE),
        };
        format!("{size}{}{}", number::SPACE, number::ends(&low, &high))
    }
}

pub fn text(change: Option<Change>) -> String {
    number::or_nothing(change, Change::text)
}

/// What the signs of [`Change::text`] mean.
pub const SIGNS: &str =
    "≈: no difference shown, which is not “equal”. (…): too few boots to conclude anything.";

/// Half the width of a 95 % interval, in standard errors.
const Z: f64 = 1.96;

/// The geometric mean of ratios that were measured independently, with the interval that follows
/// from theirs: the errors of the logarithms add as squares.  It says how well these workloads were
/// measured, not how others would do.  A range is taken as if it were a 95 % interval, which it is
/// not: [`Change::method`] says so.  None of none, and none where a ratio is not positive.
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
        verdict: match changes.iter().any(few) {
            true => Verdict::TooFewSamples,
            false => Verdict::of(low, high),
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
    use paratick_core::stats::{compare, Observation};

    fn change(ratio: f64, low: f64, high: f64) -> Change {
        Change { ratio, low, high, method: Method::Bootstrap, verdict: Verdict::of(low, high) }
    }

    #[test]
    fn half_the_cpu_time_is_twice_the_throughput() {
        let spent = Comparison {
            ratio: 0.5,
            low: 0.4,
            high: 0.8,
            samples: 6,
            baseline_samples: 6,
            method: Method::Bootstrap,
            verdict: Verdict::Less,
        };
        let throughput = Change::from(spent.inverse());
        assert_eq!((throughput.ratio, throughput.low, throughput.high), (2.0, 1.25, 2.5));
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
        assert_eq!(geometric_mean(&[change(0.0, 0.0, 0.1), change(0.5, 0.4, 0.6)]), None);
    }

    #[test]
    fn a_mean_of_ranges_is_not_said_to_be_known_to_95_per_cent() {
        let sure = change(0.5, 0.49, 0.51);
        let range = Change { method: Method::Range, ..sure };
        let method = |changes: &[Change]| geometric_mean(changes).unwrap().method;
        assert_eq!(method(&[sure, sure]), Method::Bootstrap);
        assert_eq!(method(&[sure, range]), Method::Range);
    }

    /// As a terminal shows it.
    fn shown(change: Change) -> String {
        let text = change.text().replace(number::NO_BREAK, "");
        text.replace([number::NARROW_SPACE, number::SPACE], " ")
    }

    #[test]
    fn a_bound_keeps_its_side_of_nothing() {
        assert_eq!(shown(change(1.012, 1.0002, 1.02)), "+1.2 % [+0.02..+2.0]");
        assert_eq!(shown(change(0.99, 0.98, 0.999_999)), "−1.0 % [−2.0..−0]");
    }

    fn versus(mode: &[f64], base: &[f64]) -> String {
        let observe = |values: &[f64]| -> Vec<_> {
            let observe = |(round, &value)| Observation { round, value };
            (1..).zip(values).map(observe).collect()
        };
        let change = compare(&observe(mode), &observe(base)).map(Change::from);
        change.map_or(text(None), shown)
    }

    #[test]
    fn a_change_says_no_more_than_was_shown() {
        assert_eq!(versus(&[40.0; 6], &[100.0; 6]), "−60 % [−60..−60]");
        assert_eq!(versus(&[101.5; 6], &[100.0; 6]), "+1.5 % [+1.5..+1.5]");
        assert_eq!(versus(&[100.0; 6], &[100.0; 6]), "≈ 0 % [0..0]");
        assert_eq!(versus(&[1820.0; 6], &[100.0; 6]), "×18.2 [18.2..18.2]");
        assert_eq!(versus(&[0.4; 6], &[100.0; 6]), "−99.6 % [−99.6..−99.6]");
        assert_eq!(versus(&[40.0; 2], &[100.0; 2]), "(−60 % [−60..−60])");
        // However small, it says on which side of 0 it is.
        assert_eq!(versus(&[9997.0; 6], &[1e4; 6]), "−0.03 % [−0.03..−0.03]");
        assert_eq!(versus(&[40.0; 6], &[0.0; 6]), "–");
    }
}
