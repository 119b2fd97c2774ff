// SPDX-License-Identifier: GPL-2.0-only
//! What a recording says under all rules: as a value, as text, and as JSON.

use paratick_bench::tune;
use paratick_core::halts::{
    calibrate, regret, stock_rules, verify, vms, Candidate, Halts, HostRule, Regret, Rule, Side,
    Tally, Verified, Vm,
};
use paratick_view::{table::wrap, tables::halts as tables};
use serde::Serialize;

/// What a block costs where nobody says and the recording does not tell: what KVM's own rule polls
/// for at first.
const COST: u32 = 10_000;

pub struct Judged {
    pub regret: Regret,
    /// None on a guest's side: the host's rules are none of its.
    pub vms: Vec<Vm>,
    /// The module's.
    pub now: Option<Rule>,
    cost_from: &'static str,
    recorded: Tally,
    /// Of each vCPU: whether the rule that was in force says what was traced.
    verified: Vec<Option<Verified>>,
}

/// What `--format json` prints.
#[derive(Serialize)]
pub struct Report<'a, Applied> {
    schema: &'static str,
    /// Where the cost of a block comes from: `option`, `recording` or `default`.
    cost_from: &'static str,
    recorded: &'a Tally,
    verified: &'a [Option<Verified>],
    #[serde(flatten)]
    regret: &'a Regret,
    vms: &'a [Vm],
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<&'a Applied>,
}

/// `asked` is a rule that is considered beside the usual ones.
pub fn judge(halts: &Halts, cost: Option<u32>, asked: Option<HostRule>) -> Judged {
    let wake = calibrate(halts);
    let (cost, cost_from) = match (cost, wake) {
        (Some(cost), _) => (cost, "option"),
        (None, Some(cost)) => (cost, "recording"),
        (None, None) => (COST, "default"),
    };
    // All are of one side.
    let side = halts.vcpus.first().map_or(Side::Host, |vcpu| vcpu.side);
    let now = tune::rule(halts);
    let mut rules = stock_rules(side, now, cost);
    if let Some(rule) = asked.map(Rule::Host) {
        if rules.iter().all(|one| one.rule != rule) {
            rules.push(Candidate { name: rule.to_string(), rule });
        }
    }
    let costs = (cost, wake.unwrap_or(0));
    Judged {
        regret: regret(halts, side, costs, &rules, now),
        vms: match side {
            Side::Host => vms(halts, side, costs, &rules),
            Side::Guest => Vec::new(),
        },
        now,
        cost_from,
        recorded: Tally::of_all(halts),
        verified: halts.vcpus.iter().map(|vcpu| verify(vcpu).ok()).collect(),
    }
}

impl Judged {
    /// `applied`: what came of a rule that was to be set.
    pub fn report<'a, Applied>(&'a self, applied: Option<&'a Applied>) -> Report<'a, Applied> {
        Report {
            schema: "paratick-tune-halt-poll/1",
            cost_from: self.cost_from,
            recorded: &self.recorded,
            verified: &self.verified,
            regret: &self.regret,
            vms: &self.vms,
            applied,
        }
    }

    pub fn text(&self, halts: &Halts) -> String {
        let cost = match self.cost_from {
            "option" => "The cost of a block is the one given.",
            "recording" => {
                "The cost of a block is how long it took to wake up from one, in half of them at \
                 most; give another one with --cost."
            }
            _ => "Too few halts blocked to tell the cost of a block; give it with --cost.",
        };
        let mut text = format!(
            "{}\n{}\n{}\n",
            tables::wakers(halts).text(),
            tables::limits(halts).text(),
            tables::regret(&self.regret).text(),
        );
        if !self.vms.is_empty() {
            let cost = self.regret.cost_ns;
            text += &format!("{}\n", tables::vms(&self.vms, cost).text());
        }
        if self.vms.len() > 1 {
            text += &format!("{}\n", tables::outcomes(&self.vms, &self.regret).text());
        }
        text += &wrap(cost);
        text += &wrap(&self.replayed());
        if let Some(advice) = &self.regret.advice {
            text += &wrap(&format!("Best: {}: {}.", advice.name, advice.reason));
        }
        text
    }

    /// Whether the rule in force, replayed, says what was traced.
    fn replayed(&self) -> String {
        let known: Vec<&Verified> = self.verified.iter().flatten().collect();
        let sum = |of: &dyn Fn(&Verified) -> u64| known.iter().map(|one| of(one)).sum::<u64>();
        let (compared, changes) = (sum(&|one| one.compared), sum(&|one| one.changes));
        if compared == 0 {
            return "The rule in force could not be replayed: it is not known, \
                    or not what it learned before."
                .into();
        }
        let unknown = sum(&|one| one.unknown);
        match known.iter().find_map(|one| one.difference.as_ref()) {
            Some(difference) => {
                format!("The rule in force, replayed, differs from the trace: {difference}")
            }
            None => format!(
                "The rule in force, replayed, is as traced: {compared} halts, {changes} changes of \
                 the limit ({unknown} halts before the first known limit)."
            ),
        }
    }
}
