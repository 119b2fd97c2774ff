// SPDX-License-Identifier: GPL-2.0-only
//! The averages of Tables 2 to 4 as text, for a terminal.

use crate::{
    change::{self, Metric, BASELINES, TICKLESS_STOP},
    number, paper,
    section::summary::{average, changes, printed},
    select::{Set, EVALUATED},
};
use paratick_core::results::Results;

/// The averages over a set of programs, against both baselines, and what the paper printed of a
/// guest of this size; none for a bench of which the paper prints none.
pub fn averages(results: &Results) -> Option<String> {
    let set = Set::alone(results);
    EVALUATED.contains(&set.bench()).then_some(())?;
    let mut rows = vec![["paratick against".to_string()]
        .into_iter()
        .chain(Metric::ALL.map(|metric| metric.name().to_lowercase().replace("vm", "VM")))
        .collect::<Vec<_>>()];
    for baseline in BASELINES {
        let cells =
            Metric::ALL.map(|metric| change::words(average(&changes(&set, metric, baseline))));
        rows.push([baseline.to_string()].into_iter().chain(cells).collect());
    }
    if paper::averages_of(set.bench(), set.vcpus()).is_some() {
        let paper = Metric::ALL.map(|metric| printed(&set, metric, TICKLESS_STOP));
        let name = "tickless-stop, in the paper".to_string();
        rows.push([name].into_iter().chain(paper).collect());
    }
    let count = set.workloads().len();
    Some(format!(
        "Average of {}, {} (geometric mean)\n{}",
        number::plural(count, "workload"),
        set.name(),
        columns(&rows)
    ))
}

/// Left-aligned columns, two spaces apart.
fn columns(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    };
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let space = width(column) - cell.chars().count();
            format!("{cell}{}", " ".repeat(space))
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        format!("  {}\n", line.trim_end())
    };
    rows.iter().map(line).collect()
}
