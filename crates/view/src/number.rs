// SPDX-License-Identifier: GPL-2.0-only
//! Numbers as people read them.

use paratick_core::stats::Summary;

/// What stands where nothing was measured.
pub const NOTHING: &str = "not measured";

/// Between digits, before a unit: no line breaks there.
pub const NARROW_SPACE: char = '\u{202f}';

/// Within a number and its interval: no line breaks there.
pub const SPACE: char = '\u{a0}';

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

/// `4 132 [4 100 to 4 150]`; the interval is left away where it is the number itself.
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
        false => format!("{median} [{low}{SPACE}to{SPACE}{high}]"),
    }
}

/// `1 guest`, `2 guests`.
pub fn plural(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
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

    #[test]
    fn digits_stand_in_threes() {
        assert_eq!(count(10_043.0), "10\u{202f}043");
        assert_eq!(count(0.5), "0.5");
        assert_eq!(count(-1234.0), "−1\u{202f}234");
        assert_eq!(decimal(41.26), "41.3");
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
