// SPDX-License-Identifier: GPL-2.0-only
//! Figures 4 to 6 and Tables 2 to 4: each benchmark relative to a baseline, and their average.

use super::{
    clock, explain,
    idle_entries::{self, Told},
};
use crate::{
    change::{self, Change, Metric, Versus, BASELINES, PARATICK_TICKS},
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
        explain::averages(set).into_iter().for_each(|text| section.text(text));
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
    let title = format!("{}: relative to {baseline}", number::capital(&set.name()));
    let all = set.versus(baseline);
    let changes: Vec<_> = all.iter().map(|versus| Changes::of(set, *versus)).collect();
    let rows = rows(&changes);
    let caption = caption(set, baseline, kind, &changes);
    let description = describe(&changes);
    let printed = |metric| all.iter().find_map(|versus| set.printed(metric, *versus));
    let panel = |metric: Metric| Panel {
        title: set.name_of(metric).into(),
        label: format!("change, % ({})", metric.better()),
        paper: printed(metric),
    };
    let forest = Forest { panels: Metric::ALL.map(panel).into(), rows };
    let id = format!("fig-{}-{baseline}", set.slug());
    Figure::block(&id, caption, table, |size| forest.draw(size, &id, &title, &description))
}

/// Of one mode, in every metric: each benchmark's.
struct Changes<'a> {
    versus: Versus,
    per_metric: [Vec<(&'a str, Option<Change>)>; 3],
}

impl<'a> Changes<'a> {
    fn of(set: &Set<'a>, versus: Versus) -> Self {
        Changes { versus, per_metric: Metric::ALL.map(|metric| set.changes(metric, versus)) }
    }

    fn names(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.per_metric[0].iter().map(|(name, _)| *name)
    }

    fn row(&self, label: &str, name: &str) -> Row {
        let find = |changes: &Vec<(&str, Option<Change>)>| {
            changes.iter().find(|(other, _)| *other == name).and_then(|(_, change)| *change)
        };
        let changes = self.per_metric.iter().map(find).collect();
        Row { label: label.into(), average: false, changes }
    }

    fn average(&self, label: String) -> Row {
        let changes = self.per_metric.iter().map(|changes| average(changes)).collect();
        Row { label, average: true, changes }
    }
}

/// Each benchmark's in every mode, the second named by its mode; then the averages.
fn rows(all: &[Changes]) -> Vec<Row> {
    let mut rows = Vec::new();
    for name in all.iter().take(1).flat_map(Changes::names) {
        for (nth, one) in all.iter().enumerate() {
            let mode = format!("… {}", one.versus.mode);
            rows.push(one.row(if nth == 0 { name } else { &mode }, name));
        }
    }
    let averages = all.iter().enumerate().map(|(nth, one)| {
        one.average(if nth == 0 { "average".into() } else { format!("… {}", one.versus.mode) })
    });
    rows.extend(averages);
    rows
}

fn caption(set: &Set, baseline: Mode, kind: &Kind, all: &[Changes]) -> String {
    let modes: Vec<String> = all.iter().map(|one| format!("`{}`", one.versus.mode)).collect();
    let mut text = format!(
        "After {} of the paper. Change of VM exits, system throughput and execution time by {} \
         against `{baseline}`, in per cent, for each benchmark ({} in each mode), with intervals \
         (an arrow: it goes on). The average is the geometric mean.",
        kind.figure,
        modes.join(", and below it by "),
        set.samples()
    );
    if all.iter().any(|one| set.printed(Metric::Exits, one.versus).is_some()) {
        text += &format!(
            " Dashed: the average that the paper prints; `{PARATICK_TICKS}` is nearest to its mode."
        );
    }
    if let Some(cost) = set.main().environment.configuration.exit_cost_ns {
        text += &format!(" A world switch costs {cost} ns.");
    }
    text.extend(all.iter().flat_map(|one| unmeasured(one, all.len() > 1)));
    text
}

/// Metrics that were not measured on every benchmark.
fn unmeasured(one: &Changes, named: bool) -> Vec<String> {
    let mode = if named { format!(" of {}", one.versus.mode) } else { String::new() };
    let told = Metric::ALL.iter().zip(&one.per_metric).filter_map(|(metric, changes)| {
        let measured = changes.iter().filter(|(_, change)| change.is_some()).count();
        let (name, all) = (metric.name(), changes.len());
        let some = measured < all;
        some.then(|| format!(" {name}{mode}: measured on {measured} of {all}."))
    });
    told.collect()
}

fn describe(all: &[Changes]) -> String {
    let averages = |one: &Changes| {
        let words = Metric::ALL.iter().zip(&one.per_metric).map(|(metric, changes)| {
            format!("{} {}", metric.name(), change::text(average(changes)))
        });
        let words: Vec<String> = words.collect();
        format!("{}: {}", one.versus.mode, words.join("; "))
    };
    let averages: Vec<String> = all.iter().map(averages).collect();
    format!(
        "Three panels with rows for each of {}. On average, {}. The table after the figure has \
         every number.",
        number::plural(all.first().map_or(0, |one| one.names().count()), "benchmark"),
        averages.join(". ")
    )
}
