// SPDX-License-Identifier: GPL-2.0-only
//! Numbers as people read them.

use paratick_core::stats::{Comparison, Summary, Verdict};
use paratick_view::number::{self, decisive_percent};

/// What stands where nothing was measured.
pub const NOTHING: &str = "–";

/// `10 043`: digits in threes.
pub fn count(value: f64) -> String {
    plain(number::count(value))
}

/// Three significant digits below 100, whole numbers above.
pub fn decimal(value: f64) -> String {
    plain(number::decimal(value))
}

/// With the spaces that a terminal knows.
fn plain(text: String) -> String {
    text.replace(number::NARROW_SPACE, " ")
}

/// `4 132 [4 100..4 150]`; the interval is left away where it is the number itself.
pub fn interval(summary: Option<Summary>, write: impl Fn(f64) -> String) -> String {
    let Some(summary) = summary else {
        return NOTHING.into();
    };
    let (median, low, high) = (
        write(summary.median),
        write(summary.low),
        write(summary.high),
    );
    match low == median && high == median {
        true => median,
        false => format!("{median} [{low}..{high}]"),
    }
}

/// `−60 % [−62..−58]`, `×18.2 [15.0..20.3]`, or that nothing is shown.
pub fn change(comparison: Option<Comparison>) -> String {
    let Some(Comparison {
        ratio,
        low,
        high,
        verdict,
        ..
    }) = comparison
    else {
        return NOTHING.into();
    };
    let (median, interval) = match ratio < number::FACTOR {
        true => (
            format!("{} %", decisive_percent(ratio)),
            format!("[{}..{}]", decisive_percent(low), decisive_percent(high)),
        ),
        false => (
            format!("×{}", decimal(ratio)),
            format!("[{}..{}]", decimal(low), decimal(high)),
        ),
    };
    match verdict {
        Verdict::Less | Verdict::More => format!("{median} {interval}"),
        Verdict::NoDifferenceShown => format!("≈ {interval}"),
        Verdict::TooFewSamples => format!("({median})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paratick_core::stats::{compare, Method, Observation};

    #[test]
    fn digits_stand_in_threes() {
        assert_eq!((count(0.0), count(0.5)), ("0".into(), "0.5".into()));
        assert_eq!(count(999.4), "999");
        assert_eq!(count(10_043.0), "10 043");
        assert_eq!(count(1_234_567.0), "1 234 567");
        assert_eq!(decimal(4.132), "4.13");
        assert_eq!(decimal(41.26), "41.3");
    }

    #[test]
    fn an_interval_without_width_is_left_away() {
        let mut summary = Summary {
            median: 4132.0,
            low: 4100.0,
            high: 4150.2,
            samples: 6,
            method: Method::Bootstrap,
        };
        assert_eq!(interval(Some(summary), count), "4 132 [4 100..4 150]");
        (summary.low, summary.high) = (4132.0, 4132.0);
        assert_eq!(interval(Some(summary), count), "4 132");
        assert_eq!(interval(None, count), "–");
    }

    fn versus(mode: &[f64], base: &[f64]) -> String {
        let observe = |values: &[f64]| -> Vec<_> {
            let observe = |(round, &value)| Observation { round, value };
            (1..).zip(values).map(observe).collect()
        };
        change(compare(&observe(mode), &observe(base)))
    }

    #[test]
    fn a_change_says_no_more_than_was_shown() {
        assert_eq!(versus(&[40.0; 6], &[100.0; 6]), "−60 % [−60..−60]");
        assert_eq!(versus(&[101.5; 6], &[100.0; 6]), "+1.5 % [+1.5..+1.5]");
        assert_eq!(versus(&[100.0; 6], &[100.0; 6]), "≈ [0..0]");
        assert_eq!(versus(&[1820.0; 6], &[100.0; 6]), "×18.2 [18.2..18.2]");
        assert_eq!(versus(&[0.4; 6], &[100.0; 6]), "−99.6 % [−99.6..−99.6]");
        assert_eq!(versus(&[40.0; 2], &[100.0; 2]), "(−60 %)");
        // However small, it says on which side of 0 it is.
        assert_eq!(versus(&[9997.0; 6], &[1e4; 6]), "−0.03 % [−0.03..−0.03]");
        assert_eq!(versus(&[40.0; 6], &[0.0; 6]), "–");
    }
}
