// SPDX-License-Identifier: GPL-2.0-only
//! The small workloads in every mode, as `paratick bench quick` measures them.

use super::{clock, samples};
use crate::{
    change::{self, Metric, TICKLESS, TICKLESS_STOP},
    number,
    page::{Section, Table},
    select::{Selection, Set},
};
use paratick_core::{
    mode::{Mode, TickMode},
    results::{Cell, Figure, Results},
};

const TICKLESS_POLL: Mode = Mode {
    tick: TickMode::Tickless,
    poll: true,
};

pub fn section(selection: &Selection) -> Option<Section> {
    let sets: Vec<&Set> = selection.of("quick").collect();
    if sets.is_empty() {
        return None;
    }
    let mut section = Section::new("quick", "Small workloads in every mode");
    section.text("Six small workloads of fixed work; what each does is told in `docs/measuring.md`. `+poll`: the guest polls for work before it halts.");
    for set in sets {
        let vcpus = number::plural(set.vcpus() as usize, "vCPU");
        section.heading(set.slug(), format!("Guests with {vcpus}"));
        section.table(counts(set, &vcpus));
        for metric in Metric::ALL {
            section.table(versus(set, metric, &vcpus));
        }
    }
    Some(section)
}

fn title(cell: &Cell) -> String {
    format!(
        "{}: {} {}",
        cell.workload,
        number::count(cell.work as f64),
        cell.unit
    )
}

fn counts(set: &Set, vcpus: &str) -> Table {
    let mut table = Table::new(
        format!(
            "Medians with intervals, guests with {vcpus}, {} in each mode",
            samples::in_words(set)
        ),
        [
            "Mode",
            "VM exits",
            "per unit",
            "TSC_DEADLINE writes",
            "Virtual ticks",
            "Million instructions",
            "Duration, ms",
        ],
    );
    for (_, cells) in set.workloads() {
        table.group(title(cells[0]));
        for cell in cells {
            let per_unit = cell.summary(Figure::ExitsPerUnit);
            let million = |value: f64| number::decimal(value / 1e6);
            table.row(
                marked(cell),
                vec![
                    number::interval(cell.summary(Figure::Exits), number::count),
                    per_unit.map_or(number::NOTHING.into(), |s| number::decimal(s.median)),
                    number::interval(cell.summary(Figure::TscDeadlineWrites), number::count),
                    number::interval(cell.summary(Figure::TicksDelivered), number::count),
                    number::interval(cell.summary(Figure::Instructions), million),
                    number::interval(cell.summary(Figure::DurationNs), million),
                ],
            );
        }
    }
    table
}

/// The mode, and that some of its samples are doubtful.
fn marked(cell: &Cell) -> String {
    match cell
        .samples
        .iter()
        .any(|sample| !sample.problems.is_empty())
    {
        true => format!("{} (doubtful samples)", cell.mode),
        false => cell.mode.to_string(),
    }
}

fn baselines(results: &Results) -> Vec<Mode> {
    let mut baselines = vec![TICKLESS_STOP, TICKLESS, TICKLESS_POLL];
    baselines.retain(|mode| results.plan.modes.contains(mode));
    baselines
}

fn versus(set: &Set, metric: Metric, vcpus: &str) -> Table {
    let baselines = baselines(set.main());
    let mut table = Table::new(
        format!(
            "{}, change against other modes ({}), guests with {vcpus}, {} in each mode",
            match metric {
                Metric::Time => clock::name_of_time(set),
                _ => metric.name(),
            },
            metric.better(),
            samples::in_words(set)
        ),
        ["Mode"],
    );
    table
        .columns
        .extend(baselines.iter().map(|mode| format!("against {mode}")));
    for (_, cells) in set.workloads() {
        table.group(title(cells[0]));
        for cell in cells {
            let cells = baselines.iter().map(|base| match cell.mode == *base {
                true => "–".into(),
                // Only what polls is compared with what polls.
                false if base.poll && !cell.mode.poll => "–".into(),
                false => change::words(metric.of(cell, *base)),
            });
            table.row(cell.mode.to_string(), cells.collect());
        }
    }
    table
}
