// SPDX-License-Identifier: GPL-2.0-only
//! Table 1: measured, printed, and as a model has it.

use super::samples;
use crate::{
    number,
    page::{Block, Figure, Section, Table},
    paper,
    select::{Selection, Set},
    svg::rates::{Group, Rate, Rates},
};
use paratick_core::{
    cause::Cause,
    mode::{Mode, TickMode},
    results::{Cell, Figure as Counted},
    stats::{self, Observation, Summary},
};

/// What a model says of one cell of Table 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// `W1` to `W4`.
    pub workload: String,
    pub mode: Mode,
    /// Exits for the guest's own timer, of one vCPU in one second.
    pub per_vcpu_second: f64,
}

/// One mode of one workload.
struct Entry<'a> {
    cell: &'a Cell,
    guests: u32,
    /// `2 boots × 2 runs`.
    samples: String,
    /// Exits for the guest's own timer, of one vCPU in one second.
    rate: Option<Summary>,
}

pub fn section(selection: &Selection, predictions: &[Prediction]) -> Option<Section> {
    let sets: Vec<&Set> = selection.of("table1").collect();
    let entries = entries(&sets);
    if entries.is_empty() {
        return None;
    }
    let mut section = Section::new(
        "table1",
        "Timer exits of idle and of blocking guests (Table 1 of the paper)",
    );
    section.text("The paper computes Table 1 from its formulas; here it is measured. Its numbers are for 16 vCPUs in each VM and 10 seconds at 250 Hz, and these are for what is in the table below, so both are given for one vCPU and one second. Counted are the exits for the guest's own timer: arm, stop and expiry. `paratick model table1` derives the printed numbers.");
    section.list(settings());
    let title = "Exits for the guest's timer, per vCPU and second";
    let table = table(title, &entries, predictions);
    let rates = Rates {
        label: "timer exits, % of the workload's largest".into(),
        groups: groups(&entries, predictions),
    };
    let description = format!(
        "Bars for {} of workload and mode, with the paper's printed value as a line. The table after the figure has every number.",
        number::plural(entries.len(), "pair")
    );
    let caption = "Exits for the guest's timer, per vCPU and second, measured (bar, with interval), as printed in Table 1 of the paper (line; its tickless is `tickless-stop`), and by the model of the mode for the load that was measured (hollow circle), where that is known. Each workload has its own scale; the number at a bar's end is the median.".into();
    section
        .blocks
        .push(Figure::block("fig-table1", caption, table, |size| {
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
    let names = match of("W4") == Some(threads) {
        true => "W3 and W4",
        false => "W3",
    };
    let printed = paper::table1_rate("W3", TickMode::TicklessStop)?;
    Some(Block::Text {
        text: format!(
            "In {names} here, a synchronization lets {} of {threads} threads sleep and wake again; the paper does not say how many. `paratick model table1` lists the readings of its formulas that give the printed {} for W3 in `tickless-stop`.",
            threads - 1,
            number::count(printed)
        ),
    })
}

fn settings() -> Vec<String> {
    let settings = paper::TABLE1.iter();
    settings
        .map(|(name, _, what)| format!("{name}: {what}."))
        .collect()
}

/// In the paper's order of workloads, then others.
fn entries<'a>(sets: &[&Set<'a>]) -> Vec<Entry<'a>> {
    let mut entries = Vec::new();
    for set in sets {
        let guests = set.main().plan.guests;
        for cell in &set.main().cells {
            let rate = stats::summarize(&rates(cell, guests));
            entries.push(Entry {
                cell,
                guests,
                samples: samples::in_words(set),
                rate,
            });
        }
    }
    let order = |entry: &Entry| {
        let known = paper::TABLE1
            .iter()
            .position(|(name, ..)| *name == entry.cell.workload);
        known.unwrap_or(paper::TABLE1.len())
    };
    entries.sort_by_key(order);
    entries
}

