// SPDX-License-Identifier: GPL-2.0-only
//! What `paratick noise --top` shows.

use crate::top::{lost, per_second, percent, Column, Line, Page, Pages};
use paratick_bench::noise::Recorded;
use paratick_core::{
    noise::{by_source, host_sources, ledger, Absence, Class, HostNoise, Ledger, Rank},
    vms::OfVms,
};
use paratick_view::number::{nanos, plural};
use ratatui::layout::Constraint;
use std::collections::BTreeSet;

pub struct Noise {
    /// Of what: VMs, or CPUs of this one.
    all: Page,
    of: Of,
}

enum Of {
    Host(HostNoise),
    Guest(Ledger),
}

const VMS: &[Column] = &[
    ("VM", Constraint::Fill(2), true),
    ("vCPU", Constraint::Length(4), false),
    ("Exits/s", Constraint::Length(8), false),
    ("Away %", Constraint::Length(6), false),
    ("VMM %", Constraint::Length(6), false),
    ("Steal%", Constraint::Length(6), false),
    ("Longest", Constraint::Length(8), false),
    ("Mostly", Constraint::Fill(3), true),
];

const CPUS: &[Column] = &[
    ("vCPU", Constraint::Length(5), false),
    ("Gaps/s", Constraint::Length(8), false),
    ("Away %", Constraint::Length(6), false),
    ("Longest", Constraint::Length(8), false),
    ("Mostly", Constraint::Fill(1), true),
];

const SOURCES: &[Column] = &[
    ("vCPU", Constraint::Length(5), false),
    ("Times/s", Constraint::Length(8), false),
    ("Away %", Constraint::Length(6), false),
    ("Mean", Constraint::Length(8), false),
    ("Longest", Constraint::Length(8), false),
    ("Source", Constraint::Fill(1), true),
];

impl Noise {
    pub fn of(recorded: Recorded) -> Noise {
        let mark = mark(&recorded);
        let ledger = recorded.guest.as_ref().map(|guest| ledger(guest, recorded.joined()));
        let of = match (ledger, recorded.host) {
            (Some(ledger), _) => Of::Guest(ledger),
            (None, host) => Of::Host(host.expect("a side was recorded")),
        };
        let (what, columns, lines) = match &of {
            Of::Host(host) => (plural(host.vms().len(), "VM"), VMS, vms(host)),
            Of::Guest(ledger) => (plural(cpus(ledger).len(), "CPU"), CPUS, gaps(ledger)),
        };
        let head = format!("paratick noise   {what}   last {}{mark}", nanos(of.window()));
        Noise { all: Page { head, columns, lines, opens: true }, of }
    }
}

/// That something is missing.
fn mark(recorded: &Recorded) -> String {
    match recorded.host.as_ref().map_or(0, |host| host.lost.values().sum()) {
        0 if recorded.incomplete.is_some() => "   INCOMPLETE".into(),
        number => lost(number),
    }
}

impl Of {
    fn window(&self) -> u64 {
        match self {
            Of::Host(host) => host.window_ns(),
            Of::Guest(ledger) => ledger.window_ns,
        }
    }
}

impl Pages for Noise {
    const SORTS: &'static [(char, &'static str)] =
        &[('a', "a away"), ('l', "l longest"), ('t', "t times"), ('n', "n name")];

    fn page(&self, open: Option<&str>) -> Option<Page> {
        let Some(key) = open else { return Some(self.all.clone()) };
        let ns = self.of.window();
        let (what, lines) = match &self.of {
            Of::Host(host) => {
                let (vm, its) = host.vms().into_iter().find(|(vm, _)| vm.to_string() == key)?;
                let vcpus: BTreeSet<u32> = its.iter().map(|one| one.vcpu).collect();
                let of_vcpu = |vcpu: u32| {
                    let ranks = host_sources(its.iter().copied().filter(|one| one.vcpu == vcpu));
                    ranks.into_iter().map(move |rank| source(vcpu, &rank, ns))
                };
                (host.name(vm), vcpus.into_iter().flat_map(of_vcpu).collect())
            }
            Of::Guest(ledger) => {
                let cpu = cpus(ledger).into_iter().find(|cpu| cpu.to_string() == key)?;
                let ranks = of_cpu(ledger, cpu);
                (format!("CPU {cpu}"), ranks.iter().map(|rank| source(cpu, rank, ns)).collect())
            }
        };
        let head = format!("paratick noise   {what}   last {}", nanos(ns));
        Some(Page { head, columns: SOURCES, lines, opens: false })
    }
}

