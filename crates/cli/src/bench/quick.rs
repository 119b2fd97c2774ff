// SPDX-License-Identifier: GPL-2.0-only
//! `paratick bench quick`.

use super::{kernel::Choice, table};
use crate::{progress::Progress, signals, Usage};
use anyhow::Result;
use clap::{Args, ValueEnum};
use paratick_core::{
    mode::{Mode, TickMode},
    results::Plan,
    size::Size,
};
use paratick_lab::{
    accel::Accel,
    bench::{self, BadOutput, Kernel, Outcome, Settings},
    kernel::DEFAULT_BASE,
    progress::{Event, Events},
    tools::{self, Tools},
};
use std::{fmt::Display, path::PathBuf, process::ExitCode};

const MODES: &str = "periodic,tickless,tickless-stop,paratick,tickless+poll,paratick+poll";
const WORKLOADS: &str = "idle,cpu,pingpong,barrier,sleep,block";

#[derive(Args)]
pub struct Options {
    /// CPUs of each guest; the host has one more
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=127))]
    vcpus: u32,
    /// Tick modes to measure, with +poll for guest halt polling
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = MODES)]
    modes: Vec<Mode>,
    /// Workloads to run
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = WORKLOADS)]
    workloads: Vec<bench::workloads::Quick>,
    /// Boots of a guest in every mode
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Runs of each workload in each guest
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Results file [default: results/quick-TIME.json in the cache]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What to print: a table, or the whole results as JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The guests' kernel: a bzImage, `6.12` (with the series) or `6.12-base` (without)
    #[arg(long, value_name = "KERNEL", default_value = DEFAULT_BASE)]
    kernel: String,
    /// The host's kernel [default: the guests']
    #[arg(long, value_name = "KERNEL")]
    host_kernel: Option<String>,
    /// Which host: one in the lab, or this machine (needs root, KVM, and for paratick its kernel)
    #[arg(long, value_enum, default_value_t = At::Lab)]
    host: At,
    /// How the lab's host runs: by hardware virtualization, by emulation, or whichever works
    #[arg(long, value_name = "auto|kvm|tcg", default_value = "auto")]
    accel: Accel,
    /// Memory of each guest
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    memory: Size,
    /// Continue an interrupted bench (without --output: the latest)
    #[arg(long)]
    resume: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum At {
    Lab,
    Here,
}

/// The kernels as they were named, checked as far as that goes without building them.
struct Kernels {
    guest: Choice,
    host: Option<Choice>,
}

pub fn run(options: Options) -> Result<ExitCode> {
    let started = bench::now();
    let kernels = options.check()?;
    let output = options.output(&started)?;
    bench::check_output(&output, options.resume).map_err(sort)?;
    tools::find_agent()?;
    signals::watch()?;
    let mut progress = Progress::new();
    let mut events = |event| progress.show(event);
    // Before anything is measured: whoever interrupts the bench must know what to resume.
    events(Event::Step(format!("results go to {}", output.display())));
    let settings = options.settings(&kernels, output, started, &mut events)?;
    let outcome = bench::run(&settings, &mut events).map_err(sort);
    drop(progress);
    let outcome = outcome?;
    match options.format {
        Format::Text => print!("{}", table::text(&outcome.results)),
        Format::Json => println!("{}", serde_json::to_string_pretty(&outcome.results)?),
    }
    Ok(conclude(&outcome))
}

/// An output that cannot be used is the user's mistake; all else could not run.
fn sort(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<BadOutput>() {
        Ok(bad) => Usage(bad.to_string()).into(),
        Err(error) => error,
    }
}

/// Says where the results are and what is wrong with them.
fn conclude(outcome: &Outcome) -> ExitCode {
    let results = &outcome.results;
    if outcome.resumed_guests > 0 {
        eprintln!(
            "guests measured by an earlier run: {}",
            outcome.resumed_guests
        );
    }
    eprintln!("results: {}", outcome.output.display());
    if outcome.is_sound() {
        return ExitCode::SUCCESS;
    }
    for problem in &results.problems {
        eprintln!("failed: {problem}");
    }
    let doubtful = results.doubtful().count();
    if doubtful > 0 {
        eprintln!(
            "failed: {doubtful} samples are doubtful; each says why in `problems` in the results"
        );
    }
    if !results.is_complete() {
        eprintln!(
            "failed: not everything was measured\nhint: `paratick bench quick --resume --output {}` with the same options measures what is missing",
            outcome.output.display()
        );
    }
    ExitCode::FAILURE
}

