// SPDX-License-Identifier: GPL-2.0-only
//! What a bench stores: one self-contained JSON document.  The comments of all fields that are
//! written, up to the first empty line, are what docs/results.md says of them.
//!
//! A figure that was not measured is `null`, never 0.

mod balance;
mod crowd;
mod environment;
mod facts;
mod figure;
mod mileage;
mod noise;
mod plan;
mod problem;
mod read;
mod sample;
mod upgrade;

pub use balance::{Balance, BalanceRow};
pub use crowd::{wake_ups_of_each, Cost, Crowd, Slope};
pub use environment::{Configuration, Environment, Machine, QemuCommandLines};
pub use facts::{differences, Compare, Difference, Fact, Meets, FACTS};
pub use figure::Figure;
pub use mileage::{Measure, Mileage, Row, Rung};
pub use noise::{Claim, Effects, Factorial, Held, NoiseFigure, Sign, CLAIMS};
pub use plan::{Plan, PlannedWorkload, Program, Sampler};
pub use problem::{Boot, Doing, Fault, Problem};
pub use read::{read, ReadError};
pub use sample::{HostCpuSample, Sample};

use crate::{
    cycle::IdleCycle,
    halts::RunHalts,
    idle::IdleEntries,
    mode::{Mode, Polling, TickMode},
    stats::{self, Comparison, Observation, Summary, Verdict},
    subject::Subject,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name and major version of the format.  Fields may be added within a version; a reader ignores
/// those that it does not know.
pub const SCHEMA: &str = "paratick-results/4";

/// A results file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Results {
    /// Name and version of the format: `paratick-results/4`.
    pub schema: String,
    /// Of the program that wrote the file.
    pub tool_version: String,
    /// Which bench: `quick`, `table1`, `io`, … as in `paratick bench`.
    pub bench: String,
    /// The command line that made it; empty: not recorded.
    #[serde(default)]
    pub command: Vec<String>,
    /// RFC 3339, UTC.
    pub started: String,
    /// What was to be measured.
    pub plan: Plan,
    /// What the numbers depend on.
    pub environment: Environment,
    /// One for every workload and subject.
    pub cells: Vec<Cell>,
    /// What went wrong beyond single samples.
    ///
    /// A guest that did not boot, a console's complaint.
    #[serde(default)]
    pub problems: Vec<Problem>,
}

/// One workload on one subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cell {
    /// Its name.
    pub workload: String,
    /// vCPUs of each guest, as in the plan.
    pub vcpus: u32,
    /// In which mode the guest ran, and on what host.
    pub subject: Subject,
    /// Units of work of one run, all guests together.
    pub work: u64,
    /// What a unit of work is, in the plural.
    pub unit: String,
    /// What instruments read.
    pub readings: Readings,
}

/// By instrument; `null`: it was not asked.
///
/// A new instrument is a field here, which older files do not have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Readings {
    /// What was counted in every run.
    #[serde(default)]
    pub exits: Exits,
    /// Why the kernel kept its tick.
    ///
    /// In a run that is none of the samples: to count it takes time.
    pub idle: Option<IdleEntries>,
    /// One idle cycle, from a trace.
    pub cycle: Option<IdleCycle>,
    /// How vCPUs halted, in a run of its own.
    pub halts: Option<RunHalts>,
    /// A run on the host, without any guest.
    ///
    /// On the pCPUs of the guests' vCPUs; for one subject of each of the host's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_ns: Option<u64>,
}

/// Counts of every run, and what follows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Exits {
    /// One for every run.
    pub samples: Vec<Sample>,
    /// By figure; `null` where no sample has it.
    #[serde(default, deserialize_with = "read::known")]
    pub summary: BTreeMap<Figure, Option<Summary>>,
    /// By baseline, then by figure; `null` without a ratio.
    #[serde(default, deserialize_with = "read::known_of_each")]
    pub versus: BTreeMap<String, BTreeMap<Figure, Option<Comparison>>>,
}

