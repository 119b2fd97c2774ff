// SPDX-License-Identifier: GPL-2.0-only
//! Each VM of a host by itself: which rule would be the best for it, and which of the rules that
//! the host could have it would win or lose by.

use super::{
    maximum::Maximum,
    recording::{Halts, Side, VcpuHalts},
    regret::{regret, Advice, Candidate, Regret, WORTH},
    rule::Rule,
    tally::Tally,
};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Vm {
    /// None: it was not recorded.
    pub process: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub vcpus: usize,
    pub maximum: Maximum,
    pub recorded: Tally,
    /// What its halts are expected to cost under the rule in force; none where that is not known.
    pub now_ns: Option<u64>,
    /// The best rule that needs no patch, if this VM had it to itself with a maximum to match.
    pub best: Option<Advice>,
    pub best_ns: Option<u64>,
    /// Under each rule of the module that is considered, in their order.
    pub rules: Vec<Under>,
}

/// A VM under a rule of the module, with its own maximum where it has one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Under {
    pub name: String,
    pub outcome: Outcome,
    /// None where it is not known.
    pub expected_ns: Option<u64>,
    #[serde(skip)]
    pub expected: Option<Tally>,
}

/// Held against the rule in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Wins,
    Loses,
    Same,
    NotKnown,
}

/// A difference below this part of the recorded time is none.
const TRIFLE: f64 = 0.001;

impl Outcome {
    pub fn new(now_ns: Option<u64>, then_ns: Option<u64>, window_ns: u64) -> Outcome {
        let (Some(now), Some(then)) = (now_ns, then_ns) else { return Outcome::NotKnown };
        let least = (now as f64 * WORTH).max(window_ns as f64 * TRIFLE);
        match then as f64 - now as f64 {
            more if more > least => Outcome::Loses,
            more if -more > least => Outcome::Wins,
            _ => Outcome::Same,
        }
    }
}

impl Vm {
    /// Which part of its cost the best rule would save.
    pub fn saving(&self) -> Option<f64> {
        let (now, best) = (self.now_ns?, self.best_ns?);
        (now > 0).then(|| 1.0 - best as f64 / now as f64)
    }

    pub fn under(&self, rule: &str) -> Option<&Under> {
        self.rules.iter().find(|under| under.name == rule)
    }
}

/// The VMs of a recording, by their processes; costs as for [`regret`].
pub fn vms(recording: &Halts, side: Side, costs: (u32, u32), candidates: &[Candidate]) -> Vec<Vm> {
    let mut vms: BTreeMap<Option<u32>, Vec<VcpuHalts>> = BTreeMap::new();
    for vcpu in recording.vcpus.iter().filter(|vcpu| vcpu.side == side) {
        vms.entry(vcpu.process).or_default().push(vcpu.clone());
    }
    let window_ns = recording.window_ns;
    let of = |vcpus| Halts { window_ns, vcpus, names: recording.names.clone() };
    vms.into_values().map(|vcpus| vm(of(vcpus), side, costs, candidates)).collect()
}

/// `halts` are of one VM.
fn vm(mut halts: Halts, side: Side, costs: (u32, u32), candidates: &[Candidate]) -> Vm {
    let first = &halts.vcpus[0];
    let (process, maximum, now) = (first.process, first.maximum, first.rule);
    let in_force = first.in_force();
    let recorded = Tally::of_all(&halts);
    let module = regret(&halts, side, costs, candidates, now);
    let now_ns = in_force.and(now).and_then(|now| cost(&module, now));
    let under = |candidate: &Candidate| {
        let row = module.rows.iter().find(|row| row.name == candidate.name);
        let expected = row.filter(|_| maximum.is_exact()).map(|row| row.expected.clone());
        let expected_ns = expected.as_ref().map(|expected| expected.cost_ns(costs.0));
        let outcome = Outcome::new(now_ns, expected_ns, halts.window_ns);
        Under { name: candidate.name.clone(), outcome, expected_ns, expected }
    };
    let rules = candidates.iter().map(under).collect();
    let alone = match maximum.is_own() {
        false => module,
        true => {
            halts.vcpus.iter_mut().for_each(|vcpu| vcpu.maximum = Maximum::Unknown);
            regret(&halts, side, costs, &with(candidates, in_force), in_force)
        }
    };
    let best_ns = alone.advice.as_ref().and_then(|best| cost(&alone, best.rule));
    let vcpus = halts.vcpus.len();
    let name = process.and_then(|process| halts.names.get(&process).cloned());
    let best = alone.advice;
    Vm { process, name, vcpus, maximum, recorded, now_ns, best, best_ns, rules }
}

fn cost(regret: &Regret, rule: Rule) -> Option<u64> {
    Some(regret.rows.iter().find(|row| row.rule == rule)?.expected_ns)
}

/// The rules, and the one in force if it is none of them.
fn with(candidates: &[Candidate], in_force: Option<Rule>) -> Vec<Candidate> {
    let mut all = candidates.to_vec();
    let missing = in_force.filter(|rule| all.iter().all(|one| one.rule != *rule));
    all.extend(missing.map(|rule| Candidate { name: rule.to_string(), rule }));
    all
}

#[cfg(test)]
#[path = "vms_tests.rs"]
mod tests;
