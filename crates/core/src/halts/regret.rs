// SPDX-License-Identifier: GPL-2.0-only
//! What rules would have cost on recorded halts, held against who knows the future and against the
//! best window that never changes.

use super::{
    coupled::coupled,
    maximum::Maximum,
    policy::Policy,
    recording::{Halt, Halts, Side, VcpuHalts},
    replay::{replay, until_event},
    rule::{Floor, GuestRule, HostRule, LearnedRule, Rule},
    tally::Tally,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// All rules on one recording, if blocking and waking up costs `cost_ns`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Regret {
    pub cost_ns: u32,
    pub halts: u64,
    /// Knows how long a halt will be, and polls if that is cheaper: nothing can cost less.
    pub clairvoyant: Cost,
    /// The cheapest window that never changes, of all lengths that were seen.
    pub best_fixed_ns: u64,
    pub best_fixed: Cost,
    /// In the order in which they were asked for.
    pub rows: Vec<Row>,
    /// None if nothing halted.
    pub advice: Option<Advice>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    pub ns: u64,
    pub blocks: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub name: String,
    pub rule: Rule,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub name: String,
    pub rule: Rule,
    /// Parameters of a stock kernel are enough for it.
    pub stock: bool,
    pub cost: Cost,
    /// As multiples; none where the other is 0.
    pub of_clairvoyant: Option<f64>,
    pub of_best_fixed: Option<f64>,
    /// If what ended a halt comes when it came.
    pub tally: Tally,
    /// If a vCPU that wakes up sooner sends its IPIs sooner ([`coupled`]); switches are as many for
    /// each block as were recorded.
    pub expected: Tally,
    /// Its cost in ns.
    pub expected_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// A row's name.
    pub name: String,
    pub rule: Rule,
    pub reason: String,
}

/// A rule has to be cheaper by this part of the present one's cost to be worth a change.
pub(super) const WORTH: f64 = 0.05;

/// The rules that stock kernels and the series have, for a side; `now` is the one in force.
pub fn stock_rules(side: Side, now: Option<Rule>, cost: u32) -> Vec<Candidate> {
    let named = |name: &str, rule| Candidate { name: name.into(), rule };
    let mut rules: Vec<Candidate> = match side {
        Side::Host => {
            HostRule::PRESETS.iter().map(|(name, rule)| named(name, Rule::Host(*rule))).collect()
        }
        Side::Guest => {
            let presets = GuestRule::PRESETS.iter();
            let never = named("none", Rule::Guest(GuestRule { max: 0, ..GuestRule::DEFAULT }));
            let presets = presets.map(|(name, rule)| named(name, Rule::Guest(*rule)));
            std::iter::once(never).chain(presets).collect()
        }
    };
    let max = match side {
        Side::Host => HostRule::DEFAULT.max,
        Side::Guest => GuestRule::DEFAULT.max,
    };
    rules.push(named("learned", Rule::Learned(LearnedRule { max, cost })));
    if let Some(rule) = now.filter(|now| rules.iter().all(|one| one.rule != *now)) {
        let name = match rule {
            // Not what it learns with the cost that is asked about.
            Rule::Learned(_) => "learned (in force)".to_string(),
            rule => rule.to_string(),
        };
        rules.insert(0, Candidate { name, rule });
    }
    rules
}

/// A VM with its own maximum has that under each rule; one of which it is not known how much that
/// is is left out, and so are halts in which the rule is not even asked.  `now` is the rule in
/// force, and `wake` how much longer a halt is that is blocked for, in ns.
pub fn regret(
    recording: &Halts,
    side: Side,
    (cost, wake): (u32, u32),
    candidates: &[Candidate],
    now: Option<Rule>,
) -> Regret {
    let can_be_asked = |vcpu: &&VcpuHalts| vcpu.side == side && vcpu.maximum.is_exact();
    let of_side = || recording.vcpus.iter().filter(can_be_asked);
    let asked = |halts: &[Halt]| halts.iter().filter(|halt| halt.allowed).cloned().collect();
    let vcpus: Vec<(Maximum, Vec<Halt>)> =
        of_side().map(|vcpu| (vcpu.maximum, asked(&vcpu.halts))).collect();
    let mut recorded = Tally::default();
    let mut vms: BTreeMap<Option<u32>, Vec<&VcpuHalts>> = BTreeMap::new();
    for vcpu in of_side() {
        recorded.merge(&Tally::of(vcpu));
        vms.entry(vcpu.process).or_default().push(vcpu);
    }
    let mut lengths: Vec<u64> =
        vcpus.iter().flat_map(|(_, halts)| halts).map(|halt| until_event(halt, wake)).collect();
    lengths.sort_unstable();
    let clairvoyant = clairvoyant(&lengths, cost);
    let (best_fixed_ns, best_fixed) = best_fixed(&lengths, cost);
    let rows: Vec<Row> = candidates
        .iter()
        .map(|candidate| {
            let mut tally = Tally::default();
            let under = |maximum: Maximum| maximum.of(candidate.rule).unwrap_or(candidate.rule);
            for (maximum, halts) in &vcpus {
                tally.merge(&replay(halts, Policy::new(under(*maximum)), wake).1);
            }
            let mut expected = Tally::default();
            for vm in vms.values() {
                expected.merge(&coupled(vm, under(vm[0].maximum), wake));
            }
            expected.switches = switches(expected.blocks, &recorded);
            let total = Cost { ns: tally.cost_ns(cost), blocks: tally.blocks };
            Row {
                name: candidate.name.clone(),
                rule: candidate.rule,
                stock: is_stock(candidate.rule),
                cost: total,
                of_clairvoyant: multiple(total, clairvoyant),
                of_best_fixed: multiple(total, best_fixed),
                tally,
                expected_ns: expected.cost_ns(cost),
                expected,
            }
        })
        .collect();
    let halts = lengths.len() as u64;
    let advice = if halts > 0 { advise(&rows, now) } else { None };
    Regret { cost_ns: cost, halts, clairvoyant, best_fixed_ns, best_fixed, rows, advice }
}

