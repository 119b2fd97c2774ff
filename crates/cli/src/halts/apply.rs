// SPDX-License-Identifier: GPL-2.0-only
//! `paratick halts --apply`: sets a rule for all VMs, if none loses by it.

use super::judge::Judged;
use crate::{errors::usage, print::errln};
use anyhow::{bail, Context, Result};
use paratick_bench::tune;
use paratick_core::{
    halts::{Compared, Halts, HostRule, Outcome, Row, Rule, Tally, Verdict, Vm},
    units::Nanos,
};
use paratick_machine::host::Host;
use serde::Serialize;
use std::process::ExitCode;

pub struct Wanted {
    /// None: the best one.
    pub rule: Option<HostRule>,
    /// Even if a VM loses by it.
    pub all: bool,
}

/// What came of it, for `--format json`.
#[derive(Serialize)]
pub struct Applied {
    rule: String,
    outcome: What,
    /// Of each halt, of all VMs; none where nothing was set.
    verdict: Option<Verdict>,
    /// The same of each VM.
    vms: Vec<OfVm>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    Applied,
    /// A prediction did not come true.
    SetBack,
    /// Some VM would lose, or nothing would change.
    Refused,
    /// It was in force.
    Nothing,
}

#[derive(Serialize)]
struct OfVm {
    process: Option<u32>,
    lost: bool,
    #[serde(flatten)]
    verdict: Verdict,
}

impl Applied {
    fn without(row: &str, outcome: What) -> Applied {
        Applied { rule: row.into(), outcome, verdict: None, vms: Vec::new() }
    }

    pub fn code(&self) -> ExitCode {
        match self.outcome {
            What::Applied | What::Nothing => ExitCode::SUCCESS,
            What::SetBack | What::Refused => ExitCode::FAILURE,
        }
    }
}

/// Sets a rule, or the best one that stock kernels have, records again, and sets it back where that
/// was wrong.
pub fn apply(
    host: &Host,
    record: &dyn Fn() -> Result<Halts>,
    before: &Judged,
    asked: &Wanted,
) -> Result<Applied> {
    if asked.all && before.vms.len() == 1 {
        return Err(usage("--all has no effect: one VM was recorded\nhint: omit --all"));
    }
    let advice = before.regret.advice.as_ref().context(
        "no rule can be judged: no VM halted whose maximum is known\n\
         hint: record for a longer time",
    )?;
    let wanted = asked.rule.map_or(advice.rule, Rule::Host);
    let row = before.regret.rows.iter().find(|row| row.rule == wanted).context("no such rule")?;
    if let Some(Rule::Learned(_)) = before.now {
        bail!(
            "KVM's other parameters have no effect while it learns for how long to poll\n\
             hint: echo N > /sys/module/kvm/parameters/halt_poll_learn, or --halt-poll default"
        );
    }
    let (Rule::Host(rule), Some(Rule::Host(now))) = (wanted, before.now) else {
        bail!("the rule in force is not known\nhint: change no parameter while it is recorded");
    };
    if rule == now {
        let best = if wanted == advice.rule { "the best" } else { "that already" };
        errln!("applied: nothing; the rule in force is {best}");
        return Ok(Applied::without(&row.name, What::Nothing));
    }
    if let Some(refusal) = refusal(before, row, asked.all) {
        errln!("{refusal}");
        return Ok(Applied::without(&row.name, What::Refused));
    }
    tune::set(host, &rule)?;
    match record().and_then(|after| Checked::new(before, row, &after)) {
        Ok(checked) if checked.came_true(asked.all) => {
            errln!("applied: {} ({rule})\n{}", row.name, checked.text());
            Ok(checked.applied(&row.name, What::Applied))
        }
        Ok(checked) => {
            tune::set(host, &now)?;
            errln!("not applied: {} ({rule}); set back to {now}\n{}", row.name, checked.text());
            Ok(checked.applied(&row.name, What::SetBack))
        }
        Err(error) => {
            tune::set(host, &now)?;
            Err(error.context("recording again; the host is set back"))
        }
    }
}

