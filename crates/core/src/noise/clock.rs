// SPDX-License-Identifier: GPL-2.0-only
//! The clocks of a guest and its host, joined by the TSC that both read.

use serde::{Deserialize, Serialize};

/// Both clocks of a system, read at the same moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instant {
    pub tsc: u64,
    /// CLOCK_MONOTONIC.
    pub ns: u64,
}

/// A system's CLOCK_MONOTONIC in terms of its TSC, at the beginning and the end of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    pub begin: Instant,
    pub end: Instant,
}

impl Clock {
    /// Whether it can be reckoned with: less than a century since its beginning.
    pub fn is_sound(&self) -> bool {
        [self.begin, self.end].iter().all(|one| one.ns < 1 << 61)
    }

    /// Ticks of the TSC in a nanosecond; none where no time has passed.
    fn rate(&self) -> Option<f64> {
        let ticks = self.end.tsc.checked_sub(self.begin.tsc)? as f64;
        let ns = self.end.ns.checked_sub(self.begin.ns)? as f64;
        (ticks > 0.0 && ns > 0.0).then(|| ticks / ns)
    }

    /// This CLOCK_MONOTONIC when the TSC reads `tsc`.  None where a clock stands still, or before
    /// both began.
    pub fn at(&self, tsc: u64) -> Option<u64> {
        let ticks = tsc.wrapping_sub(self.begin.tsc) as i64;
        let ns = (ticks as f64 / self.rate()?).round() as i64;
        self.begin.ns.checked_add_signed(ns)
    }

    /// How far `other`'s CLOCK_MONOTONIC is ahead of this one, in ns, at the time that is `ns`
    /// here.  `other`'s TSC is this one's less `tsc_offset`: a guest's is its host's plus the
    /// offset that KVM tells.  None where a clock stands still.
    pub fn ahead(&self, other: &Clock, tsc_offset: i64, ns: u64) -> Option<i64> {
        // Distances from the beginnings are small enough for floating point; the TSCs may not be.
        let since = ns as i64 - self.begin.ns as i64;
        let ticks = since as f64 * self.rate()?;
        let between = self.begin.tsc.wrapping_sub(other.begin.tsc).wrapping_sub(tsc_offset as u64);
        let ticks = ticks + (between as i64) as f64;
        let there = other.begin.ns as i64 + (ticks / other.rate()?).round() as i64;
        Some(there - ns as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A system whose clock began `begin` ns after a TSC of `khz` had read `tsc`.
    fn clock(tsc: u64, ns: u64, seconds: u64) -> Clock {
        let begin = Instant { tsc, ns };
        let ticks = seconds * 2_500_000_000;
        let end = Instant { tsc: tsc.wrapping_add(ticks), ns: ns + seconds * 1_000_000_000 };
        Clock { begin, end }
    }

    proptest! {
        /// A guest that booted some time after its host, whose TSC began anew.
        #[test]
        fn a_guest_s_time_is_found_on_its_host(
            booted in 1_000_000_000u64..100_000_000_000,
            begun in 0u64..10_000_000_000,
            at in 0u64..20_000_000_000,
        ) {
            let ticks = |ns: u64| ns / 2 * 5;
            let host = clock(ticks(booted), booted, 7);
            // Recorded from a later moment on, for another time.
            let guest = clock(ticks(begun), begun, 3);
            let offset = -(ticks(booted) as i64);
            let ahead = guest.ahead(&host, offset, begun + at).unwrap();
            prop_assert!((ahead - booted as i64).abs() <= 2, "{}", ahead);
        }
    }

    #[test]
    fn a_clock_that_stands_still_joins_nothing() {
        let good = clock(5, 5, 1);
        let still = Clock { begin: good.begin, end: good.begin };
        assert_eq!(still.ahead(&good, 0, 7), None);
        assert_eq!(good.ahead(&still, 0, 7), None);
        assert_eq!(good.ahead(&good, 0, 700), Some(0));
    }
}
