// SPDX-License-Identifier: GPL-2.0-only
//! Exits by cause, of every workload in every mode.

use crate::{
    number,
    page::{Block, Figure, Section},
    set::{Selection, Set},
    svg::bars::{Bar, Bars, Group},
    table::Table,
    tables::bench,
};
use paratick_core::{
    cause::{Cause, Facts, Noted},
    reason,
    results::{Cell, Figure as Counted, Sample},
};
use std::{cmp::Reverse, collections::BTreeMap};

/// A chart with more bars does not fit a page of paper.
const BARS: usize = 60;

type Workload<'a> = (&'a str, Vec<&'a Cell>);

pub fn section(selection: &Selection) -> Option<Section> {
    let has_causes = |cell: &&Cell| cell.summary(Counted::TimerExits).is_some();
    let counted = |set: &&Set| set.workloads().iter().flat_map(|(_, cells)| cells).any(has_causes);
    let sets: Vec<&Set> = selection.sets.iter().filter(counted).collect();
    if sets.is_empty() {
        return None;
    }
    let mut section = Section::new("causes", "Exits by cause");
    section.text(
        "Every VM exit has one cause, decided by rules that `docs/measuring.md` states. \
        The first five have to do with ticks and timers. The others are not the workload's alone: \
        how often a vCPU halts and how often vCPUs wake each other depends on the mode, too.",
    );
    section.list(legend());
    section.blocks.extend(windows(&sets));
    for set in sets {
        let name = set.name();
        section.heading(format!("causes-{}", set.slug()), format!("Causes: {name}"));
        if let Some(text) = others(set) {
            section.text(text);
        }
        let parts = parts(set);
        for (number, part) in parts.iter().enumerate() {
            let nth = match parts.len() {
                1 => String::new(),
                of => format!(" ({} of {of})", number + 1),
            };
            let title = format!("VM exits by cause, {name}{nth}");
            let id = format!("fig-causes-{}-{number}", set.slug());
            section.blocks.push(figure(&id, &title, &set.samples(), part));
        }
    }
    Some(section)
}

/// KVM's names of exits for an interrupt window, on AMD's and Intel's processors.
const WINDOWS: [&str; 2] = ["vintr", "INTERRUPT_WINDOW"];

/// What interrupt windows have to do with ticks, where there are any.
fn windows(sets: &[&Set]) -> Option<Block> {
    let has = |name: &&&str| {
        let mut samples = sets.iter().flat_map(|set| samples_of(set));
        samples.any(|sample| {
            let reasons = sample.exits.as_ref().map(|exits| &exits.by_reason);
            reasons.and_then(|reasons| reasons.get(**name)) > Some(&0)
        })
    };
    let name = WINDOWS.iter().find(has)?;
    Some(Block::Text {
        text: format!(
            "In `other` are interrupt windows (`{name}`): where the processor does not \
            deliver interrupts itself (AVIC, APICv), KVM asks for one when it has an interrupt \
            that the guest cannot take at once. They follow the guest's interrupts, those of its \
            timer included, so a mode changes them as well."
        ),
    })
}

fn samples_of<'a>(set: &Set<'a>) -> impl Iterator<Item = &'a Sample> {
    set.main().cells.iter().flat_map(|cell| cell.samples())
}

const REASONS: usize = 4;

