// SPDX-License-Identifier: GPL-2.0-only
//! What a bench stores: one self-contained JSON document.  docs/results.md describes every field;
//! a test holds the two together.
//!
//! A figure that was not measured is `null`, never 0.

mod environment;
mod figure;
mod read;

pub use environment::{Configuration, Environment, Machine, QemuCommandLines};
pub use figure::Figure;
pub use read::{read, ReadError};

use crate::{
    cause::Cause,
    idle::IdleEntries,
    mode::{Mode, TickMode},
    stats::{self, Comparison, Observation, Summary, Verdict},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name and major version of the format.  Fields may be added within a version; a reader ignores
/// those that it does not know.
pub const SCHEMA: &str = "paratick-results/1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub schema: String,
    /// The version of the program that wrote it.
    pub tool_version: String,
    /// Which bench: `quick`, `table1`, `sequential`, `multithreaded`, `io`.
    pub bench: String,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    pub plan: Plan,
    pub environment: Environment,
    pub cells: Vec<Cell>,
    /// What went wrong beyond single samples: a guest that did not boot, a console's complaint.
    #[serde(default)]
    pub problems: Vec<String>,
}

/// What was to be measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub vcpus: u32,
    /// Guests that run side by side, all in the same mode; a sample holds what they did together.
    #[serde(default = "one")]
    pub guests: u32,
    pub modes: Vec<Mode>,
    pub workloads: Vec<PlannedWorkload>,
    /// In each round fresh guests are booted in every mode.  Grows while intervals are too wide.
    pub rounds: u32,
    /// How far `rounds` may grow; `null`: not at all.
    #[serde(default)]
    pub rounds_at_most: Option<u32>,
    /// How narrow the intervals of the exits' ratios shall be: half their width, of the ratio.
    #[serde(default)]
    pub precision: Option<f64>,
    /// How often each workload runs in each guest.
    pub repeats: u32,
    /// Each workload runs once more, in the first guest whose kernel stops its tick
    /// wherever it can (`tickless-stop`), to count its idle entries.
    #[serde(default)]
    pub idle_entries: bool,
}

impl Plan {
    /// Of every mode and workload given, in their order.
    pub fn new(
        vcpus: u32,
        modes: Vec<Mode>,
        workloads: impl IntoIterator<Item = impl Into<PlannedWorkload>>,
        rounds: u32,
        repeats: u32,
    ) -> Plan {
        Plan {
            vcpus,
            guests: 1,
            modes,
            workloads: workloads.into_iter().map(Into::into).collect(),
            rounds,
            repeats,
            rounds_at_most: None,
            precision: None,
            idle_entries: false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedWorkload {
    pub workload: String,
    /// How many units of work one run does.
    pub work: u64,
    /// What one unit is, in the plural.
    pub unit: String,
    /// What runs; `null`: the agent's own workload of this name.
    #[serde(default)]
    pub program: Option<Program>,
}

/// A program of the guest's distribution, or the user's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// For `sh -c`, with the number of threads put in.
    pub command: String,
    /// Makes its input, before the first sample and outside all windows.
    pub prepare: Option<String>,
    /// The workload of the paper's suite in whose place it runs.
    pub stands_for: Option<String>,
}

fn one() -> u32 {
    1
}

/// All samples of one workload in one mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub workload: String,
    pub mode: Mode,
    pub vcpus: u32,
    pub work: u64,
    pub unit: String,
    pub samples: Vec<Sample>,
    /// What the guests' kernel decided at idle entry, in a run that is none of the samples: to
    /// count it takes time.
    #[serde(default)]
    pub idle_entries: Option<IdleEntries>,
    /// Median and interval of every figure; `null` where no sample has it.
    #[serde(default, deserialize_with = "read::known")]
    pub summary: BTreeMap<Figure, Option<Summary>>,
    /// Against other modes, by their name; `null` where no ratio can be given.
    #[serde(default, deserialize_with = "read::known_of_each")]
    pub versus: BTreeMap<String, BTreeMap<Figure, Option<Comparison>>>,
}

/// One run of a workload, between its two window marks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub round: u32,
    pub repeat: u32,
    pub exits: Option<u64>,
    pub exits_by_reason: Option<BTreeMap<String, u64>>,
    pub exits_by_cause: Option<BTreeMap<Cause, u64>>,
    /// Exits for MSR writes, by the MSR's name.
    pub msr_writes: Option<BTreeMap<String, u64>>,
    pub ticks_delivered: Option<u64>,
    /// Counted independently of the exits, by the emulator.
    pub world_switches: Option<u64>,
    pub host_instructions: Option<u64>,
    pub guest_instructions: Option<u64>,
    /// What the host's CPUs spent: the instructions of host and guest, each counted as a
    /// nanosecond, and the stated cost of every world switch.
    #[serde(default)]
    pub cpu_ns: Option<u64>,
    /// On the host's clock.
    pub duration_ns: Option<u64>,
    /// On the guest's clock.
    #[serde(default)]
    pub guest_duration_ns: Option<u64>,
    /// Of all vCPUs, by the guest's own accounting.
    #[serde(default)]
    pub user_ns: Option<u64>,
    #[serde(default)]
    pub system_ns: Option<u64>,
    #[serde(default)]
    pub idle_ns: Option<u64>,
    #[serde(default)]
    pub per_vcpu: Vec<VcpuSample>,
    /// Each of the host's CPUs, as the emulator saw it; empty where it did not count.
    #[serde(default)]
    pub per_host_cpu: Vec<HostCpuSample>,
    /// What the workload itself reports, by name.
    #[serde(default)]
    pub metrics: BTreeMap<String, f64>,
    /// Why this sample is not to be trusted; empty: it is.
    #[serde(default)]
    pub problems: Vec<String>,
}

