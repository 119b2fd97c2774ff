// SPDX-License-Identifier: GPL-2.0-only
//! Numbers as people read them.

use paratick_core::{model::Range, stats::Summary, units::Nanos};

/// What stands where nothing was measured.
pub const NOTHING: &str = "–";

/// Between digits, before a unit: no line breaks there.
pub const NARROW_SPACE: char = '\u{202f}';

/// Within a number and its interval: no line breaks there.
pub const SPACE: char = '\u{a0}';

/// Between the ends of an interval: no line breaks there.
pub const NO_BREAK: char = '\u{2060}';

/// `10 043`: digits in threes.
pub fn count(value: f64) -> String {
    if value.abs() < 10.0 && value.fract().abs() > 0.05 {
        return signless(value, 1);
    }
    let digits = format!("{:.0}", value.abs());
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            grouped.push(NARROW_SPACE);
        }
        grouped.push(digit);
    }
    match value <= -0.5 {
        true => format!("−{grouped}"),
        false => grouped,
    }
}

/// Three significant digits below 100, whole numbers above.
pub fn decimal(value: f64) -> String {
    match value.abs() {
        v if v < 10.0 => signless(value, 2),
        v if v < 100.0 => signless(value, 1),
        _ => count(value),
    }
}

fn signless(value: f64, digits: usize) -> String {
    format!("{value:.digits$}").replace('-', "−")
}

/// Beyond this a change reads better as a factor.
pub const FACTOR: f64 = 3.0;

/// A ratio as a change: `−52 %`, `+1.3 %`, `×18.2`.
pub fn change(ratio: f64) -> String {
    match ratio < FACTOR {
        true => format!("{}{NARROW_SPACE}%", percent(ratio)),
        false => format!("×{}", decimal(ratio)),
    }
}

/// A published change in per cent, as it was printed: `−50 %`.
pub fn printed(percent: f64) -> String {
    let sign = if percent < 0.0 { "−" } else { "+" };
    format!("{sign}{}{NARROW_SPACE}%", percent.abs())
}

/// A ratio as a signed change in per cent, without the sign of per cent.
pub fn percent(ratio: f64) -> String {
    let change = (ratio - 1.0) * 100.0;
    // Whole per cents in between; −99.6 % is not all.
    let digits = usize::from(change.abs() < 9.95 || (-99.95..-98.5).contains(&change));
    signed(change, digits)
}

/// The same where its sign decides: what is not 0 has as many digits as show on which side of it,
/// up to [`DIGITS`].
pub fn decisive_percent(ratio: f64) -> String {
    let change = (ratio - 1.0) * 100.0;
    let first = percent(ratio);
    let more = (1..=DIGITS).map(|digits| signed(change, digits));
    let mut all = [first].into_iter().chain(more);
    all.find(|text| text != "0").unwrap_or("0".into())
}

/// After the point, of the smallest change in per cent.
const DIGITS: usize = 3;

fn signed(change: f64, digits: usize) -> String {
    let text = format!("{:.digits$}", change.abs());
    match text.chars().all(|c| c == '0' || c == '.') {
        true => "0".into(),
        false if change < 0.0 => format!("−{text}"),
        false => format!("+{text}"),
    }
}

/// `4 132 [4 100..4 150]`; the interval is left out where it is the number itself.
pub fn interval(summary: Option<Summary>, write: impl Fn(f64) -> String) -> String {
    summary.map_or(NOTHING.into(), |s| range(s.low, s.median, s.high, write))
}

/// The same of three numbers.
pub fn range(low: f64, middle: f64, high: f64, write: impl Fn(f64) -> String) -> String {
    let (low, middle, high) = (write(low), write(middle), write(high));
    match low == middle && high == middle {
        true => middle,
        false => format!("{middle} {}", ends(&low, &high)),
    }
}

/// What a model predicts: `2 488 [1 995..2 981]`.
pub fn ranged(predicted: Option<Range>) -> String {
    or_nothing(predicted, |it| range(it.least, it.likely, it.most, whole))
}

/// `[4 100..4 150]`
pub fn ends(low: &str, high: &str) -> String {
    format!("[{low}..{NO_BREAK}{high}]")
}

pub fn or_nothing<T>(value: Option<T>, write: impl Fn(T) -> String) -> String {
    value.map_or(NOTHING.into(), write)
}

/// Predictions are means: no half exits.
pub fn whole(exits: f64) -> String {
    count(exits.round())
}

/// A time given in nanoseconds.
pub fn nanos(ns: u64) -> String {
    Nanos(ns).to_string()
}

/// A time given in seconds.
pub fn time(seconds: f64) -> String {
    Nanos((seconds * 1e9).round() as u64).to_string()
}

/// 1 or 0 if it is just that, else two digits.
pub fn share(share: f64) -> String {
    match share {
        0.0 | 1.0 => format!("{share}"),
        _ => format!("{share:.2}"),
    }
}

/// In millions, or of nanoseconds milliseconds.
pub fn millions(value: f64) -> String {
    decimal(value / 1e6)
}

/// `1 guest`, `2 guests`.
pub fn plural(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// `a`, `a and b`, `a, b and c`.
pub fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paratick_core::stats::Method;

    #[test]
    fn digits_stand_in_threes() {
        assert_eq!(count(10_043.0), "10\u{202f}043");
        assert_eq!(count(0.5), "0.5");
        assert_eq!(count(-1234.0), "−1\u{202f}234");
        assert_eq!((count(0.0), count(999.4)), ("0".into(), "999".into()));
        assert_eq!(count(1_234_567.0), "1\u{202f}234\u{202f}567");
        assert_eq!(decimal(4.132), "4.13");
        assert_eq!(decimal(41.26), "41.3");
    }

    #[test]
    fn an_interval_without_width_is_left_out() {
        let mut summary = Summary {
            median: 4132.0,
            low: 4100.0,
            high: 4150.2,
            samples: 6,
            method: Method::Bootstrap,
        };
        let shown = |summary| interval(summary, count).replace([NARROW_SPACE, NO_BREAK], "");
        assert_eq!(shown(Some(summary)), "4132 [4100..4150]");
        (summary.low, summary.high) = (4132.0, 4132.0);
        assert_eq!(shown(Some(summary)), "4132");
        assert_eq!(shown(None), "–");
    }

    #[test]
    fn a_change_is_signed_and_large_ones_are_factors() {
        assert_eq!(change(0.4), "−60\u{202f}%");
        assert_eq!(change(1.015), "+1.5\u{202f}%");
        assert_eq!(change(1.0), "0\u{202f}%");
        assert_eq!(change(0.004), "−99.6\u{202f}%");
        assert_eq!(change(18.2), "×18.2");
        assert_eq!(percent(1.0002), "0");
    }

    #[test]
    fn what_is_not_quite_nothing_shows_its_sign() {
        assert_eq!(decisive_percent(1.0002), "+0.02");
        assert_eq!(decisive_percent(0.999_991), "−0.001");
        assert_eq!(decisive_percent(1.000_001), "0");
        assert_eq!(decisive_percent(0.4), "−60");
    }

    #[test]
    fn lists_read_as_sentences_do() {
        let words = |n: usize| ["a", "b", "c"][..n].iter().map(|w| w.to_string());
        assert_eq!(list(&words(1).collect::<Vec<_>>()), "a");
        assert_eq!(list(&words(3).collect::<Vec<_>>()), "a, b and c");
        assert_eq!(plural(2, "guest"), "2 guests");
    }
}
