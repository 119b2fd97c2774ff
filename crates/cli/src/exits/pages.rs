// SPDX-License-Identifier: GPL-2.0-only
//! What `paratick exits --top` shows.

use crate::top::{lost, Column, Line, Page, Pages};
use paratick_core::observed::{mostly, sum, Exits, Observed, Spent, Vm};
use paratick_view::{
    number::{count, decimal, nanos, or_nothing, plural},
    tables::observed::bound,
};
use ratatui::layout::Constraint;

pub struct Counts {
    /// All since the start, and what came since the look before.
    pub seen: Observed,
    pub lately: Observed,
}

const VMS: &[Column] = &[
    ("VM", Constraint::Fill(2), true),
    ("vCPU", Constraint::Length(4), false),
    ("Exits/s", Constraint::Length(8), false),
    ("CPU %", Constraint::Length(6), false),
    ("KVM %", Constraint::Length(6), false),
    ("VMM %", Constraint::Length(6), false),
    ("Steal%", Constraint::Length(6), false),
    ("Mostly", Constraint::Fill(3), true),
];

const KINDS: &[Column] = &[
    ("vCPU", Constraint::Length(4), false),
    ("Cause", Constraint::Length(10), true),
    ("Exits/s", Constraint::Length(8), false),
    ("CPU %", Constraint::Length(6), false),
    ("VMM %", Constraint::Length(6), false),
    ("Steal%", Constraint::Length(6), false),
    ("Mean", Constraint::Length(8), false),
    ("99% in", Constraint::Length(8), false),
    ("What", Constraint::Fill(1), true),
];

impl Counts {
    pub fn of(seen: Observed) -> Counts {
        Counts { lately: seen.clone(), seen }
    }

    fn head(&self, vm: Option<&Vm>) -> String {
        let all = vm.map_or_else(|| self.lately.total(), Vm::all);
        let seconds = self.lately.ns.max(1) as f64 / 1e9;
        let lost = lost(self.seen.lost + self.seen.vms.iter().map(|vm| vm.lost).sum::<u64>());
        let what = match vm {
            Some(vm) => format!("{} (process {})", vm.name, vm.process),
            None => plural(self.lately.vms.len(), "VM"),
        };
        format!(
            "paratick exits   {what}   {} exits/s   CPU {} %   last {}{lost}",
            count((all.count as f64 / seconds).round()),
            decimal(all.cpu_ns() as f64 / seconds / 1e7),
            nanos(self.lately.ns),
        )
    }
}

impl Pages for Counts {
    const SORTS: &'static [(char, &'static str)] =
        &[('e', "e exits"), ('c', "c CPU"), ('s', "s steal"), ('n', "n name")];

    fn page(&self, open: Option<&str>) -> Option<Page> {
        let Some(key) = open else {
            let lines = self.lately.vms.iter().map(of_vm).collect();
            return Some(Page { head: self.head(None), columns: VMS, lines, opens: true });
        };
        let vm = self.lately.vms.iter().find(|vm| vm.process.to_string() == key)?;
        let exits = vm.exits.iter().filter(|exits| exits.spent.count > 0);
        let lines = exits.map(|exits| of_kind(vm, exits)).collect();
        Some(Page { head: self.head(Some(vm)), columns: KINDS, lines, opens: false })
    }
}

fn shown(key: String, vm: &Vm, spent: &Spent, cells: Vec<String>) -> Line {
    let ranks = vec![spent.count, spent.cpu_ns(), spent.steal_ns];
    Line { key, ranks, cells, dim: vm.ended }
}

fn of_vm(vm: &Vm) -> Line {
    let spent = vm.all();
    let percent = |ns: u64| decimal(vm.share(ns) * 100.0);
    let most = vm
        .causes()
        .first()
        .and_then(|(cause, exits)| Some(format!("{cause} {}", mostly(exits.iter().copied())?.0)));
    let cells = vec![
        format!("{}{}", vm.name, if vm.ended { " (ended)" } else { "" }),
        vm.vcpus().to_string(),
        decimal(vm.per_second(spent.count)),
        percent(spent.cpu_ns()),
        percent(spent.kvm_ns),
        percent(spent.vmm_ns),
        percent(spent.steal_ns),
        most.filter(|_| spent.count > 0).unwrap_or_default(),
    ];
    shown(vm.process.to_string(), vm, &spent, cells)
}

fn of_kind(vm: &Vm, exits: &Exits) -> Line {
    let Exits { vcpu, kind, .. } = exits;
    let spent = sum([exits]);
    let percent = |ns: u64| decimal(vm.share(ns) * 100.0);
    let cells = vec![
        vcpu.to_string(),
        kind.cause.to_string(),
        decimal(vm.per_second(spent.count)),
        percent(spent.cpu_ns()),
        percent(spent.vmm_ns),
        percent(spent.steal_ns),
        or_nothing(spent.mean_ns(), nanos),
        or_nothing(spent.at_most(0.99), bound),
        kind.words().to_string(),
    ];
    shown(format!("{vcpu} {} {}", kind.reason, kind.words()), vm, &spent, cells)
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
