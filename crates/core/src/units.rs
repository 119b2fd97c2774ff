// SPDX-License-Identifier: GPL-2.0-only
//! Units as types, so that no bare number travels without one.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A rate of ticks or events per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(inline))]
#[serde(transparent)]
pub struct Hz(pub u32);

impl Nanos {
    pub const SECOND: Nanos = Nanos(1_000_000_000);

    pub fn seconds(self) -> f64 {
        self.0 as f64 / Self::SECOND.0 as f64
    }

    /// From the clock ticks of `/proc/stat`, of which there are `per_second`.
    pub fn from_clock_ticks(ticks: u64, per_second: Hz) -> Nanos {
        Nanos(ticks.saturating_mul(Self::SECOND.0 / u64::from(per_second.0.max(1))))
    }
}

impl Hz {
    pub fn period(self) -> Option<Nanos> {
        Nanos::SECOND.0.checked_div(self.0.into()).map(Nanos)
    }
}

impl std::ops::Add for Nanos {
    type Output = Nanos;

    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Nanos {
    /// Three or more significant digits in the largest unit that leaves a whole part.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (divisor, unit) = match self.0 {
            0..=999 => return write!(f, "{} ns", self.0),
            1_000..=999_999 => (1e3, "µs"),
            1_000_000..=999_999_999 => (1e6, "ms"),
            _ => (1e9, "s"),
        };
        let value = self.0 as f64 / divisor;
        let digits = match value {
            v if v < 10.0 => 2,
            v if v < 100.0 => 1,
            _ => 0,
        };
        write!(f, "{value:.digits$} {unit}")
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "'{0}' is not a time\n\
    hint: write a number with ns, us, ms, s, m or h, such as 100us, 1.5ms, 10s or 5m"
)]
pub struct BadTime(pub String);

impl FromStr for Nanos {
    type Err = BadTime;

    /// `100us`, `1.5ms`, `10 s`, `5m`; without a unit, seconds.  The result is a whole number of
    /// nanoseconds.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const MINUTE: f64 = 60e9;
        const UNITS: [(&str, f64); 8] = [
            ("ns", 1.0),
            ("us", 1e3),
            ("µs", 1e3),
            ("ms", 1e6),
            ("min", MINUTE),
            ("s", 1e9),
            ("m", MINUTE),
            ("h", 60.0 * MINUTE),
        ];
        let bad = || BadTime(text.to_string());
        let (number, unit) = UNITS
            .iter()
            .find_map(|(name, unit)| Some((text.trim().strip_suffix(name)?.trim_end(), unit)))
            .unwrap_or((text.trim(), &1e9));
        // Not what else floating point reads: "inf", "nan", "1e3", "-1".
        if !number.chars().all(|c| c.is_ascii_digit() || c == '.') {
            return Err(bad());
        }
        let nanos = number.parse::<f64>().map_err(|_| bad())? * unit;
        match nanos.round() {
            whole if whole < u64::MAX as f64 && (nanos == 0.0 || whole > 0.0) => {
                Ok(Nanos(whole as u64))
            }
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Hz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Hz", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_the_unit_that_fits() {
        assert_eq!(Nanos(999).to_string(), "999 ns");
        assert_eq!(Nanos(1_500).to_string(), "1.50 µs");
        assert_eq!(Nanos(41_250_000).to_string(), "41.2 ms");
        assert_eq!(Nanos(205_000_000).to_string(), "205 ms");
        assert_eq!(Nanos(5_000_000_000).to_string(), "5.00 s");
    }

    #[test]
    fn times_are_read_with_their_unit() {
        for (text, nanos) in [
            ("999ns", 999),
            ("100us", 100_000),
            ("100 µs", 100_000),
            ("1.5ms", 1_500_000),
            ("10s", 10_000_000_000),
            ("2min", 120_000_000_000),
            ("2m", 120_000_000_000),
            ("5", 5_000_000_000),
            ("1h", 3_600_000_000_000),
            ("0s", 0),
        ] {
            assert_eq!(text.parse(), Ok(Nanos(nanos)), "{text}");
        }
        for text in
            ["", "m", "ms", "-1ms", "1e3s", "infs", "1.2.3s", "4 d", "0.1ns", "99999999999s"]
        {
            assert_eq!(text.parse::<Nanos>(), Err(BadTime(text.into())));
        }
    }

    #[test]
    fn a_rate_has_a_period_unless_it_is_zero() {
        assert_eq!(Hz(250).period(), Some(Nanos(4_000_000)));
        assert_eq!(Hz(0).period(), None);
    }

    #[test]
    fn clock_ticks_are_hundredths_of_a_second_on_linux() {
        assert_eq!(Nanos::from_clock_ticks(7, Hz(100)), Nanos(70_000_000));
    }
}
