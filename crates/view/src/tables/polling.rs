// SPDX-License-Identifier: GPL-2.0-only
//! Halt polling: the limits in force, what the host's rules and the guests' do, and what they cost.

use super::bench::title;
use crate::{
    change::{self, Change, TICKLESS},
    number::{self, count, interval, millions, nanos},
    set::Set,
    table::Table,
};
use paratick_core::{
    cause::Cause,
    halts::{Rule, RunHalts},
    results::{Cell, Figure},
    stats::{self, Observation, Summary},
    subject::{HostSettings, Subject},
};
use std::collections::BTreeSet;

/// By name, as a name of a rule of the host.
pub const RULE_2021: &str = "2021";
pub const RULE_PAPER: &str = "paper";
pub const RULE_FLOOR: &str = "paper-floor";
pub const RULE_DEFAULT: &str = "default";

/// A workload's cells, each with the cell that it is held against.
pub struct Compared<'a> {
    pub cells: Vec<(String, &'a Cell)>,
    pub base: Option<&'a Cell>,
}

/// The settings under which guests are compared with guests: those of the first subject.
fn home(set: &Set) -> HostSettings {
    let subjects = &set.main().plan.subjects;
    subjects.first().map_or(HostSettings::default(), |subject| subject.host)
}

/// What was measured with `tickless` guests under each of the host's rules, by the rule's name.
pub fn rules<'a>(set: &Set, cells: &[&'a Cell]) -> Compared<'a> {
    let cells = cells.iter().filter(|cell| cell.subject.mode == TICKLESS);
    let named = |cell: &&'a Cell| (cell.subject.host.rule().to_string(), *cell);
    let base = Subject { mode: TICKLESS, host: home(set) };
    let cells: Vec<_> = cells.map(named).collect();
    Compared { base: find(&cells, base), cells }
}

/// What was measured with each mode of the guest under one rule of the host.
pub fn guests<'a>(set: &Set, cells: &[&'a Cell]) -> Compared<'a> {
    let home = home(set);
    let cells = cells.iter().filter(|cell| cell.subject.host == home);
    let cells: Vec<_> = cells.map(|cell| (cell.subject.mode.to_string(), *cell)).collect();
    Compared { base: find(&cells, Subject { mode: TICKLESS, host: home }), cells }
}

fn find<'a>(cells: &[(String, &'a Cell)], subject: Subject) -> Option<&'a Cell> {
    cells.iter().map(|(_, cell)| *cell).find(|cell| cell.subject == subject)
}

/// How a figure of one cell differs from that of another.
pub fn compare(cell: &Cell, base: &Cell, figure: Figure) -> Option<Change> {
    stats::compare(&cell.observations(figure), &base.observations(figure)).map(Change::from)
}

impl<'a> Compared<'a> {
    pub fn named(&self, name: &str) -> Option<&'a Cell> {
        self.cells.iter().find(|(other, _)| other == name).map(|(_, cell)| *cell)
    }

    /// The base itself has nothing to be compared with.
    fn change(&self, cell: &Cell, figure: Figure) -> String {
        match self.base.filter(|base| base.subject != cell.subject) {
            Some(base) => change::text(compare(cell, base, figure)),
            None => String::new(),
        }
    }
}

pub fn tables(set: &Set) -> Vec<Table> {
    let tables = [limits, halts, by_rule, by_mode, per_second, native];
    tables.iter().map(|table| table(set)).filter(|table| !table.is_empty()).collect()
}

/// By a rule that has few limits; one that learns has as many as its vCPUs want.
pub fn grows_and_shrinks(subject: Subject) -> bool {
    matches!(subject.host.rule(), Rule::Host(rule) if rule.max > 0)
}