/// One vCPU's share of a sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VcpuSample {
    pub vcpu: u32,
    pub exits: u64,
    pub exits_by_reason: BTreeMap<String, u64>,
    pub exits_by_cause: BTreeMap<Cause, u64>,
    pub msr_writes: BTreeMap<String, u64>,
    pub ticks_delivered: Option<u64>,
}

/// What the emulator counted on one of the host's CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCpuSample {
    pub world_switches: u64,
    pub host_instructions: u64,
    pub guest_instructions: u64,
}

impl Results {
    pub fn cell(&self, workload: &str, mode: Mode) -> Option<&Cell> {
        self.cells
            .iter()
            .find(|cell| cell.workload == workload && cell.mode == mode)
    }

    /// Adds a sample to its cell, which is made if it is the first.
    pub fn add(&mut self, workload: &PlannedWorkload, mode: Mode, sample: Sample) {
        let found = self
            .cells
            .iter_mut()
            .find(|cell| cell.workload == workload.workload && cell.mode == mode);
        match found {
            Some(cell) => cell.samples.push(sample),
            None => self.cells.push(Cell {
                workload: workload.workload.clone(),
                mode,
                vcpus: self.plan.vcpus,
                work: workload.work,
                unit: workload.unit.clone(),
                samples: vec![sample],
                idle_entries: None,
                summary: BTreeMap::new(),
                versus: BTreeMap::new(),
            }),
        }
    }

    /// Keeps them with the samples of the same guest, if there are any.
    pub fn set_idle_entries(&mut self, workload: &str, mode: Mode, entries: IdleEntries) {
        let mut cells = self.cells.iter_mut();
        let found = cells.find(|cell| cell.workload == workload && cell.mode == mode);
        if let Some(cell) = found {
            cell.idle_entries = Some(entries);
        }
    }

    /// Whether every workload has all its samples of this guest.
    pub fn has_guest(&self, mode: Mode, round: u32) -> bool {
        self.plan.workloads.iter().all(|planned| {
            let cell = self.cell(&planned.workload, mode);
            let done = |cell: &Cell| cell.samples.iter().filter(|s| s.round == round).count();
            cell.is_some_and(|cell| done(cell) >= self.plan.repeats as usize)
        })
    }

    pub fn is_complete(&self) -> bool {
        (1..=self.plan.rounds).all(|round| {
            self.plan
                .modes
                .iter()
                .all(|mode| self.has_guest(*mode, round))
        })
    }

