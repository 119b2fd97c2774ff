// SPDX-License-Identifier: GPL-2.0-only
//! How late timers are, by what they allow.

use super::recording::{Class, GuestWakeups, Late, What};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How late timers of a class were, of those whose start was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Lateness {
    /// How often one expired.
    pub expiries: u64,
    /// Before the time that was asked for.
    pub early: u64,
    /// How late: the median.
    pub median_ns: u64,
    /// And the latest.
    pub most_ns: u64,
    /// By how much one was later than it may be, at most.
    ///
    /// `null`: a class may be late by anything, or the kernel does not tell.
    pub beyond_ns: Option<u64>,
}

/// Of all guests together, in the windows of their recordings, with the tick's own.
pub fn lateness<'a>(
    guests: impl IntoIterator<Item = &'a GuestWakeups>,
) -> BTreeMap<Class, Lateness> {
    let mut all: BTreeMap<Class, Vec<Late>> = BTreeMap::new();
    for guest in guests {
        let window = guest.begin_ns..guest.end_ns;
        for event in guest.events.iter().filter(|event| window.contains(&event.at_ns)) {
            if let What::Expiry { timer, late: Some(late), .. } = &event.what {
                all.entry(timer.class).or_default().push(*late);
            }
        }
    }
    all.into_iter().map(|(class, late)| (class, of(&late))).collect()
}

fn of(all: &[Late]) -> Lateness {
    let mut late: Vec<u64> = all.iter().map(|one| one.ns.max(0) as u64).collect();
    late.sort_unstable();
    let beyond = all.iter().filter_map(|one| {
        let allowed = one.allowed_ns?;
        Some((one.ns.max(0) as u64).saturating_sub(allowed))
    });
    Lateness {
        expiries: all.len() as u64,
        early: all.iter().filter(|one| one.ns < 0).count() as u64,
        median_ns: late.get(late.len() / 2).copied().unwrap_or(0),
        most_ns: late.last().copied().unwrap_or(0),
        beyond_ns: beyond.max(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn late_is_what_comes_after_and_beyond_is_what_is_not_allowed() {
        let late = |ns, allowed_ns| Late { ns, allowed_ns };
        let found = of(&[late(-1, Some(5)), late(7, Some(5)), late(90, None), late(4, Some(5))]);
        let expected =
            Lateness { expiries: 4, early: 1, median_ns: 7, most_ns: 90, beyond_ns: Some(2) };
        assert_eq!(found, expected);
        assert_eq!(of(&[late(3, None)]).beyond_ns, None);
    }

    proptest! {
        #[test]
        fn nothing_is_later_than_the_latest(
            all in prop::collection::vec((-9i64..99, prop::option::of(0u64..99)), 1..20),
        ) {
            let all = all.iter().map(|(ns, allowed_ns)| Late { ns: *ns, allowed_ns: *allowed_ns });
            let found = of(&all.collect::<Vec<_>>());
            prop_assert!(found.median_ns <= found.most_ns);
            prop_assert!(found.beyond_ns.is_none_or(|beyond| beyond <= found.most_ns));
        }
    }
}