/// How many halts began with each limit of the host in force (Graphs 1 and 2).
pub fn limits(set: &Set) -> Table {
    let polls = |cell: &Cell| grows_and_shrinks(cell.subject);
    let workloads = set.workloads();
    let mut names: Vec<String> = Vec::new();
    for (name, cell) in workloads.iter().flat_map(|(_, cells)| rules(set, cells).cells) {
        if polls(cell) && !names.contains(&name) {
            names.push(name);
        }
    }
    let caption = format!(
        "Limits of the host's polling in force when halts began, in per cent of the halts, by the \
         host's rule (Graphs 1 and 2): {}",
        set.name()
    );
    let mut table = Table::new(caption, ["Limit".to_string()].into_iter().chain(names.clone()));
    for (_, cells) in &workloads {
        let compared = rules(set, cells);
        let of = |name: &String| compared.named(name)?.readings.halts.as_ref();
        let recorded: Vec<Option<&RunHalts>> = names.iter().map(of).collect();
        let known = || recorded.iter().flatten();
        let limits: BTreeSet<u32> =
            known().flat_map(|halts| halts.tally.limits.keys().copied()).collect();
        if limits.is_empty() {
            continue;
        }
        table.group(title(cells[0]));
        for limit in limits {
            let share = |halts: &Option<&RunHalts>| {
                let share = halts.and_then(|halts| halts.share_at(limit));
                number::or_nothing(share, |share| number::decimal(100.0 * share))
            };
            table.row(nanos(limit.into()), recorded.iter().map(share));
        }
        let halts =
            |one: &Option<&RunHalts>| number::or_nothing(*one, |one| count(one.tally.halts as f64));
        table.row("halts", recorded.iter().map(halts));
    }
    table.note(
        "From one run of each workload under each rule. Halts whose limit is not known are not in \
         the per cents.",
    );
    table
}

pub fn halts(set: &Set) -> Table {
    let caption = format!(
        "What the host's rules did for {TICKLESS} guests, in one recorded run (Graph 3): {}",
        set.name()
    );
    let columns = [
        "Host's rule",
        "Halts",
        "Half at most",
        "90 % at most",
        "Hits",
        "Blocks",
        "Switches",
        "Polled",
        "In vain",
        "To wake up",
    ];
    let mut table = Table::new(caption, columns);
    for (_, cells) in set.workloads() {
        table.group(title(cells[0]));
        for (name, cell) in rules(set, &cells).cells {
            let Some(halts) = &cell.readings.halts else { continue };
            let tally = &halts.tally;
            let of = |number: u64| count(number as f64);
            let optional = |ns: Option<u64>| number::or_nothing(ns, nanos);
            let cells = [
                of(tally.halts),
                optional(halts.half_ns),
                optional(halts.nine_tenths_ns),
                of(tally.hits),
                of(tally.blocks),
                of(tally.switches),
                nanos(tally.polled_ns),
                nanos(tally.wasted_ns),
                optional(halts.wake_up_ns.map(u64::from)),
            ];
            table.row(name, cells);
        }
    }
    table.note(
        "Hits: polls that saw the end of the halt. Switches: how often vCPU threads were switched \
         out in halts. In vain: polled in halts that blocked all the same. To wake up: from when \
         the thread was woken to the end of the halt, in half of the blocks at most.",
    );
    table
}

pub fn by_rule(set: &Set) -> Table {
    let columns =
        ["Host's rule", "VM exits", "changed by", "Exits for HLT", "Host instructions", "Duration"];
    let caption = format!(
        "What the host's rules change for {TICKLESS} guests, against {} (Graph 3): {}",
        home(set).rule(),
        set.name()
    );
    let figures = [Figure::Exits, HALTS, Figure::HostInstructions, Figure::DurationNs];
    let groups = set.workloads().into_iter().map(|(_, cells)| rules(set, &cells));
    changes(Table::new(caption, columns), groups, &figures)
}

/// A row for each cell that was compared: the first figure, and how each differs from the base's.
fn changes<'a>(
    mut table: Table,
    groups: impl Iterator<Item = Compared<'a>>,
    figures: &[Figure],
) -> Table {
    // One alone tells nothing.
    for compared in groups.filter(|compared| compared.cells.len() > 1) {
        table.group(title(compared.cells[0].1));
        for (name, cell) in &compared.cells {
            let first = interval(cell.summary(figures[0]), count);
            let changes = figures.iter().map(|figure| compared.change(cell, *figure));
            table.row(name, [first].into_iter().chain(changes));
        }
    }
    table.note(change::SIGNS);
    table
}

