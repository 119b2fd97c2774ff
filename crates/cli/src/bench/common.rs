// SPDX-License-Identifier: GPL-2.0-only
//! The options that all benches have in common.

use crate::{
    errors::usage,
    options::{number, once, refuse, Format, HostChoice, Memory, Sockets},
};
use anyhow::Result;
use clap::Args;
use paratick_core::{
    catalogue::sets::Set,
    mode::Mode,
    results::{Plan, PlannedWorkload},
    subject::{HostSettings, Subject},
};
use std::{ops::RangeInclusive, path::PathBuf};

const TIMES: RangeInclusive<u32> = 1..=1000;

#[derive(Args)]
pub struct Common {
    /// Tick modes to measure, with +poll, +learn and others for guest halt polling
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    modes: Option<Vec<Mode>>,
    /// Boots of a guest in every mode
    #[arg(long, value_name = "N", value_parser = number(TIMES))]
    rounds: Option<u32>,
    /// Add rounds while intervals are wider than --precision, up to this many
    #[arg(long, value_name = "N", value_parser = number(TIMES))]
    rounds_at_most: Option<u32>,
    /// Wanted half width of the intervals of the exits' ratios, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 3.0, value_parser = percent)]
    precision: f64,
    /// Runs of each workload in each guest
    #[arg(long, value_name = "N", value_parser = number(TIMES))]
    repeat: Option<u32>,
    /// Where results go: a file, or a folder where a bench writes several [default: in the cache]
    #[arg(long, value_name = "PATH")]
    pub(super) output: Option<PathBuf>,
    #[command(flatten)]
    pub(super) format: Format,
    #[command(flatten)]
    pub(super) host: HostChoice,
    #[command(flatten)]
    memory: Memory,
    #[command(flatten)]
    sockets: Sockets,
    /// Emulated hosts at the same time [default: as many as this machine has CPUs and memory for]
    #[arg(long, value_name = "N", value_parser = number(1..=64))]
    pub(super) jobs: Option<u32>,
    /// Also trace one idle cycle of every mode, and write a report of it all beside the results
    #[arg(long)]
    pub(super) report: bool,
    /// Continue an interrupted bench (without --output: the latest)
    #[arg(long)]
    pub(super) resume: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.1..=100.0).contains(&number) => Ok(number),
        _ => Err("no such precision\nhint: give a number from 0.1 to 100".into()),
    }
}

/// Each mode of a plan once.
fn modes_of(plan: &Plan) -> Vec<Mode> {
    let mut modes: Vec<Mode> = Vec::new();
    for Subject { mode, .. } in &plan.subjects {
        if !modes.contains(mode) {
            modes.push(*mode);
        }
    }
    modes
}

pub fn each_once(workloads: &[PlannedWorkload]) -> Result<()> {
    let names: Vec<_> = workloads.iter().map(|planned| &planned.workload).collect();
    once(&names, "workload", "--workloads")
}

impl Common {
    /// Replaces what the user chose in one of the bench's sets.  Where modes or settings were
    /// chosen, every mode is measured on a host with each of the `settings`.
    pub fn apply(&self, set: &mut Set, settings: &[HostSettings]) -> Result<()> {
        let plan = &mut set.plan;
        let modes = self.modes.clone().unwrap_or_else(|| modes_of(plan));
        if self.modes.is_some() || self.host.settings.given() || !self.host.host.boots() {
            plan.subjects = Subject::each(&modes, settings);
        }
        plan.rounds = self.rounds.unwrap_or(plan.rounds);
        plan.repeats = self.repeat.unwrap_or(plan.repeats);
        plan.rounds_at_most = self.rounds_at_most.or(plan.rounds_at_most);
        match plan.rounds_at_most {
            Some(most) if self.rounds_at_most.is_some() && most < plan.rounds => {
                return Err(usage(format!(
                    "{most} rounds at most, and {} rounds\nhint: leave one of --rounds-at-most \
                     and --rounds, or give a larger --rounds-at-most",
                    plan.rounds
                )))
            }
            Some(_) => plan.precision = Some(self.precision / 100.0),
            None => refuse(&["precision"], "without --rounds-at-most")?,
        }
        plan.sockets = self.sockets.of(plan.vcpus)?;
        set.memory = self.memory.memory.unwrap_or(set.memory);
        if !set.keeps_cost {
            let cost = self.host.emulation.exit_cost;
            set.exit_cost_ns = cost.unwrap_or(set.exit_cost_ns);
        }
        Ok(())
    }
}