/// One for each block, where none was recorded.
fn switches(blocks: u64, recorded: &Tally) -> u64 {
    match recorded.blocks {
        0 => blocks,
        of => (blocks as f64 * recorded.switches as f64 / of as f64).round() as u64,
    }
}

fn multiple(cost: Cost, of: Cost) -> Option<f64> {
    (of.ns > 0).then(|| cost.ns as f64 / of.ns as f64)
}

fn is_stock(rule: Rule) -> bool {
    match rule {
        Rule::Host(rule) => rule.floor == Floor::ToZero,
        Rule::Guest(_) => true,
        Rule::Learned(_) => false,
        Rule::Fixed(ns) => ns == 0,
    }
}

fn clairvoyant(lengths: &[u64], cost: u32) -> Cost {
    let mut total = Cost::default();
    for ns in lengths {
        let blocks = *ns > u64::from(cost);
        total.blocks += u64::from(blocks);
        total.ns = total.ns.saturating_add(if blocks { cost.into() } else { *ns });
    }
    total
}

/// Exact, as a window between two lengths costs more than the lower of them: each miss polls for
/// longer, and nothing more is hit.  `lengths` are sorted.
fn best_fixed(lengths: &[u64], cost: u32) -> (u64, Cost) {
    let all = lengths.len() as u64;
    let mut best = (0, Cost { ns: all.saturating_mul(cost.into()), blocks: all });
    let mut polled = 0u64;
    for (before, ns) in (1..).zip(lengths) {
        polled = polled.saturating_add(*ns);
        let blocks = all - before;
        // A window is 32 bits, and 0 is none: to see halts of no length takes one of 1.
        let window = *ns.max(&1);
        let miss = window.saturating_add(cost.into());
        let total = polled.saturating_add(blocks.saturating_mul(miss));
        if total < best.1.ns && window <= u64::from(u32::MAX) {
            best = (window, Cost { ns: total, blocks });
        }
    }
    best
}

/// The rule that needs no patch and is expected to be the cheapest, unless the present one is about
/// as cheap.
fn advise(rows: &[Row], now: Option<Rule>) -> Option<Advice> {
    let present = rows.iter().find(|row| Some(row.rule) == now);
    let best = rows.iter().filter(|row| row.stock).min_by_key(|row| row.expected_ns)?;
    let give =
        |row: &Row, reason: String| Some(Advice { name: row.name.clone(), rule: row.rule, reason });
    let Some(present) = present else {
        return give(best, "of the rules that need no patch it costs least".into());
    };
    let saved = 1.0 - best.expected_ns as f64 / present.expected_ns.max(1) as f64;
    if saved < WORTH {
        let part = saved.max(0.0) * 100.0;
        return give(present, format!("no rule that needs no patch saves more than {part:.1} %"));
    }
    let blocks = match best.expected.blocks as i128 - i128::from(present.expected.blocks) {
        0 => "as many blocks".to_string(),
        more @ 1.. => format!("{more} blocks more"),
        fewer => format!("{} blocks fewer", -fewer),
    };
    let polled = |row: &Row| row.expected.polled_share().unwrap_or(0.0) * 100.0;
    let reason = format!(
        "it costs {:.0} % less than {}: {blocks}, and {:.1} % of the halted time polled instead of \
         {:.1} %",
        saved * 100.0,
        present.name,
        polled(best),
        polled(present),
    );
    give(best, reason)
}

#[cfg(test)]
#[path = "regret_tests.rs"]
mod tests;