/// A HLT is the only exit that polling can be for.
pub const HALTS: Figure = Figure::Cause(Cause::Halt);
const IPIS: Figure = Figure::Cause(Cause::Ipi);

/// What the guests' ways to poll change, on the first host.
pub fn by_mode(set: &Set) -> Table {
    let columns = [
        "Mode",
        "Exits for HLT",
        "changed by",
        "VM exits",
        "Exits for IPIs",
        "Instructions",
        "Duration",
    ];
    let rule = home(set).rule();
    let caption = format!(
        "What guests that poll change, against {TICKLESS}; the host's rule is {rule} (Graph 4): {}",
        set.name()
    );
    let figures = [HALTS, Figure::Exits, IPIS, Figure::Instructions, Figure::DurationNs];
    let groups = set.workloads().into_iter().map(|(_, cells)| guests(set, &cells));
    changes(Table::new(caption, columns), groups, &figures)
}

/// What can be counted in the place of power (Graph 5).
pub fn per_second(set: &Set) -> Table {
    let caption = format!(
        "What is executed and woken in a second of the host's clock (in the place of Graph 5; this \
         is not power): {}",
        set.name()
    );
    let columns = ["Subject", "M instructions per s", "Switches per s", "Blocks per s"];
    let mut table = Table::new(caption, columns);
    for (_, cells) in set.workloads() {
        table.group(title(cells[0]));
        for cell in cells {
            let halts = cell.readings.halts.as_ref();
            let rate = |times: fn(&RunHalts) -> u64| {
                let rate = halts.and_then(|halts| halts.per_second(times(halts)));
                number::or_nothing(rate, count)
            };
            let cells = [
                interval(cell.summary(Figure::InstructionsPerS), millions),
                rate(|halts| halts.tally.switches),
                rate(|halts| halts.tally.blocks),
            ];
            table.row(name(cell.subject), cells);
        }
    }
    table.note(
        "Instructions of host and guests, in all runs. Switches of vCPU threads and blocks, from \
         one recorded run: a pCPU is woken at the end of each, if nothing else ran on it.",
    );
    table
}

/// A workload's runs on the host itself.
fn on_host(cells: &[&Cell]) -> Option<Summary> {
    let runs = cells.iter().filter_map(|cell| cell.readings.native_ns);
    let run = |(round, ns): (u32, u64)| Observation { round, value: ns as f64 };
    stats::summarize(&(1..).zip(runs).map(run).collect::<Vec<_>>())
}

/// How many times longer a workload takes in a guest than on the host itself.
pub fn gap(cell: &Cell, cells: &[&Cell]) -> Option<f64> {
    Some(cell.median(Figure::DurationNs)? / on_host(cells)?.median)
}

pub fn native(set: &Set) -> Table {
    let caption = format!(
        "How much longer work takes in a guest than on the host itself, on the host's clock: {}",
        set.name()
    );
    let columns = ["Subject", "In the guest", "On the host", "Longer by"];
    let mut table = Table::new(caption, columns);
    let time = |ns: f64| nanos(ns.round() as u64);
    for (_, cells) in set.workloads() {
        let Some(host) = on_host(&cells) else { continue };
        table.group(title(cells[0]));
        for cell in &cells {
            let cells = [
                interval(cell.summary(Figure::DurationNs), time),
                interval(Some(host), time),
                number::or_nothing(gap(cell, &cells), number::change),
            ];
            table.row(name(cell.subject), cells);
        }
    }
    table.note(
        "On the host: one run for each of its settings, on the pCPUs of the guests' vCPUs, when no \
         guest is left. Longer by: of the medians.",
    );
    table
}

/// With the name of the host's rule where it polls.
pub fn name(subject: Subject) -> String {
    let rule = subject.host.rule();
    match rule.max() {
        0 => subject.mode.to_string(),
        _ => format!("{}, host {rule}", subject.mode),
    }
}
