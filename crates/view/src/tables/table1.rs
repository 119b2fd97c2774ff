// SPDX-License-Identifier: GPL-2.0-only
//! Table 1 of the paper: measured, printed, and as a model has it.

use crate::{
    number::{self, count, decimal, interval, plural},
    paper,
    set::Set,
    table::Table,
};
use paratick_core::{
    cause::Cause,
    model::{
        measured,
        table1::{HZ, SCENARIOS},
        TickModel,
    },
    results::{Cell, Figure, Results, Sample},
    stats::{self, Observation, Summary},
};

/// The exits for the guest's own timer; the host ticks whatever the guest does.
const OWN: [Cause; 3] = [Cause::Arm, Cause::Stop, Cause::Expiry];

/// One mode of one workload.  Rates are of one vCPU in one second.
pub struct Entry<'a> {
    pub cell: &'a Cell,
    pub guests: u32,
    /// `2 boots × 2 runs`.
    samples: String,
    pub rate: Option<Summary>,
    pub printed: Option<f64>,
    /// What the model says for the load that was measured.
    pub modelled: Option<f64>,
}

impl Entry<'_> {
    /// `W1: 1 guest with 16 vCPUs`
    pub fn title(&self) -> String {
        format!(
            "{}: {} with {}",
            self.cell.workload,
            plural(self.guests as usize, "guest"),
            plural(self.cell.vcpus as usize, "vCPU")
        )
    }
}

/// In the paper's order of workloads, then others.
pub fn entries<'a>(sets: &[&Set<'a>]) -> Vec<Entry<'a>> {
    let mut entries = Vec::new();
    for set in sets {
        let results = set.main();
        let guests = results.plan.guests;
        let paper_hz = results.environment.configuration.hz.is_none_or(|hz| hz == HZ);
        entries.extend(results.cells.iter().map(|cell| {
            Entry {
                cell,
                guests,
                samples: set.samples(),
                rate: stats::summarize(&rates(cell, guests)),
                printed: (paper_hz && !cell.subject.mode.polls())
                    .then(|| paper::table1_rate(&cell.workload, cell.subject.mode.tick))
                    .flatten(),
                modelled: modelled(results, cell),
            }
        }));
    }
    let known = |entry: &Entry| SCENARIOS.iter().position(|one| one.name == entry.cell.workload);
    entries.sort_by_key(|entry| known(entry).unwrap_or(SCENARIOS.len()));
    entries
}

/// In every sample that has them.
fn rates(cell: &Cell, guests: u32) -> Vec<Observation> {
    let vcpus = f64::from(cell.vcpus * guests);
    let observe = |sample: &Sample| {
        let counts = sample.exits.as_ref()?;
        let exits: u64 = OWN.iter().map(|cause| counts.cause(*cause)).sum();
        let value = exits as f64 / vcpus / (sample.duration_ns? as f64 / 1e9);
        let round = sample.round;
        value.is_finite().then_some(Observation { round, value })
    };
    cell.samples().iter().filter_map(observe).collect()
}

fn modelled(results: &Results, cell: &Cell) -> Option<f64> {
    let observed = measured::observe_cell(results, cell);
    let seconds: Vec<f64> = observed.iter().map(|one| one.time.seconds()).collect();
    let predicted = measured::predict_all(TickModel::of(cell.subject.mode), &observed)?;
    let exits: f64 = OWN.iter().filter_map(|cause| predicted.by_cause.get(cause)).sum();
    let vcpus = f64::from(results.plan.guests * cell.vcpus);
    Some(exits / (vcpus * stats::median(&seconds)?))
}

pub fn table(entries: &[Entry]) -> Table {
    let mut table = Table::new(
        "Exits for the guest's timer, per vCPU and second, beside Table 1 of the paper",
        [
            "Mode",
            "Measured",
            "Printed",
            "Modelled",
            "Printed in all",
            "Counted in all",
            "Host's ticks",
            "Duration, s",
        ],
    );
    let mut last = String::new();
    for entry in entries {
        let title = format!("{}, {} in each mode", entry.title(), entry.samples);
        if last != title {
            table.group(&title);
            last = title;
        }
        let cell = entry.cell;
        let total = paper::table1(&cell.workload, cell.subject.mode.tick)
            .filter(|_| !cell.subject.mode.polls());
        table.row(
            cell.subject.to_string(),
            [
                interval(entry.rate, decimal),
                number::or_nothing(entry.printed, count),
                number::or_nothing(entry.modelled, decimal),
                number::or_nothing(total, count),
                interval(own_exits(cell), count),
                interval(cell.summary(Figure::Cause(Cause::HostTick)), count),
                interval(cell.summary(Figure::DurationNs), |ns| decimal(ns / 1e9)),
            ],
        );
    }
    table.without_empty_columns()
}

fn own_exits(cell: &Cell) -> Option<Summary> {
    let timer = cell.observations(Figure::TimerExits);
    let host = cell.observations(Figure::Cause(Cause::HostTick));
    let own = timer
        .iter()
        .zip(&host)
        .map(|(timer, host)| Observation { round: timer.round, value: timer.value - host.value });
    stats::summarize(&own.collect::<Vec<_>>())
}