fn vms(host: &HostNoise) -> Vec<Line> {
    let ns = host.window_ns();
    host.vms().iter().map(|(vm, its)| of_vm(host.name(*vm), *vm, its, ns)).collect()
}

fn of_vm(name: String, vm: u32, its: &[&Absence], ns: u64) -> Line {
    let vcpus: BTreeSet<u32> = its.iter().map(|one| one.vcpu).collect();
    // A vCPU that has nothing to do is not kept from anything.
    let away: Vec<&&Absence> = its.iter().filter(|one| one.class != Class::Halt).collect();
    let sum = |of: fn(&Absence) -> u64| its.iter().map(|one| of(one)).sum::<u64>();
    let away_ns = away.iter().map(|one| one.ns).sum();
    let longest = away.iter().map(|one| one.ns).max().unwrap_or(0);
    let most = host_sources(its.iter().copied()).into_iter().next();
    let cells = vec![
        name,
        vcpus.len().to_string(),
        per_second(its.len() as u64, ns),
        percent(away_ns, ns),
        percent(sum(|one| one.vmm_ns), ns),
        percent(sum(|one| one.waited_ns), ns),
        nanos(longest),
        most.map_or(String::new(), |rank| rank.source.to_string()),
    ];
    let ranks = vec![away_ns, longest, its.len() as u64];
    Line { key: vm.to_string(), ranks, cells, dim: false }
}

fn source(cpu: u32, rank: &Rank, ns: u64) -> Line {
    let source = rank.source.to_string();
    let cells = vec![
        cpu.to_string(),
        per_second(rank.count, ns),
        percent(rank.total_ns, ns),
        nanos(rank.total_ns / rank.count.max(1)),
        nanos(rank.longest_ns),
        source.clone(),
    ];
    let ranks = vec![rank.total_ns, rank.longest_ns, rank.count];
    Line { key: format!("{cpu} {source}"), ranks, cells, dim: false }
}

fn cpus(ledger: &Ledger) -> BTreeSet<u32> {
    ledger.entries.iter().map(|gap| gap.cpu).collect()
}

fn of_cpu(ledger: &Ledger, cpu: u32) -> Vec<Rank> {
    let gaps = ledger.entries.iter().filter(|gap| gap.cpu == cpu);
    by_source(gaps.flat_map(|gap| &gap.events).map(|one| (one.source.clone(), one.ns)))
}

fn gaps(ledger: &Ledger) -> Vec<Line> {
    let ns = ledger.window_ns;
    let of = |cpu: u32| {
        let its = ledger.entries.iter().filter(|gap| gap.cpu == cpu);
        let gaps: Vec<u64> = its.map(|gap| gap.ns).collect();
        let (away, longest) = (gaps.iter().sum(), gaps.iter().copied().max().unwrap_or(0));
        let most = of_cpu(ledger, cpu).into_iter().next();
        let cells = vec![
            cpu.to_string(),
            per_second(gaps.len() as u64, ns),
            percent(away, ns),
            nanos(longest),
            most.map_or(String::new(), |rank| rank.source.to_string()),
        ];
        let ranks = vec![away, longest, gaps.len() as u64];
        Line { key: cpu.to_string(), ranks, cells, dim: false }
    };
    cpus(ledger).into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::{
        test::{press, recorded, screen},
        Top,
    };
    use ratatui::crossterm::event::KeyCode::{Char, Enter};

    #[test]
    fn vms_have_sources_and_so_have_cpus_of_a_guest() {
        let both: Recorded = recorded("recorded-noise.json");
        let host = Recorded { guest: None, process: None, ..both };
        let mut top = Top::of(Noise::of(host));
        let mut shown = screen(&top, 80, 8);
        press(&mut top, &[Enter, Char('l')]);
        shown += &screen(&top, 80, 14);
        let mut top = Top::of(Noise::of(recorded("recorded-noise.json")));
        shown += &screen(&top, 80, 8);
        press(&mut top, &[Enter]);
        shown += &screen(&top, 120, 14);
        insta::assert_snapshot!(shown);
    }

    #[test]
    fn what_is_lost_is_said() {
        let mut both: Recorded = recorded("recorded-noise.json");
        both.guest = None;
        both.host.as_mut().unwrap().lost.insert(0, 7);
        assert!(screen(&Top::of(Noise::of(both)), 100, 8).contains("LOST 7"));
    }
}