/// Exits for the guest's own timer of one vCPU in one second, in every sample that has them.
fn rates(cell: &Cell, guests: u32) -> Vec<Observation> {
    let vcpus = f64::from(cell.vcpus * guests);
    let rate = |sample: &paratick_core::results::Sample| {
        let causes = sample.exits_by_cause.as_ref()?;
        let own = [Cause::Arm, Cause::Stop, Cause::Expiry];
        let exits: u64 = own.iter().filter_map(|cause| causes.get(cause)).sum();
        let seconds = sample.duration_ns? as f64 / 1e9;
        let rate = exits as f64 / vcpus / seconds;
        rate.is_finite().then_some(rate)
    };
    let observe = |sample: &paratick_core::results::Sample| {
        Some(Observation {
            round: sample.round,
            value: rate(sample)?,
        })
    };
    cell.samples.iter().filter_map(observe).collect()
}

fn printed_rate(cell: &Cell) -> Option<f64> {
    (!cell.mode.poll).then(|| paper::table1_rate(&cell.workload, cell.mode.tick))?
}

fn predicted<'p>(
    cell: &'p Cell,
    predictions: &'p [Prediction],
) -> impl Iterator<Item = &'p Prediction> {
    predictions
        .iter()
        .filter(|prediction| prediction.workload == cell.workload && prediction.mode == cell.mode)
}

fn groups(entries: &[Entry], predictions: &[Prediction]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for entry in entries {
        let cell = entry.cell;
        let rate = Rate {
            label: cell.mode.to_string(),
            measured: entry.rate,
            printed: printed_rate(cell),
            modelled: predicted(cell, predictions)
                .map(|p| p.per_vcpu_second)
                .collect(),
        };
        let title = format!(
            "{}: {} with {}",
            cell.workload,
            number::plural(entry.guests as usize, "guest"),
            number::plural(cell.vcpus as usize, "vCPU")
        );
        match groups.last_mut() {
            Some(group) if group.title == title => group.rates.push(rate),
            _ => groups.push(Group {
                title,
                rates: vec![rate],
            }),
        }
    }
    groups
}

fn table(caption: &str, entries: &[Entry], predictions: &[Prediction]) -> Table {
    let mut table = Table::new(
        caption,
        [
            "Mode",
            "Measured",
            "Printed, per vCPU and s",
            "Printed in Table 1",
            "Counted, all",
            "Host's ticks",
            "Duration, s",
        ],
    );
    if !predictions.is_empty() {
        table.columns.push("Modelled".into());
    }
    let mut last = None;
    for entry in entries {
        let cell = entry.cell;
        let place = (&cell.workload, entry.guests, cell.vcpus);
        if last.replace(place) != Some(place) {
            table.group(format!(
                "{}: {} with {}, {} in each mode",
                cell.workload,
                number::plural(entry.guests as usize, "guest"),
                number::plural(cell.vcpus as usize, "vCPU"),
                entry.samples
            ));
        }
        let mut cells = row(entry);
        if !predictions.is_empty() {
            let models = predicted(cell, predictions);
            let models: Vec<_> = models.map(|p| number::decimal(p.per_vcpu_second)).collect();
            cells.push(if models.is_empty() {
                "–".into()
            } else {
                models.join("; ")
            });
        }
        table.row(cell.mode.to_string(), cells);
    }
    table
}

fn row(entry: &Entry) -> Vec<String> {
    let cell = entry.cell;
    let tick: TickMode = cell.mode.tick;
    let printed = |value: Option<f64>| value.map_or("–".into(), number::count);
    let total = paper::table1(&cell.workload, tick).filter(|_| !cell.mode.poll);
    let host_ticks = cell.summary(Counted::Cause(Cause::HostTick));
    vec![
        number::interval(entry.rate, number::decimal),
        printed(printed_rate(cell)),
        printed(total),
        number::interval(own_exits(cell), number::count),
        number::interval(host_ticks, number::count),
        number::interval(cell.summary(Counted::DurationNs), |ns| {
            number::decimal(ns / 1e9)
        }),
    ]
}

/// Exits for the guest's own timer.
fn own_exits(cell: &Cell) -> Option<Summary> {
    let timer = cell.observations(Counted::TimerExits);
    let host = cell.observations(Counted::Cause(Cause::HostTick));
    let own = timer.iter().zip(&host).map(|(timer, host)| Observation {
        round: timer.round,
        value: timer.value - host.value,
    });
    stats::summarize(&own.collect::<Vec<_>>())
}
