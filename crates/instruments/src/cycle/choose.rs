// SPDX-License-Identifier: GPL-2.0-only
//! Splitting what a vCPU went through into idle cycles, and choosing the one that stands for all.
//!
//! A cycle reaches from one halt's exit to the next.  Cycles are alike if they have the same events
//! in the same order, whatever the times: the same reasons, causes and MSRs, wakes and ticks.  Of
//! the largest group of cycles that are alike, the one of median length stands for all.

use paratick_core::cycle::{Chosen, Event, Traced, What};
use paratick_core::{
    cause::Cause,
    stats::{self, Observation},
};
use std::collections::BTreeMap;

/// None: there is not one whole cycle.
pub fn choose(events: &[Event]) -> Option<Traced> {
    let cycles = split(events);
    let mut groups: BTreeMap<Vec<String>, Vec<&[Event]>> = BTreeMap::new();
    for cycle in &cycles {
        groups.entry(signature(cycle)).or_default().push(cycle);
    }
    // Of groups of one size, the shorter sequence.
    let largest =
        groups.iter().max_by_key(|(key, group)| (group.len(), std::cmp::Reverse(key.len())));
    let mut alike = largest?.1.clone();
    alike.sort_by_key(|cycle| length(cycle));
    let chosen = alike[(alike.len() - 1) / 2];
    let observations: Vec<_> = cycles.iter().map(|cycle| observe(cycle)).collect();
    let before = events.iter().take_while(|event| !std::ptr::eq(*event, &chosen[0]));
    Some(Traced {
        writes_before: writes(before),
        writes: writes(events.iter()),
        chosen: Chosen {
            events: from_zero(chosen),
            cycles: cycles.len() as u32,
            alike: alike.len() as u32,
            exits_per_cycle: stats::summarize(&observations)?,
            exits_by_cause: means(&cycles),
        },
    })
}

fn writes<'a>(events: impl Iterator<Item = &'a Event>) -> usize {
    events.filter(|event| event.what.writes_deadline()).count()
}

fn split(events: &[Event]) -> Vec<&[Event]> {
    let halts: Vec<usize> =
        (0..events.len()).filter(|place| events[*place].what.is_halt()).collect();
    let pairs = halts.windows(2);
    pairs.map(|pair| &events[pair[0]..=pair[1]]).collect()
}

fn length(cycle: &[Event]) -> u64 {
    let at = |event: Option<&Event>| event.map_or(0, |event| event.t_ns);
    at(cycle.last()) - at(cycle.first())
}

/// The cycle's own events, without the exit that begins the next.
fn own(cycle: &[Event]) -> &[Event] {
    cycle.split_last().map_or(&[], |(_, own)| own)
}

fn signature(cycle: &[Event]) -> Vec<String> {
    let word = |event: &Event| match &event.what {
        What::Exit { reason, cause, msr, until, .. } => {
            let until = until.map(|until| (until.deadline, until.keep));
            format!("{reason} {cause} {} {until:?}", msr.as_deref().unwrap_or("-"))
        }
        What::Wake { by } => format!("wake {by}"),
        other => format!("{other:?}"),
    };
    own(cycle).iter().map(word).collect()
}

fn causes(cycle: &[Event]) -> impl Iterator<Item = Cause> + '_ {
    own(cycle).iter().filter_map(|event| event.what.cause())
}

fn observe(cycle: &[Event]) -> Observation {
    Observation { round: 1, value: causes(cycle).count() as f64 }
}

fn means(cycles: &[&[Event]]) -> BTreeMap<Cause, f64> {
    let mut means = BTreeMap::new();
    for cause in cycles.iter().flat_map(|cycle| causes(cycle)) {
        *means.entry(cause).or_insert(0.0) += 1.0;
    }
    for count in means.values_mut() {
        *count /= cycles.len() as f64;
    }
    means
}

fn from_zero(cycle: &[Event]) -> Vec<Event> {
    let begin = cycle[0].t_ns;
    let mut events: Vec<Event> = cycle
        .iter()
        .map(|event| Event { t_ns: event.t_ns - begin, what: event.what.clone() })
        .collect();
    if let Some(last) = events.last_mut() {
        last.what = What::End;
    }
    events
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use paratick_core::cycle::Waker;
    use proptest::prelude::*;

    /// A cycle of a halt, a wake by `by`, and `arms` arms, `long` ns long.
    pub fn made(begin: u64, long: u64, by: Waker, arms: usize) -> Vec<Event> {
        let exit = |cause| What::Exit {
            reason: "x".into(),
            cause,
            msr: (cause == Cause::Arm).then(|| "TSC_DEADLINE".into()),
            moved_ns: None,
            until: None,
            why: None,
        };
        let mut all = vec![exit(Cause::Halt), What::Wake { by }, What::Entry];
        for _ in 0..arms {
            all.extend([exit(Cause::Arm), What::Entry]);
        }
        let last = all.len() as u64 - 1;
        let place = |(place, what)| Event { t_ns: begin + long * place as u64 / (last + 1), what };
        (0..).zip(all).map(place).collect()
    }

    #[test]
    fn the_commonest_sequence_is_chosen_and_all_are_counted() {
        let mut events = Vec::new();
        let mut now = 0;
        for (long, by, arms) in [
            (90, Waker::Ipi, 1),
            (500, Waker::Ipi, 3),
            (70, Waker::Ipi, 1),
            (60, Waker::Timer, 1),
            (80, Waker::Ipi, 1),
            (10, Waker::Ipi, 3),
        ] {
            events.extend(made(now, long, by, arms));
            now += long;
        }
        assert_eq!(choose(&events[..3]), None);
        let traced = choose(&events).unwrap();
        // The chosen one is the fifth.
        assert_eq!((traced.writes_before, traced.writes), (6, 10));
        let chosen = traced.chosen;
        // The last halt has no end.
        assert_eq!((chosen.cycles, chosen.alike), (5, 3));
        assert_eq!(chosen.length_ns(), 80);
        assert_eq!(chosen.exits_per_cycle.median, 2.0);
        assert_eq!(chosen.exits_by_cause[&Cause::Arm], 7.0 / 5.0);
    }

    proptest! {
        #[test]
        fn times_never_run_backwards_and_exits_are_those_of_the_cycle(
            lengths in prop::collection::vec(8u64..10_000, 2..30),
        ) {
            let mut now = 0;
            let mut events = Vec::new();
            for long in lengths {
                events.extend(made(now, long, Waker::Ipi, 1));
                now += long;
            }
            let chosen = choose(&events).unwrap().chosen;
            prop_assert!(chosen.events.windows(2).all(|pair| pair[0].t_ns <= pair[1].t_ns));
            prop_assert_eq!(chosen.events[0].t_ns, 0);
            prop_assert_eq!(chosen.exits(), 2);
        }
    }
}
