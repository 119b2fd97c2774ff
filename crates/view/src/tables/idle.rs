// SPDX-License-Identifier: GPL-2.0-only
//! Why the baseline's kernel keeps its tick when a vCPU goes idle.

use crate::{
    change::{self, Metric, Versus, TICKLESS_STOP},
    number::{self, count},
    set::Set,
    table::Table,
};
use paratick_core::idle::IdleEntries;

const HEAD: [&str; 4] =
    ["Benchmark", "Looks for the next event", "Tick kept", "RCU callbacks waiting"];

/// A row for each benchmark whose idle entries were counted; none: no benchmark's were.
pub fn table(set: &Set) -> Option<Table> {
    let all = set.versus(TICKLESS_STOP);
    let by_mode = |versus: &Versus| format!("VM exits by {}", versus.mode);
    let exits: Vec<_> = all.iter().map(|versus| set.changes(Metric::Exits, *versus)).collect();
    let mut table = Table::new(
        format!("What {TICKLESS_STOP} finds when vCPUs go idle: {} (–: of no looks)", set.name()),
        HEAD.map(String::from).into_iter().chain(all.iter().map(by_mode)),
    );
    for (name, entries) in counted(set) {
        let counts = [
            count(entries.decisions as f64),
            share(entries.kept, entries.decisions),
            share(entries.rcu_waiting, entries.decisions),
        ];
        let changes = exits.iter().map(|changes| {
            let change = changes.iter().find(|(workload, _)| *workload == name);
            change::text(change.and_then(|(_, change)| *change))
        });
        table.row(set.label(name), counts.into_iter().chain(changes));
    }
    (!table.is_empty()).then_some(table)
}

pub fn counted<'a>(set: &Set<'a>) -> impl Iterator<Item = (&'a str, &'a IdleEntries)> {
    set.workloads().into_iter().filter_map(|(name, cells)| {
        let cell = cells.into_iter().find(|cell| cell.subject.mode == TICKLESS_STOP)?;
        Some((name, cell.readings.idle.as_ref()?))
    })
}

fn share(part: u64, all: u64) -> String {
    match all {
        // Counted, but a share of nothing is no number.
        0 => number::NOTHING.into(),
        all => format!("{}{}%", count(100.0 * part as f64 / all as f64), number::SPACE),
    }
}
