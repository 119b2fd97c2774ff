// SPDX-License-Identifier: GPL-2.0-only
//! What all activations have in common.

use super::split::{Parts, Split};
use crate::{cause::Cause, stats::at_most};
use serde::Serialize;
use std::collections::BTreeMap;

/// In ns; none of no activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Spread {
    pub median_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    pub sum_ns: u64,
}

impl Spread {
    fn of(all: impl IntoIterator<Item = u64>) -> Option<Spread> {
        let mut all: Vec<u64> = all.into_iter().collect();
        all.sort_unstable();
        let [median_ns, p99_ns, max_ns] = [50, 99, 100].map(|percent| at_most(&all, percent));
        let (median_ns, p99_ns, max_ns) = (median_ns?, p99_ns?, max_ns?);
        Some(Spread { median_ns, p99_ns, max_ns, sum_ns: all.iter().sum() })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub activations: usize,
    /// The sampler's own two numbers.
    pub irq: Option<Spread>,
    pub thread: Option<Spread>,
    /// By [`Parts::NAMES`].
    pub parts: Vec<(&'static str, Option<Spread>)>,
    /// How many expired in which interrupt of the guest's.
    pub via: BTreeMap<String, usize>,
    /// For how many a timer of KVM's expired.
    pub host_timers: usize,
    pub doubtful: usize,
}

pub fn summary(splits: &[Split]) -> Summary {
    let spread = |of: &dyn Fn(&Split) -> u64| Spread::of(splits.iter().map(of));
    let part = |(at, name)| (name, spread(&|split| split.parts.all()[at]));
    let mut via = BTreeMap::new();
    for split in splits {
        *via.entry(split.via.to_string()).or_default() += 1;
    }
    Summary {
        activations: splits.len(),
        irq: spread(&|split| split.irq_ns),
        thread: spread(&|split| split.thread_ns),
        parts: Parts::NAMES.into_iter().enumerate().map(part).collect(),
        via,
        host_timers: splits.iter().filter(|split| split.host_timer).count(),
        doubtful: splits.iter().filter(|split| split.doubtful).count(),
    }
}

/// The exits after the interrupt was on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ByCause {
    pub cause: Cause,
    pub reason: String,
    pub count: u64,
    pub total_ns: u64,
    pub longest_ns: u64,
}

/// The costliest first.
pub fn exits_by_cause(splits: &[Split]) -> Vec<ByCause> {
    let mut causes: BTreeMap<(Cause, &str), ByCause> = BTreeMap::new();
    for exit in splits.iter().flat_map(|split| &split.exits) {
        let (cause, reason) = (exit.cause, exit.reason.clone());
        let fresh = ByCause { cause, reason, count: 0, total_ns: 0, longest_ns: 0 };
        let one = causes.entry((exit.cause, &exit.reason)).or_insert(fresh);
        one.count += 1;
        one.total_ns += exit.ns;
        one.longest_ns = one.longest_ns.max(exit.ns);
    }
    let mut causes: Vec<ByCause> = causes.into_values().collect();
    causes.sort_by_key(|one| std::cmp::Reverse(one.total_ns));
    causes
}
