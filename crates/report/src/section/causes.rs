// SPDX-License-Identifier: GPL-2.0-only
//! Exits by cause, of every workload in every mode.

use crate::{
    number,
    page::{Block, Figure, Section, Table},
    select::{Selection, Set},
    svg::bars::{Bar, Bars, Group},
};
use paratick_core::{
    cause::Cause,
    results::{Cell, Figure as Counted},
};

/// A chart with more bars does not fit a page of paper.
const BARS: usize = 60;

type Workload<'a> = (&'a str, Vec<&'a Cell>);

pub fn section(selection: &Selection) -> Option<Section> {
    let counted = |set: &&Set| {
        set.workloads()
            .iter()
            .flat_map(|(_, cells)| cells)
            .any(|cell| has_causes(cell))
    };
    let sets: Vec<&Set> = selection.all().iter().filter(counted).collect();
    if sets.is_empty() {
        return None;
    }
    let mut section = Section::new("causes", "Exits by cause");
    section.text("Every VM exit has one cause, decided by rules that `docs/measuring.md` states. The first four have to do with ticks and timers; the others are the workload's own.");
    section.list(legend());
    for set in sets {
        let name = set.name();
        section.heading(format!("causes-{}", set.slug()), format!("Causes: {name}"));
        let parts = parts(set);
        for (number, part) in parts.iter().enumerate() {
            let nth = match parts.len() {
                1 => String::new(),
                of => format!(" ({} of {of})", number + 1),
            };
            let title = format!("VM exits by cause, {name}{nth}");
            let id = format!("fig-causes-{}-{number}", set.slug());
            section.blocks.push(figure(&id, &title, part));
        }
    }
    Some(section)
}

fn legend() -> Vec<String> {
    let what = |cause| match cause {
        Cause::Arm => "the guest arms its timer",
        Cause::Stop => "the guest stops its timer",
        Cause::Expiry => "the guest's timer expires while the guest runs",
        Cause::HostTick => "the host's own timer interrupt",
        Cause::Halt => "the vCPU has nothing to do",
        Cause::Ipi => "an interrupt from one vCPU to another",
        Cause::Eoi => "the guest acknowledges an interrupt",
        Cause::Io => "input or output, or a device's interrupt",
        Cause::Other => "anything else",
    };
    let items = Cause::ALL.into_iter();
    items
        .map(|cause| format!("`{cause}`: {}.", what(cause)))
        .collect()
}

fn has_causes(cell: &Cell) -> bool {
    cell.summary(Counted::TimerExits).is_some()
}

/// The workloads in as many charts as it takes.
fn parts<'a>(set: &Set<'a>) -> Vec<Vec<Workload<'a>>> {
    let mut parts: Vec<Vec<Workload>> = vec![Vec::new()];
    let mut bars = 0;
    for (name, cells) in set.workloads() {
        if bars > 0 && bars + cells.len() > BARS {
            parts.push(Vec::new());
            bars = 0;
        }
        bars += cells.len();
        if let Some(part) = parts.last_mut() {
            part.push((name, cells));
        }
    }
    parts
}

fn figure(id: &str, title: &str, workloads: &[Workload]) -> Block {
    let bars = Bars {
        groups: workloads.iter().map(group).collect(),
    };
    let description = format!(
        "A group of stacked bars for each of {}, a bar for each mode. The table after the figure has every number.",
        number::plural(workloads.len(), "workload")
    );
    let caption = format!("{title}. Medians; all bars of a workload are drawn to one scale, in per cent of its longest, and the number at a bar's end is the median of all exits. The sum of medians may differ from it a little.");
    Figure::block(id, caption, table(title, workloads), |size| {
        bars.draw(size, id, title, &description)
    })
}

fn group((name, cells): &Workload) -> Group {
    let first = cells[0];
    let bar = |cell: &&Cell| Bar {
        label: cell.mode.to_string(),
        total: cell.summary(Counted::Exits).map(|summary| summary.median),
        parts: Cause::ALL
            .into_iter()
            .filter_map(|cause| Some((cause, cell.summary(Counted::Cause(cause))?.median)))
            .collect(),
    };
    Group {
        title: match first.work {
            // Its unit is in the plural.
            1 => name.to_string(),
            work => format!("{name}: {} {}", number::count(work as f64), first.unit),
        },
        bars: cells.iter().map(bar).collect(),
    }
}

fn table(caption: &str, workloads: &[Workload]) -> Table {
    let mut table = Table::new(caption, ["Mode", "All exits"]);
    table
        .columns
        .extend(Cause::ALL.map(|cause| cause.name().to_string()));
    for (name, cells) in workloads {
        table.group(*name);
        for cell in cells {
            let median = |figure| {
                let summary = cell.summary(figure);
                summary.map_or(number::NOTHING.into(), |summary| {
                    number::count(summary.median)
                })
            };
            let all = number::interval(cell.summary(Counted::Exits), number::count);
            let causes = Cause::ALL.map(|cause| median(Counted::Cause(cause)));
            table.row(
                cell.mode.to_string(),
                [all].into_iter().chain(causes).collect(),
            );
        }
    }
    table
}