/// The reasons of the exits in `other`, all modes and workloads together.  None where there are no
/// such exits or no reasons.
fn others(set: &Set) -> Option<String> {
    let mut all = 0;
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for sample in samples_of(set) {
        let Some(exits) = &sample.exits else { continue };
        all += exits.cause(Cause::Other);
        for (reason, count) in exits.by_reason.iter().filter(|(reason, _)| is_always_other(reason))
        {
            *counts.entry(reason).or_default() += count;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(reason, count)| (Reverse(*count), *reason));
    let share = |count: u64| format!("{} %", number::count(100.0 * count as f64 / all as f64));
    // Less than one in two hundred would be 0 %.
    counts.retain(|(_, count)| 200 * count >= all && *count > 0);
    counts.truncate(REASONS);
    let mut parts: Vec<String> =
        counts.iter().map(|(reason, count)| format!("`{reason}` {}", share(*count))).collect();
    if parts.is_empty() {
        return None;
    }
    let named: u64 = counts.iter().map(|(_, count)| count).sum();
    if 200 * all.saturating_sub(named) >= all {
        parts.push(format!("further reasons {}", share(all - named)));
    }
    Some(format!("`other` of all these runs together, by KVM's reason: {}.", number::list(&parts)))
}

/// Whether exits of this reason have no other cause, whatever else is known of them.
fn is_always_other(reason: &str) -> bool {
    let causes = |(isa, code)| {
        let calls = Facts::HYPERCALL;
        let facts = [Facts::default(), Facts::MMIO, Facts::TIMER, calls];
        // KVM's hypercall that sends IPIs.
        facts.map(|facts| Noted { isa, code, detail: 10, facts }.cause())
    };
    let other = |causes: [Cause; 4]| causes.iter().all(|cause| *cause == Cause::Other);
    // Unknown reasons have no rule.
    !reason::is_msr(reason) && reason::find(reason).is_none_or(|code| other(causes(code)))
}

fn legend() -> Vec<String> {
    let items = Cause::ALL.into_iter();
    items.map(|cause| format!("`{cause}`: {}.", cause.about())).collect()
}

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

fn figure(id: &str, title: &str, counts: &str, workloads: &[Workload]) -> Block {
    let bars = Bars { groups: workloads.iter().map(group).collect() };
    let description = format!(
        "A group of stacked bars for each of {}, a bar for each mode. The table after the figure \
         has every number.",
        number::plural(workloads.len(), "workload")
    );
    let caption = format!(
        "{title}. Medians of {counts}; all bars of a workload are drawn to one \
        scale, in per cent of its longest, and the number at a bar's end is the median of all \
        exits. The sum of medians may differ from it a little."
    );
    Figure::block(id, caption, table(title, workloads), |size| {
        bars.draw(size, id, title, &description)
    })
}

fn group((_, cells): &Workload) -> Group {
    let bar = |cell: &&Cell| Bar {
        label: cell.subject.to_string(),
        total: cell.median(Counted::Exits),
        parts: Cause::ALL
            .into_iter()
            .filter_map(|cause| Some((cause, cell.median(Counted::Cause(cause))?)))
            .collect(),
    };
    Group { title: bench::title(cells[0]), bars: cells.iter().map(bar).collect() }
}

/// A column for each cause that occurs.
fn table(caption: &str, workloads: &[Workload]) -> Table {
    let cells = || workloads.iter().flat_map(|(_, cells)| cells);
    let median = |cell: &Cell, cause| cell.median(Counted::Cause(cause));
    let occurs = |cause: &Cause| cells().any(|cell| median(cell, *cause).unwrap_or(0.0) > 0.0);
    let causes: Vec<Cause> = Cause::ALL.into_iter().filter(occurs).collect();
    let head = ["Mode", "All exits"].into_iter();
    let names = causes.iter().map(|cause| cause.name());
    let mut table = Table::new(caption, head.chain(names));
    for (name, cells) in workloads {
        table.group(*name);
        for cell in cells {
            let all = number::interval(cell.summary(Counted::Exits), number::count);
            let medians = causes.iter().map(|cause| median(cell, *cause));
            let medians = medians.map(|median| number::or_nothing(median, number::count));
            table.row(cell.subject.to_string(), [all].into_iter().chain(medians));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_with_several_causes_are_not_counted_as_other() {
        for reason in ["vintr", "cpuid", "vmrun", "CPUID", "0x123"] {
            assert!(is_always_other(reason), "{reason}");
        }
        for reason in
            ["hlt", "io", "npf", "interrupt", "msr_write", "MSR_WRITE", "hypercall", "VMCALL"]
        {
            assert!(!is_always_other(reason), "{reason}");
        }
    }
}
