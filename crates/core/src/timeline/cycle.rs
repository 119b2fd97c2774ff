// SPDX-License-Identifier: GPL-2.0-only
//! Splitting what a vCPU went through into idle cycles, and choosing the one that stands for all.
//!
//! A cycle reaches from one halt's exit to the next.  Cycles are alike if they have the same events
//! in the same order, whatever the times: the same reasons, causes and MSRs, wakes and ticks.  Of
//! the largest group of cycles that are alike, the one of median length stands for all.

use super::{Chosen, Event, What};
use crate::{
    cause::Cause,
    stats::{self, Observation},
};
use std::collections::BTreeMap;

/// None: there is not one whole cycle.
pub fn choose(events: &[Event]) -> Option<Chosen> {
    let cycles = split(events);
    let mut groups: BTreeMap<Vec<String>, Vec<&[Event]>> = BTreeMap::new();
    for cycle in &cycles {
        groups.entry(signature(cycle)).or_default().push(cycle);
    }
    // Of groups of one size, the shorter sequence.
    let largest = groups
        .iter()
        .max_by_key(|(key, group)| (group.len(), std::cmp::Reverse(key.len())));
    let mut alike = largest?.1.clone();
    alike.sort_by_key(|cycle| length(cycle));
    let chosen = alike[(alike.len() - 1) / 2];
    let observations: Vec<_> = cycles.iter().map(|cycle| observe(cycle)).collect();
    Some(Chosen {
        events: from_zero(chosen),
        cycles: cycles.len() as u32,
        alike: alike.len() as u32,
        exits_per_cycle: stats::summarize(&observations)?,
        exits_by_cause: means(&cycles),
    })
}

/// Each with the halt's exit that ends it.
fn split(events: &[Event]) -> Vec<&[Event]> {
    let halts: Vec<usize> = (0..events.len())
        .filter(|place| events[*place].what.is_halt())
        .collect();
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
        What::Exit {
            reason, cause, msr, ..
        } => format!("{reason} {cause} {}", msr.as_deref().unwrap_or("-")),
        What::Wake { by } => format!("wake {by}"),
        other => format!("{other:?}"),
    };
    own(cycle).iter().map(word).collect()
}

fn causes(cycle: &[Event]) -> impl Iterator<Item = Cause> + '_ {
    own(cycle).iter().filter_map(|event| event.what.cause())
}

fn observe(cycle: &&[Event]) -> Observation {
    Observation {
        round: 1,
        value: causes(cycle).count() as f64,
    }
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
        .map(|event| Event {
            t_ns: event.t_ns - begin,
            what: event.what.clone(),
        })
        .collect();
    if let Some(last) = events.last_mut() {
        last.what = What::End;
    }
    events
}
