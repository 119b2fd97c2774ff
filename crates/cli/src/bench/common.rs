// SPDX-License-Identifier: GPL-2.0-only
//! The options that all benches have in common.

use super::{
    kernel::Choice,
    measure::{sort, Bench, Place},
};
use crate::{lab::options::host, usage::usage};
use anyhow::Result;
use clap::{Args, ValueEnum};
use paratick_build::{kernel::DEFAULT_BASE, tools};
use paratick_core::catalogue::sets::Set;
use paratick_core::{
    mode::{Mode, TickMode},
    size::Size,
};
use paratick_machine::{accel::Accel, spec::Backend};
use std::{fmt::Display, path::PathBuf};

#[derive(Args)]
pub struct Common {
    /// Tick modes to measure, with +poll for guest halt polling
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    modes: Option<Vec<Mode>>,
    /// Boots of a guest in every mode
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Add rounds, up to so many, while intervals are wider than --precision
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds_at_most: Option<u32>,
    /// How narrow the intervals of the exits' ratios shall be: half their width, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 3.0, value_parser = percent)]
    precision: f64,
    /// Runs of each workload in each guest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Where results go: a file, or a folder where a bench writes several [default: in the cache]
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// What to print: a table, or the whole results as JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,
    /// The guests' kernel: a bzImage, `6.12` (with the series) or `6.12-base` (without)
    #[arg(long, value_name = "KERNEL", default_value = DEFAULT_BASE)]
    kernel: String,
    /// The host's kernel [default: the guests']
    #[arg(long, value_name = "KERNEL")]
    host_kernel: Option<String>,
    /// Which host: one in the lab, or this machine (needs root, KVM, and for paratick its kernel)
    #[arg(long, default_value = "lab", value_parser = host())]
    pub(super) host: &'static dyn Backend,
    /// How the lab's host runs: by hardware virtualization, by emulation, or whichever works
    #[arg(long, value_name = "auto|kvm|tcg", default_value = "auto")]
    pub(super) accel: Accel,
    /// Memory of each guest
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// What the emulator adds to virtual time for each world switch, in ns
    #[arg(long, value_name = "NS", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(super) exit_cost: Option<u32>,
    /// Emulated hosts at the same time [default: as many as this machine has CPUs and memory for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) jobs: Option<u32>,
    /// Also trace one idle cycle of every mode, and write a report of it all beside the results
    #[arg(long)]
    pub(super) report: bool,
    /// Continue an interrupted bench (without --output: the latest)
    #[arg(long)]
    pub(super) resume: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

/// The kernels as they were named, checked as far as that goes without building them.
pub struct Kernels {
    pub guest: Choice,
    pub host: Option<Choice>,
}

fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    match 0.1..=100.0 {
        range if range.contains(&number) => Ok(number),
        _ => Err("give a number from 0.1 to 100".into()),
    }
}

impl Common {
    /// Whatever was asked for, there will be a report.
    pub fn with_report(self) -> Common {
        Common {
            report: true,
            ..self
        }
    }

    /// Replaces what the user chose in each of the bench's `sets`, and checks everything that can be
    /// checked before anything is built or booted.
    pub fn check(self, name: &'static str, mut sets: Vec<Set>, place: Place) -> Result<Bench> {
        let started = paratick_bench::now();
        for set in &mut sets {
            self.apply(set);
            once(&set.plan.modes, "mode", "--modes")?;
            if set.memory < Size::mib(128) {
                return Err(usage(format!(
                    "--memory {} is too little to boot\nhint: give at least 128M",
                    set.memory
                )));
            }
        }
        let kernels = self.kernels(&sets)?;
        let output = self.output(name, place, &started)?;
        let bench = Bench {
            options: self,
            name,
            kernels,
            sets,
            place,
            output,
            started,
        };
        bench.check_outputs()?;
        tools::find_agent()?;
        Ok(bench)
    }

    fn apply(&self, set: &mut Set) {
        let plan = &mut set.plan;
        if let Some(modes) = &self.modes {
            plan.modes.clone_from(modes);
        }
        plan.rounds = self.rounds.unwrap_or(plan.rounds);
        plan.repeats = self.repeat.unwrap_or(plan.repeats);
        plan.rounds_at_most = self.rounds_at_most.or(plan.rounds_at_most);
        if plan.rounds_at_most.is_some() {
            plan.precision = Some(self.precision / 100.0);
        }
        set.memory = self.memory.unwrap_or(set.memory);
        if !set.keeps_cost {
            set.exit_cost_ns = self.exit_cost.unwrap_or(set.exit_cost_ns);
        }
    }

    fn kernels(&self, sets: &[Set]) -> Result<Kernels> {
        let guest = Choice::parse(&self.kernel)?;
        if guest.is_unpatched() {
            let modes = sets.iter().flat_map(|set| &set.plan.modes);
            self.check_unpatched(modes)?;
        }
        let host = match (self.host.boots(), &self.host_kernel) {
            (false, Some(name)) => {
                return Err(usage(format!(
                    "--host-kernel {name} is for a host in the lab\nhint: leave it away with --host here: the machine's own kernel is the host's"
                )))
            }
            (false, None) => None,
            (true, Some(name)) => Some(Choice::parse(name)?),
            (true, None) => Some(guest.clone()),
        };
        Ok(Kernels { guest, host })
    }

    /// Without the series these modes would silently be `tickless`.
    fn check_unpatched<'a>(&self, mut modes: impl Iterator<Item = &'a Mode>) -> Result<()> {
        let patched =
            |mode: &&Mode| matches!(mode.tick, TickMode::Paratick | TickMode::TicklessStop);
        match modes.find(patched) {
            Some(mode) => Err(usage(format!(
                "kernel {} has no mode {mode}\nhint: measure it with --modes periodic,tickless, or name a kernel with the series, such as --kernel {DEFAULT_BASE}",
                self.kernel
            ))),
            None => Ok(()),
        }
    }

    fn output(&self, name: &str, place: Place, started: &str) -> Result<PathBuf> {
        let folder = place == Place::Folder;
        match &self.output {
            Some(path) => Ok(std::path::absolute(path)?),
            None if self.resume => paratick_bench::latest(name, folder).map_err(sort),
            None => paratick_bench::default_path(name, folder, started),
        }
    }
}

pub fn once<T: PartialEq + Display>(items: &[T], what: &str, option: &str) -> Result<()> {
    let twice = items
        .iter()
        .enumerate()
        .find(|(place, item)| items[..*place].contains(item));
    match twice {
        Some((_, item)) => Err(usage(format!(
            "{what} {item} is named twice\nhint: name each once in {option}; --repeat measures more often"
        ))),
        None => Ok(()),
    }
}
