// SPDX-License-Identifier: GPL-2.0-only
//! Why the baseline's kernel keeps its tick when a vCPU goes idle.

use super::{relative::label, summary::changes};
use crate::{
    change::{self, Metric, TICKLESS_STOP},
    number,
    page::Table,
    select::Set,
};
use paratick_core::idle::IdleEntries;
use std::cmp::Reverse;

pub const ABOUT: &str = "When a vCPU goes idle, the kernel looks for its next event. Is that due within the tick's period, the tick is kept: then neither kernel has anything to stop or to restart, the baseline's tick costs nothing extra, and a paratick guest has to arm a timer itself. Callbacks that wait for RCU are such an event: they come from threads that end (`delayed_put_pid`, `thread_stack_free_rcu`) and from memory that is mapped and unmapped (`vm_area_free_rcu_cb` since Linux 6.4, `mt_free_rcu` since 6.1, which kernels of the paper's time did not have). Where most of the idle entries keep the tick, there is little that paratick could save. Counted by probes in one more run of each benchmark, in `tickless-stop`.";
/// How many of RCU's callbacks are named.
const CALLBACKS: usize = 6;

/// A row for each benchmark whose idle entries were counted; none: no benchmark's were.
pub fn table(set: &Set) -> Option<Table> {
    let mut table = Table::new(
        format!("Idle entries in {TICKLESS_STOP}: {}", set.name()),
        [
            "Benchmark",
            "Idle entries",
            "Tick kept",
            "RCU callbacks waiting",
            "VM exits by paratick",
        ],
    );
    let exits = changes(set, Metric::Exits, TICKLESS_STOP);
    for (name, entries) in counted(set) {
        let change = exits.iter().find(|(workload, _)| *workload == name);
        table.row(
            label(set, name),
            vec![
                number::count(entries.decisions as f64),
                share(entries.kept, entries.decisions),
                share(entries.rcu_waiting, entries.decisions),
                change::words(change.and_then(|(_, change)| *change)),
            ],
        );
    }
    (!table.groups.is_empty()).then_some(table)
}

/// Whose callbacks RCU had to call, in all benchmarks together.
pub fn callbacks(set: &Set) -> String {
    let mut sum = IdleEntries::default();
    for (_, entries) in counted(set) {
        sum.add(entries.clone());
    }
    let mut callbacks: Vec<_> = sum.rcu_callbacks.into_iter().collect();
    callbacks.sort_by_key(|(function, count)| (Reverse(*count), function.clone()));
    let callbacks = callbacks.into_iter().take(CALLBACKS);
    let callbacks: Vec<String> = callbacks
        .map(|(function, count)| format!("`{function}` {}", number::count(count as f64)))
        .collect();
    format!(
        "Callbacks given to RCU, the most frequent of all these runs together: {}.",
        number::list(&callbacks)
    )
}

fn counted<'a>(set: &Set<'a>) -> impl Iterator<Item = (&'a str, &'a IdleEntries)> {
    set.workloads().into_iter().filter_map(|(name, cells)| {
        let cell = cells.into_iter().find(|cell| cell.mode == TICKLESS_STOP)?;
        Some((name, cell.idle_entries.as_ref()?))
    })
}

fn share(part: u64, all: u64) -> String {
    match all {
        0 => number::NOTHING.into(),
        all => format!(
            "{}{}%",
            number::count(100.0 * part as f64 / all as f64),
            number::SPACE
        ),
    }
}
