// SPDX-License-Identifier: GPL-2.0-only
//! What was counted in every mode, and how modes change it.

use crate::{
    change::{self, Metric, TICKLESS, TICKLESS_POLL, TICKLESS_STOP},
    number::{self, count, decimal, interval, millions},
    set::Set,
    table::Table,
};
use paratick_core::{
    mode::Mode,
    results::{Cell, Figure},
};

pub fn counts(set: &Set) -> Table {
    let mut table = Table::new(
        format!("Medians with intervals: {}, {} in each mode", set.name(), set.samples()),
        [
            "Mode",
            "VM exits",
            "Per unit",
            "TSC_DEADLINE",
            "Ticks",
            "M instructions",
            "M cycles",
            "Duration, ms",
        ],
    );
    for (_, cells) in set.workloads() {
        table.group(title(cells[0]));
        for cell in cells {
            let shown = |figure, write: fn(f64) -> String| interval(cell.summary(figure), write);
            table.row(
                marked(cell),
                [
                    shown(Figure::Exits, count),
                    number::or_nothing(cell.median(Figure::ExitsPerUnit), decimal),
                    shown(Figure::TscDeadlineWrites, count),
                    shown(Figure::TicksDelivered, count),
                    shown(Figure::Instructions, millions),
                    shown(Figure::Cycles, millions),
                    shown(Figure::DurationNs, millions),
                ],
            );
        }
    }
    table.note(
        "Per unit: VM exits per unit of work. TSC_DEADLINE: exits for writes of the guest's \
        timer register. Ticks: virtual ticks that the host delivered. –: not measured; a column \
        that no mode has is left out. !: some samples are doubtful.",
    );
    if set.is_emulated() {
        table.note(
            "M instructions: of host and guest. The lab's clock takes 1 ns for each; they \
            are not cycles, and what the hardware itself takes for an exit is not in them.",
        );
    }
    table.without_empty_columns()
}

/// How each mode changes a metric against the baselines that were measured; none where there is
/// nothing to compare.
pub fn versus(set: &Set, metric: Metric) -> Option<Table> {
    let mut baselines = vec![TICKLESS_STOP, TICKLESS, TICKLESS_POLL];
    baselines.retain(|mode| set.main().plan.subjects.iter().any(|subject| subject.mode == *mode));
    let head = baselines.iter().map(|mode| format!("against {mode}"));
    let mut table = Table::new(
        format!(
            "{} against other modes ({}): {}",
            set.name_of(metric),
            metric.better(),
            set.name()
        ),
        ["Mode".to_string()].into_iter().chain(head),
    );
    for (_, cells) in set.workloads() {
        table.group(title(cells[0]));
        for cell in cells {
            // Only what polls is compared with what polls.
            let compared = |base: &Mode| {
                *base != cell.subject.mode && (cell.subject.mode.polls() || !base.polls())
            };
            let changes = baselines.iter().map(|base| match compared(base) {
                true => change::text(metric.of(cell, *base)),
                false => String::new(),
            });
            let changes: Vec<String> = changes.collect();
            if changes.iter().any(|text| !text.is_empty()) {
                table.row(cell.subject.to_string(), changes);
            }
        }
    }
    let mut cells = set.main().cells.iter();
    let any = cells.any(|cell| baselines.iter().any(|base| metric.of(cell, *base).is_some()));
    any.then_some(table)
}

/// `pingpong: 1 000 round trips`; of one unit of work only the name.
pub fn title(cell: &Cell) -> String {
    match cell.work {
        1 => cell.workload.clone(),
        work => format!("{}: {} {}", cell.workload, count(work as f64), cell.unit),
    }
}

/// The mode, and whether some of its samples are doubtful.
fn marked(cell: &Cell) -> String {
    let doubtful = cell.samples().iter().any(|sample| !sample.problems.is_empty());
    format!("{}{}", cell.subject, if doubtful { " !" } else { "" })
}
