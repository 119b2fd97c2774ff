// SPDX-License-Identifier: GPL-2.0-only
//! Figures 4 to 6 and Tables 2 to 4: each benchmark relative to a baseline, and their average.

use super::{
    clock, explain,
    idle_entries::{self, Told},
};
use crate::{
    change::{self, Change, Metric, BASELINES},
    number,
    page::{Block, Figure, Section},
    set::{average, Selection, Set},
    svg::forest::{Forest, Panel, Row},
    table::Table,
    tables::averages,
};
use paratick_core::mode::Mode;

struct Kind {
    bench: &'static str,
    title: &'static str,
    figure: &'static str,
    table: &'static str,
    about: &'static str,
}

const KINDS: [Kind; 3] = [
    Kind {
        bench: "sequential",
        title: "Sequential programs",
        figure: "Figure 4",
        table: "Table 2",
        about: "Programs of one thread, in a guest with one vCPU. Where a program hardly ever \
            waits, what there is to win is the tick itself; the question is whether paratick costs \
            anything.",
    },
    Kind {
        bench: "multithreaded",
        title: "Multithreaded programs",
        figure: "Figure 5",
        table: "Table 3",
        about: "Programs with a thread for every vCPU. Where threads wait for each other, each \
            wait takes a vCPU into idle and out again, unless another thread is ready.",
    },
    Kind {
        bench: "io",
        title: "Input and output",
        figure: "Figure 6",
        table: "Table 4",
        about: "fio with its synchronous engine on a virtio disk, in a guest with one vCPU: each \
            request is a short wait.",
    },
];

pub fn sections(selection: &Selection) -> Vec<Section> {
    let mut told = Told::default();
    KINDS.iter().filter_map(|kind| section(selection, kind, &mut told)).collect()
}

fn section(selection: &Selection, kind: &Kind, told: &mut Told) -> Option<Section> {
    let sets: Vec<&Set> = selection.of(kind.bench).collect();
    if sets.is_empty() {
        return None;
    }
    let mut section = Section::new(
        kind.bench,
        format!("{} ({} and {} of the paper)", kind.title, kind.figure, kind.table),
    );
    section.text(kind.about);
    section.text(clock::metrics(&sets));
    section.text(
        "Whiskers are intervals; a hollow circle means that no difference is shown, a \
        hollow square that there are too few boots to conclude.",
    );
    section.table(averages::averages(&sets));
    if let Some(text) = explain::stand_ins(&sets) {
        section.text(text);
    }
    for set in &sets {
        if let Some(text) = explain::averages(set) {
            section.text(text);
        }
        section.list(explain::losses(set));
    }
    for set in &sets {
        for baseline in BASELINES {
            if let Some(table) = averages::relative(set, baseline) {
                section.heading(
                    format!("{}-{baseline}", set.slug()),
                    format!("{} against {baseline}", number::capital(&set.name())),
                );
                section.blocks.push(figure(set, baseline, kind, table));
            }
        }
    }
    idle_entries::add(&mut section, &sets, (kind.bench, kind.title), told);
    Some(section)
}

fn figure(set: &Set, baseline: Mode, kind: &Kind, table: Table) -> Block {
    let title = format!("{}: paratick relative to {baseline}", number::capital(&set.name()));
    let per_metric = Metric::ALL.map(|metric| set.changes(metric, baseline));
    let rows = rows(&per_metric);
    let caption = caption(set, baseline, kind, &per_metric);
    let description = describe(&rows);
    let panel = |metric: Metric| Panel {
        title: set.name_of(metric).into(),
        label: format!("change, % ({})", metric.better()),
        paper: set.printed(metric, baseline),
    };
    let forest = Forest { panels: Metric::ALL.map(panel).into(), rows };
    let id = format!("fig-{}-{baseline}", set.slug());
    Figure::block(&id, caption, table, |size| forest.draw(size, &id, &title, &description))
}

fn rows(per_metric: &[Vec<(&str, Option<Change>)>; 3]) -> Vec<Row> {
    let names = per_metric[0].iter().map(|(name, _)| *name);
    let mut rows: Vec<Row> = names
        .enumerate()
        .map(|(nth, name)| Row {
            label: name.into(),
            average: false,
            changes: per_metric.iter().map(|changes| changes[nth].1).collect(),
        })
        .collect();
    rows.push(Row {
        label: "average".into(),
        average: true,
        changes: per_metric.iter().map(|changes| average(changes)).collect(),
    });
    rows
}

fn caption(
    set: &Set,
    baseline: Mode,
    kind: &Kind,
    per_metric: &[Vec<(&str, Option<Change>)>; 3],
) -> String {
    let mut text = format!(
        "After {} of the paper. Change of VM exits, system throughput and execution time by \
         paratick against `{baseline}`, in per cent, for each benchmark ({} in each mode), with \
         intervals (an arrow: it goes on). The average is the geometric mean.",
        kind.figure,
        set.samples()
    );
    if set.printed(Metric::Exits, baseline).is_some() {
        text += " Dashed: the average that the paper prints.";
    }
    if let Some(cost) = set.main().environment.configuration.exit_cost_ns {
        text += &format!(" A world switch costs {cost} ns.");
    }
    for (metric, changes) in Metric::ALL.iter().zip(per_metric) {
        let measured = changes.iter().filter(|(_, change)| change.is_some()).count();
        if measured < changes.len() {
            text += &format!(" {}: measured on {measured} of {}.", metric.name(), changes.len());
        }
    }
    text
}

fn describe(rows: &[Row]) -> String {
    let average = rows.last().map(|row| row.changes.as_slice()).unwrap_or_default();
    let words: Vec<String> = Metric::ALL
        .iter()
        .zip(average)
        .map(|(metric, change)| format!("{} {}", metric.name(), change::text(*change)))
        .collect();
    format!(
        "Three panels with a row for each of {}. On average: {}. The table after the figure has \
         every number.",
        number::plural(rows.len().saturating_sub(1), "benchmark"),
        words.join("; ")
    )
}