    /// Whether intervals are wider than the plan asks for, and it allows one more round.
    pub fn wants_another_round(&self) -> bool {
        let plan = &self.plan;
        plan.rounds_at_most.is_some_and(|most| plan.rounds < most)
            && plan
                .precision
                .is_some_and(|precision| !self.is_within(precision))
    }

    /// Whether every mode's exits are known as a ratio to its baselines' so precisely: half the
    /// interval's width, divided by the ratio.
    fn is_within(&self, precision: f64) -> bool {
        let compared = self.cells.iter().flat_map(|cell| cell.versus.values());
        compared
            .map(|figures| figures.get(&Figure::Exits).copied().flatten())
            .all(|exits| {
                exits.is_some_and(|exits| {
                    // Where nothing can be concluded yet, a narrow interval is luck.
                    exits.verdict != Verdict::TooFewSamples
                        && exits.high - exits.low <= 2.0 * precision * exits.ratio
                })
            })
    }

    /// Drops a workload's samples of a guest, in whose place others are to come.
    pub fn forget(&mut self, workload: &str, mode: Mode, round: u32) {
        let mut cells = self.cells.iter_mut();
        let found = cells.find(|cell| cell.workload == workload && cell.mode == mode);
        if let Some(cell) = found {
            cell.samples.retain(|sample| sample.round != round);
        }
    }

    /// Computes every cell's summary and comparisons from the samples, and puts the cells in the
    /// plan's order.
    pub fn summarize(&mut self) {
        let plan = &self.plan;
        self.cells.sort_by_key(|cell| {
            let workload = plan
                .workloads
                .iter()
                .position(|w| w.workload == cell.workload);
            (
                workload,
                plan.modes.iter().position(|mode| *mode == cell.mode),
            )
        });
        let versus: Vec<_> = self.cells.iter().map(|cell| self.versus(cell)).collect();
        for (cell, versus) in self.cells.iter_mut().zip(versus) {
            cell.summary = Figure::all()
                .map(|figure| (figure, stats::summarize(&cell.observations(figure))))
                .collect();
            cell.versus = versus;
        }
    }

    fn versus(&self, cell: &Cell) -> BTreeMap<String, BTreeMap<Figure, Option<Comparison>>> {
        baselines(cell.mode)
            .filter_map(|mode| self.cell(&cell.workload, mode))
            .map(|base| {
                let compared = Figure::COMPARED.map(|figure| {
                    let (mode, base) = (cell.observations(figure), base.observations(figure));
                    (figure, stats::compare(&mode, &base))
                });
                (base.mode.to_string(), compared.into_iter().collect())
            })
            .collect()
    }

    /// Every sample that is not to be trusted: workload, mode, sample.
    pub fn doubtful(&self) -> impl Iterator<Item = (&str, Mode, &Sample)> {
        self.cells.iter().flat_map(|cell| {
            cell.samples
                .iter()
                .filter(|sample| !sample.problems.is_empty())
                .map(|sample| (cell.workload.as_str(), cell.mode, sample))
        })
    }
}

/// What a mode is compared with: the base kernel, the papers' baseline, and where it polls, the
/// base kernel that polls.
fn baselines(mode: Mode) -> impl Iterator<Item = Mode> {
    let plain = [TickMode::Tickless, TickMode::TicklessStop].map(|tick| Mode { tick, poll: false });
    let polling = mode.poll.then_some(Mode {
        tick: TickMode::Tickless,
        poll: true,
    });
    plain
        .into_iter()
        .chain(polling)
        .filter(move |baseline| *baseline != mode)
}

impl Cell {
    /// The figure of every sample that has it.
    pub fn observations(&self, figure: Figure) -> Vec<Observation> {
        self.samples
            .iter()
            .filter_map(|sample| {
                Some(Observation {
                    round: sample.round,
                    value: figure.of(sample, self.work)?,
                })
            })
            .collect()
    }

    pub fn summary(&self, figure: Figure) -> Option<Summary> {
        self.summary.get(&figure).copied().flatten()
    }

    pub fn versus(&self, baseline: Mode, figure: Figure) -> Option<Comparison> {
        let compared = self.versus.get(&baseline.to_string())?;
        compared.get(&figure).copied().flatten()
    }
}

#[cfg(test)]
pub(crate) mod tests;