impl Options {
    fn check(&self) -> Result<Kernels> {
        once(&self.modes, "mode", "--modes")?;
        let names: Vec<_> = self.workloads.iter().map(|quick| quick.name).collect();
        once(&names, "workload", "--workloads")?;
        if self.memory < Size::mib(128) {
            return Err(usage(format!(
                "--memory {} is too little to boot\nhint: give at least 128M",
                self.memory
            )));
        }
        let guest = Choice::parse(&self.kernel)?;
        if guest.is_unpatched() {
            self.check_unpatched()?;
        }
        let host = match (self.host, &self.host_kernel) {
            (At::Here, Some(name)) => {
                return Err(usage(format!(
                    "--host-kernel {name} is for a host in the lab\nhint: leave it away with --host here: the machine's own kernel is the host's"
                )))
            }
            (At::Here, None) => None,
            (At::Lab, Some(name)) => Some(Choice::parse(name)?),
            (At::Lab, None) => Some(guest.clone()),
        };
        Ok(Kernels { guest, host })
    }

    /// Without the series these modes would silently be `tickless`.
    fn check_unpatched(&self) -> Result<()> {
        let patched =
            |mode: &&Mode| matches!(mode.tick, TickMode::Paratick | TickMode::TicklessStop);
        match self.modes.iter().find(patched) {
            Some(mode) => Err(usage(format!(
                "kernel {} has no mode {mode}\nhint: measure it with --modes periodic,tickless, or name a kernel with the series, such as --kernel {DEFAULT_BASE}",
                self.kernel
            ))),
            None => Ok(()),
        }
    }

    fn output(&self, started: &str) -> Result<PathBuf> {
        match &self.output {
            Some(file) => Ok(std::path::absolute(file)?),
            None if self.resume => bench::latest("quick").map_err(sort),
            None => bench::default_path("quick", started),
        }
    }

    fn settings(
        &self,
        kernels: &Kernels,
        output: PathBuf,
        started: String,
        events: Events,
    ) -> Result<Settings> {
        self.warn(events);
        let tools = match self.host {
            At::Lab => Tools::find(events)?,
            At::Here => Tools::of_the_machine()?,
        };
        let kernel = kernels.guest.ensure(events)?;
        let ensure = |choice: &Choice| -> Result<Kernel> {
            match *choice == kernels.guest {
                true => Ok(kernel.clone()),
                false => choice.ensure(&mut *events),
            }
        };
        let host_kernel = kernels.host.as_ref().map(ensure).transpose()?;
        Ok(Settings {
            plan: self.plan(),
            kernel,
            host_kernel,
            tools,
            accel: self.accel,
            memory: self.memory,
            output,
            resume: self.resume,
            started,
        })
    }

    fn plan(&self) -> Plan {
        let workloads = self.workloads.iter().copied();
        bench::plan(
            self.vcpus,
            self.modes.clone(),
            workloads,
            self.rounds,
            self.repeat,
        )
    }

    /// What the numbers will not be able to say, while there is time to change it.
    fn warn(&self, events: Events) {
        let samples = self.rounds * self.repeat;
        if samples < 4 {
            events(Event::Warning(format!(
                "{samples} samples of each are too few to show a difference; use --rounds and --repeat for at least 4, better 6"
            )));
        }
        if self.rounds == 1 {
            events(Event::Warning(
                "with one round, differences from boot to boot are in no interval; use --rounds 3"
                    .into(),
            ));
        }
        let tickless = |mode: &Mode| mode.tick == TickMode::Tickless && !mode.poll;
        if !self.modes.iter().any(tickless) {
            events(Event::Warning(
                "there is nothing to compare with; add tickless (and tickless-stop) to --modes"
                    .into(),
            ));
        }
    }
}

fn once<T: PartialEq + Display>(items: &[T], what: &str, option: &str) -> Result<()> {
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

fn usage(message: String) -> anyhow::Error {
    Usage(message).into()
}