impl Results {
    /// In which nothing is measured yet.
    pub fn new(bench: &str, plan: Plan) -> Results {
        Results {
            schema: SCHEMA.into(),
            tool_version: env!("CARGO_PKG_VERSION").into(),
            bench: bench.into(),
            plan,
            ..Results::default()
        }
    }

    pub fn cell(&self, workload: &str, subject: impl Into<Subject>) -> Option<&Cell> {
        let subject = subject.into();
        let mut cells = self.cells.iter();
        cells.find(|cell| cell.workload == workload && cell.subject == subject)
    }

    fn cell_mut(&mut self, workload: &str, subject: Subject) -> Option<&mut Cell> {
        let mut cells = self.cells.iter_mut();
        cells.find(|cell| cell.workload == workload && cell.subject == subject)
    }

    /// The readings of a cell, which is made if they are the first.
    pub fn readings(&mut self, planned: &PlannedWorkload, subject: Subject) -> &mut Readings {
        let is_it = |cell: &Cell| cell.workload == planned.workload && cell.subject == subject;
        let place = self.cells.iter().position(is_it).unwrap_or_else(|| {
            self.cells.push(Cell {
                workload: planned.workload.clone(),
                vcpus: self.plan.vcpus,
                subject,
                work: planned.work,
                unit: planned.unit.clone(),
                readings: Readings::default(),
            });
            self.cells.len() - 1
        });
        &mut self.cells[place].readings
    }

    pub fn add(&mut self, planned: &PlannedWorkload, subject: impl Into<Subject>, sample: Sample) {
        self.readings(planned, subject.into()).exits.samples.push(sample);
    }

    /// Keeps them with the samples of the same guest, if there are any.
    pub fn set_idle_entries(&mut self, workload: &str, subject: Subject, entries: IdleEntries) {
        if let Some(cell) = self.cell_mut(workload, subject) {
            cell.readings.idle = Some(entries);
        }
    }

    /// The same of a run's halts.
    pub fn set_halts(&mut self, workload: &str, subject: Subject, halts: RunHalts) {
        if let Some(cell) = self.cell_mut(workload, subject) {
            cell.readings.halts = Some(halts);
        }
    }

    /// The same of a run on the host itself.
    pub fn set_native(&mut self, workload: &str, subject: Subject, ns: u64) {
        if let Some(cell) = self.cell_mut(workload, subject) {
            cell.readings.native_ns = Some(ns);
        }
    }

    pub fn cycles(&self) -> impl Iterator<Item = (&Cell, &IdleCycle)> {
        let cells = self.cells.iter();
        cells.filter_map(|cell| Some((cell, cell.readings.cycle.as_ref()?)))
    }

    /// Whether every workload has all its samples of this guest.
    pub fn has_guest(&self, boot: Boot) -> bool {
        self.plan.workloads.iter().all(|planned| {
            let cell = self.cell(&planned.workload, boot.subject);
            let of_boot = |sample: &&Sample| sample.round == boot.round;
            let done = |cell: &Cell| cell.samples().iter().filter(of_boot).count();
            cell.is_some_and(|cell| done(cell) >= self.plan.repeats as usize)
        })
    }

    pub fn is_complete(&self) -> bool {
        let subjects = || self.plan.subjects.iter().copied();
        (1..=self.plan.rounds)
            .all(|round| subjects().all(|subject| self.has_guest(Boot { round, subject })))
    }

    /// Whether intervals are wider than the plan asks for, and it allows one more round.
    pub fn wants_another_round(&self) -> bool {
        let plan = &self.plan;
        plan.rounds_at_most.is_some_and(|most| plan.rounds < most)
            && plan.precision.is_some_and(|precision| !self.is_within(precision))
    }

    /// Whether every mode's exits are known as a ratio to its baselines' so precisely: half the
    /// interval's width, divided by the ratio.
    fn is_within(&self, precision: f64) -> bool {
        let compared = self.cells.iter().flat_map(|cell| cell.readings.exits.versus.values());
        compared.map(|figures| figures.get(&Figure::Exits).copied().flatten()).all(|exits| {
            exits.is_some_and(|exits| {
                // Where nothing can be concluded yet, a narrow interval is luck.
                exits.verdict != Verdict::TooFewSamples
                    && exits.high - exits.low <= 2.0 * precision * exits.ratio
            })
        })
    }

