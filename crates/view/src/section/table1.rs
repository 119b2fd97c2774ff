// SPDX-License-Identifier: GPL-2.0-only
//! Table 1: measured, printed, and as a model has it.

use crate::{
    number,
    page::{Block, Figure, Section},
    paper,
    set::{Selection, Set},
    svg::rates::{Group, Rate, Rates},
    tables::table1::{entries, table, Entry},
};
use paratick_core::{mode::TickMode, model::table1::SCENARIOS};

pub fn section(selection: &Selection) -> Option<Section> {
    let sets: Vec<&Set> = selection.of("table1").collect();
    let entries = entries(&sets);
    if entries.is_empty() {
        return None;
    }
    let mut section =
        Section::new("table1", "Timer exits of idle and of blocking guests (Table 1 of the paper)");
    section.text(
        "The paper computes Table 1 from its formulas; here it is measured. Its numbers \
        are for 16 vCPUs in each VM and 10 seconds at 250 Hz, and these are for what is in the \
        table below, so both are given for one vCPU and one second. Counted are the exits for the \
        guest's own timer: arm, stop and expiry. `paratick model table1` derives the printed \
        numbers.",
    );
    section.list(settings());
    let title = "Exits for the guest's timer, per vCPU and second";
    let table = table(&entries);
    let rates = Rates {
        label: "timer exits, % of the workload's largest".into(),
        groups: groups(&entries),
    };
    let description = format!(
        "Bars for {} of workload and mode, with the paper's printed value as a line. The table \
         after the figure has every number.",
        number::plural(entries.len(), "pair")
    );
    let caption = "Exits for the guest's timer, per vCPU and second, measured (bar, with \
        interval), as printed in Table 1 of the paper (line; its tickless is `tickless-stop`), and \
        by the model of the mode for the load that was measured (hollow circle), where that is \
        known. Each workload has its own scale; the number at a bar's end is the median."
        .into();
    section.blocks.push(Figure::block("fig-table1", caption, table, |size| {
        rates.draw(size, "fig-table1", title, &description)
    }));
    section.blocks.extend(synchronization(&sets));
    Some(section)
}

/// What W3's number depends on, which the paper does not say.
fn synchronization(sets: &[&Set]) -> Option<Block> {
    let of = |name: &str| {
        let has = |set: &&&Set| set.workloads().iter().any(|(other, _)| *other == name);
        sets.iter().find(has).map(|set| set.vcpus())
    };
    let threads = of("W3")?;
    let names = if of("W4") == Some(threads) { "W3 and W4" } else { "W3" };
    let printed = paper::table1_rate("W3", TickMode::TicklessStop)?;
    Some(Block::Text {
        text: format!(
            "In {names} here, a synchronization lets {} of {threads} threads sleep and wake again; \
             the paper does not say how many. `paratick model table1` lists the readings of its \
             formulas that give the printed {} for W3 in `tickless-stop`.",
            threads - 1,
            number::count(printed)
        ),
    })
}

fn settings() -> Vec<String> {
    SCENARIOS.iter().map(|one| format!("{}: {}.", one.name, one.about)).collect()
}

fn groups(entries: &[Entry]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for entry in entries {
        let rate = Rate {
            label: entry.cell.subject.to_string(),
            measured: entry.rate,
            printed: entry.printed,
            modelled: entry.modelled,
        };
        match groups.last_mut() {
            Some(group) if group.title == entry.title() => group.rates.push(rate),
            _ => groups.push(Group { title: entry.title(), rates: vec![rate] }),
        }
    }
    groups
}
