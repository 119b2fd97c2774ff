// SPDX-License-Identifier: GPL-2.0-only
//! What our modes change in each benchmark, and on average (Tables 2 to 4 of the paper).

use crate::{
    change::{self, Change, Metric, Versus},
    number,
    set::{average, metrics, Set},
    table::Table,
};
use paratick_core::mode::Mode;

/// The averages of sets of benchmarks against both baselines, and what the paper printed.
pub fn averages(sets: &[&Set]) -> Table {
    let mut table = Table::new(
        "Average changes: geometric means. The paper does not say which mean its own is.",
        ["Mode"].into_iter().chain(metrics(sets)),
    );
    for set in sets {
        table.group(format!("{} ({})", set.name(), set.samples()));
        let own = own_kernels(set);
        for versus in Versus::all() {
            let changes = Metric::ALL.map(|metric| set.changes(metric, versus));
            if changes[0].is_empty() {
                continue;
            }
            let text = |changes: &Vec<(&str, Option<Change>)>| change::text(average(changes));
            table.row(versus.to_string(), changes.each_ref().map(text));
            if !own.is_empty() {
                let without = changes.map(|mut changes| {
                    changes.retain(|(name, _)| !own.contains(name));
                    text(&changes)
                });
                table.row(format!("… without {}", own.join(", ")), without);
            }
            if let [Some(exits), Some(throughput), Some(time)] =
                Metric::ALL.map(|metric| set.printed(metric, versus))
            {
                let printed = [exits, throughput, time].map(number::printed);
                table.row("printed in the paper", printed);
            }
        }
    }
    table
}

/// The agent's own kernels, where there are other programs beside them.
fn own_kernels<'a>(set: &Set<'a>) -> Vec<&'a str> {
    let planned = set.main().plan.workloads.iter();
    let (programs, own): (Vec<_>, Vec<_>) = planned.partition(|w| w.program.is_some());
    match programs.is_empty() {
        true => Vec::new(),
        false => own.iter().map(|w| w.workload.as_str()).collect(),
    }
}

/// What our modes change in each benchmark against `baseline`, and on average; none where no
/// benchmark has both modes.
pub fn relative(set: &Set, baseline: Mode) -> Option<Table> {
    let all = set.versus(baseline);
    let mut table = Table::new(
        format!(
            "{}: relative to {baseline}, {} in each mode",
            number::capital(&set.name()),
            set.samples()
        ),
        ["Benchmark"].into_iter().chain(metrics(&[set])),
    );
    for versus in &all {
        let changes = Metric::ALL.map(|metric| set.changes(metric, *versus));
        table.group(versus.mode.to_string());
        for (nth, (name, _)) in changes[0].iter().enumerate() {
            let of = |changes: &Vec<(&str, Option<Change>)>| change::text(changes[nth].1);
            table.row(set.label(name), changes.each_ref().map(of));
        }
        table.row("average", changes.map(|changes| change::text(average(&changes))));
    }
    (!all.is_empty()).then_some(table)
}