    /// Drops a workload's samples of a guest, in whose place others are to come.
    pub fn forget(&mut self, workload: &str, boot: Boot) {
        if let Some(cell) = self.cell_mut(workload, boot.subject) {
            cell.readings.exits.samples.retain(|sample| sample.round != boot.round);
        }
    }

    /// Computes every cell's summary and comparisons from the samples, and puts the cells in the
    /// plan's order.
    pub fn summarize(&mut self) {
        let plan = &self.plan;
        self.cells.sort_by_key(|cell| {
            let workload = |planned: &PlannedWorkload| planned.workload == cell.workload;
            let subject = |subject: &Subject| *subject == cell.subject;
            (plan.workloads.iter().position(workload), plan.subjects.iter().position(subject))
        });
        let versus: Vec<_> = self.cells.iter().map(|cell| self.versus(cell)).collect();
        for (cell, versus) in self.cells.iter_mut().zip(versus) {
            let summary =
                Figure::all().map(|figure| (figure, stats::summarize(&cell.observations(figure))));
            cell.readings.exits.summary = summary.collect();
            cell.readings.exits.versus = versus;
        }
    }

    fn versus(&self, cell: &Cell) -> BTreeMap<String, BTreeMap<Figure, Option<Comparison>>> {
        baselines(cell.subject)
            .filter_map(|subject| self.cell(&cell.workload, subject))
            .map(|base| {
                let compared = Figure::COMPARED.map(|figure| {
                    let (cell, base) = (cell.observations(figure), base.observations(figure));
                    (figure, stats::compare(&cell, &base))
                });
                (base.subject.to_string(), compared.into_iter().collect())
            })
            .collect()
    }

    /// Every sample that is not to be trusted, with its cell.
    pub fn doubtful(&self) -> impl Iterator<Item = (&Cell, &Sample)> {
        let samples = self.cells.iter().flat_map(|c| c.samples().iter().map(move |s| (c, s)));
        samples.filter(|(_, sample)| !sample.problems.is_empty())
    }
}

/// What a subject is compared with: on a host with the same settings the base kernel, the papers'
/// baseline, and where it polls, the base kernel that polls; and the same mode on a host with
/// default settings.
fn baselines(of: Subject) -> impl Iterator<Item = Subject> {
    let mode = |tick, poll| Subject { mode: Mode { tick, poll }, host: of.host };
    let plain = [TickMode::Tickless, TickMode::TicklessStop].map(|tick| mode(tick, Polling::Off));
    let polling = of.mode.polls().then(|| mode(TickMode::Tickless, Polling::Stock));
    plain
        .into_iter()
        .chain(polling)
        .chain([Subject::from(of.mode)])
        .filter(move |baseline| *baseline != of)
}

impl Cell {
    pub fn samples(&self) -> &[Sample] {
        &self.readings.exits.samples
    }

    /// The figure of every sample that has it.
    pub fn observations(&self, figure: Figure) -> Vec<Observation> {
        let observe = |sample: &Sample| {
            let value = figure.of(sample, self.work)?;
            Some(Observation { round: sample.round, value })
        };
        self.samples().iter().filter_map(observe).collect()
    }

    pub fn summary(&self, figure: Figure) -> Option<Summary> {
        self.readings.exits.summary.get(&figure).copied().flatten()
    }

    pub fn median(&self, figure: Figure) -> Option<f64> {
        self.summary(figure).map(|summary| summary.median)
    }

    pub fn versus(&self, baseline: impl Into<Subject>, figure: Figure) -> Option<Comparison> {
        let compared = self.readings.exits.versus.get(&baseline.into().to_string())?;
        compared.get(&figure).copied().flatten()
    }
}

#[cfg(test)]
mod schema;
#[cfg(test)]
pub(crate) mod tests;