/// Why the rule of a row is not set.
fn refusal(judged: &Judged, row: &Row, all: bool) -> Option<String> {
    let stays = |vm: &Vm| {
        let under = |rule: Rule| vm.maximum.of(rule);
        under(row.rule).is_some() && judged.now.and_then(under) == under(row.rule)
    };
    if judged.vms.iter().all(stays) {
        return Some(format!(
            "not applied: {}: nothing changes for any VM, as each has its own maximum \
             (KVM_CAP_HALT_POLL)\nhint: let its VMM set that",
            row.name
        ));
    }
    let loses = |vm: &&Vm, rule: &str| is(vm, rule, Outcome::Loses);
    let losers = judged.vms.iter().filter(|vm| loses(vm, &row.name));
    let told: Vec<String> = losers.map(|vm| told(vm, &row.name)).collect();
    if all || judged.vms.len() < 2 || told.is_empty() {
        return None;
    }
    // What nobody loses by, if it saves something.
    let harmless = judged.regret.rows.iter().filter(|other| {
        other.stock
            && judged.vms.iter().all(|vm| !loses(&vm, &other.name))
            && judged.vms.iter().any(|vm| is(vm, &other.name, Outcome::Wins))
    });
    let harmless = harmless.min_by_key(|other| other.expected_ns);
    let instead = harmless.map_or(String::new(), |other| {
        format!("--apply={} is a rule by which no VM loses; ", other.name)
    });
    Some(format!(
        "not applied: {}: {}\n\
         hint: {instead}--all applies it all the same; a VM whose VMM sets its KVM_CAP_HALT_POLL \
         keeps its own maximum",
        row.name,
        told.join("; ")
    ))
}

fn is(vm: &Vm, rule: &str, outcome: Outcome) -> bool {
    vm.under(rule).is_some_and(|under| under.outcome == outcome)
}

fn told(vm: &Vm, rule: &str) -> String {
    let time = |ns: Option<u64>| Nanos(ns.unwrap_or_default()).to_string();
    let then = vm.under(rule).and_then(|under| under.expected_ns);
    format!(
        "{} loses by it: its halts would cost {} instead of {}",
        name(vm.process),
        time(then),
        time(vm.now_ns)
    )
}

fn name(process: Option<u32>) -> String {
    process.map_or("the VM".into(), |process| format!("VM {process}"))
}

/// A prediction for each VM that was recorded again, beside what came of it.
struct Checked {
    cost: u32,
    window_ns: u64,
    vms: Vec<(Option<u32>, Compared)>,
    /// So many have no prediction, or did not halt again.
    missing: usize,
}

impl Checked {
    fn new(before: &Judged, row: &Row, after: &Halts) -> Result<Checked> {
        let compared = |vm: &Vm| {
            let mut measured = Tally::default();
            let vcpus = after.vcpus.iter().filter(|vcpu| vcpu.process == vm.process);
            vcpus.for_each(|vcpu| measured.merge(&Tally::of(vcpu)));
            let predicted = vm.under(&row.name)?.expected.clone()?;
            let before = vm.recorded.clone();
            (measured.halts > 0).then_some((vm.process, Compared { before, predicted, measured }))
        };
        let vms: Vec<_> = before.vms.iter().filter_map(compared).collect();
        if vms.is_empty() {
            bail!("no VM that a prediction was made for halted again");
        }
        let missing = before.vms.len() - vms.len();
        let (cost, window_ns) = (before.regret.cost_ns, after.window_ns);
        Ok(Checked { cost, window_ns, vms, missing })
    }

    fn all(&self) -> Verdict {
        let all: Vec<_> = self.vms.iter().map(|(_, compared)| compared.clone()).collect();
        Verdict::new(self.cost, &all)
    }

    fn each(&self) -> impl Iterator<Item = (Option<u32>, Verdict, bool)> + '_ {
        self.vms.iter().map(|(process, compared)| {
            let verdict = Verdict::new(self.cost, std::slice::from_ref(compared));
            let halts = compared.measured.halts as f64;
            let ns = |each: f64| Some((each * halts) as u64);
            let (before, then) = (ns(verdict.cost.before), ns(verdict.cost.measured));
            let outcome = Outcome::new(before, then, self.window_ns);
            (*process, verdict, verdict.costs_more() && outcome == Outcome::Loses)
        })
    }

    fn came_true(&self, all: bool) -> bool {
        self.all().came_true() && (all || !self.each().any(|(.., lost)| lost))
    }

    fn applied(&self, row: &str, outcome: What) -> Applied {
        let of_vm = |(process, verdict, lost)| OfVm { process, lost, verdict };
        let vms = self.each().map(of_vm).collect();
        Applied { rule: row.into(), outcome, verdict: Some(self.all()), vms }
    }

    fn text(&self) -> String {
        let mut text = self.all().to_string();
        if self.vms.len() + self.missing > 1 {
            for (process, verdict, lost) in self.each() {
                let lost = if lost { "; it lost" } else { "" };
                text += &format!("  {}: {}{lost}\n", name(process), verdict.cost_line());
            }
        }
        if self.missing > 0 {
            text += &format!("  not judged: {} of the VMs\n", self.missing);
        }
        text
    }
}
