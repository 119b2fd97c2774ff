// SPDX-License-Identifier: GPL-2.0-only
//! What all benches have in common: kernels, hosts, rounds, results, and how a bench is run.

use super::{kernel::Choice, table};
use crate::{progress::Progress, report, signals, Usage};
use anyhow::Result;
use clap::{Args, ValueEnum};
use paratick_core::{
    mode::{Mode, TickMode},
    results::Results,
    size::Size,
};
use paratick_lab::{
    accel::Accel,
    bench::{self, sets::Set, timeline, BadOutput, Kernel, Outcome, Settings},
    kernel::DEFAULT_BASE,
    progress::{Event, Events},
    tools::{self, Tools},
};
use paratick_report::averages;
use std::{
    fmt::Display,
    path::{Path, PathBuf},
    process::ExitCode,
};

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
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// What the emulator adds to virtual time for each world switch, in ns
    #[arg(long, value_name = "NS", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    exit_cost: Option<u32>,
    /// Emulated hosts at the same time [default: as many as this machine has CPUs and memory for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: Option<u32>,
    /// Also trace one idle cycle of every mode, and write a report of it all beside the results
    #[arg(long)]
    report: bool,
    /// Continue an interrupted bench (without --output: the latest)
    #[arg(long)]
    resume: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
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

/// Where a bench's results go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    File,
    Folder,
}

/// A bench whose options were checked.
pub struct Bench {
    options: Common,
    name: &'static str,
    kernels: Kernels,
    sets: Vec<Set>,
    place: Place,
    output: PathBuf,
    started: String,
}

/// What guests and hosts are made of.
struct Parts {
    tools: Tools,
    kernel: Kernel,
    host_kernel: Option<Kernel>,
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
        let started = bench::now();
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
            None if self.resume => bench::latest(name, folder).map_err(sort),
            None => bench::default_path(name, folder, started),
        }
    }
}

impl Bench {
    fn check_outputs(&self) -> Result<()> {
        if self.place == Place::Folder {
            make_folder(&self.output)?;
        }
        let there = self.sets.iter().map(|set| self.file_of(set));
        let there: Vec<_> = there.filter(|file| file.exists()).collect();
        if self.options.resume && there.is_empty() && self.place == Place::Folder {
            return Err(usage(format!(
                "there is nothing to resume in {}\nhint: leave --resume away to begin",
                self.output.display()
            )));
        }
        for set in &self.sets {
            let file = self.file_of(set);
            let resume = self.resumes(&file);
            bench::check_output(&file, resume).map_err(sort)?;
        }
        Ok(())
    }

    /// Of a bench with several files, those that are not there yet are begun.
    fn resumes(&self, file: &Path) -> bool {
        self.options.resume && (self.place == Place::File || file.exists())
    }

    /// Where the results of `set` go.
    fn file_of(&self, set: &Set) -> PathBuf {
        match self.place {
            Place::File => self.output.clone(),
            Place::Folder => self.output.join(format!("{}.json", set.name)),
        }
    }

    /// Measures one set after the other; each is in its file as far as it came.
    fn measure(&self) -> Result<Vec<Outcome>> {
        signals::watch()?;
        let mut progress = Progress::new();
        let mut events = |event| progress.show(event);
        // Before anything is measured: whoever interrupts the bench must know what to resume.
        events(Event::Step(format!(
            "results go to {}",
            self.output.display()
        )));
        self.warn(&mut events);
        let parts = self.parts(&mut events)?;
        let measured = self.sets.iter().enumerate().map(|(number, set)| {
            if self.sets.len() > 1 {
                let (number, sets) = (number + 1, self.sets.len());
                events(Event::Step(format!("{} ({number} of {sets})", set.name)));
            }
            bench::run(&self.settings(set, &parts), &mut events).map_err(sort)
        });
        measured.collect()
    }

    /// Measures, prints and, where it is asked for, reports.
    pub fn run(self) -> Result<ExitCode> {
        let outcomes = self.measure()?;
        let report = match self.options.report {
            true => Some(self.report(&outcomes)?),
            false => None,
        };
        let code = self.conclude(&outcomes)?;
        if let Some(page) = report {
            eprintln!("report: {}", page.display());
        }
        Ok(code)
    }

    /// Writes a report of everything measured, with a time line; returns where it is.
    fn report(&self, outcomes: &[Outcome]) -> Result<PathBuf> {
        let beside = |name: &str| match self.place {
            Place::Folder => self.output.join(name),
            Place::File => self.output.with_extension(name),
        };
        let (page, timeline) = match self.place {
            Place::Folder => (beside("report.html"), beside("timeline.json")),
            Place::File => (beside("html"), beside("timeline.json")),
        };
        let mut files: Vec<PathBuf> = outcomes.iter().map(|one| one.output.clone()).collect();
        // The trace is of a host in the lab.
        if self.options.host == At::Lab {
            self.trace(&timeline)?;
            files.push(timeline);
        }
        report::write(&files, &page)?;
        Ok(page)
    }

    /// Records one idle cycle of every mode to `file`, unless an interrupted bench has done it.
    fn trace(&self, file: &Path) -> Result<()> {
        if self.options.resume && file.exists() {
            return Ok(());
        }
        let mut progress = Progress::new();
        let mut events = |event| progress.show(event);
        events(Event::Step("one idle cycle of every mode".into()));
        let set = timeline::set(self.options.exit_cost.unwrap_or(0));
        let parts = self.parts(&mut events)?;
        let traced = timeline::run(&self.settings(&set, &parts), &mut events)?;
        for problem in &traced.problems {
            events(Event::Warning(problem.clone()));
        }
        timeline::write(file, &traced)
    }

    fn parts(&self, events: Events) -> Result<Parts> {
        let tools = match self.options.host {
            At::Lab => Tools::find(events)?,
            At::Here => Tools::of_the_machine()?,
        };
        let kernel = self.kernels.guest.ensure(events)?;
        let mut ensure = |choice: &Choice| -> Result<Kernel> {
            match *choice == self.kernels.guest {
                true => Ok(kernel.clone()),
                false => choice.ensure(events),
            }
        };
        let host_kernel = self.kernels.host.as_ref().map(&mut ensure).transpose()?;
        Ok(Parts {
            tools,
            kernel,
            host_kernel,
        })
    }

    fn settings(&self, set: &Set, parts: &Parts) -> Settings {
        let output = self.file_of(set);
        Settings {
            bench: set.bench,
            plan: set.plan.clone(),
            kernel: parts.kernel.clone(),
            host_kernel: parts.host_kernel.clone(),
            tools: parts.tools.clone(),
            accel: self.options.accel,
            memory: set.memory,
            disk: set.disk,
            exit_cost_ns: set.exit_cost_ns,
            parallel_clock: set.parallel_clock,
            jobs: self.options.jobs.map(|jobs| jobs as usize),
            resume: self.resumes(&output),
            output,
            started: self.started.clone(),
        }
    }

    /// Prints what was measured, and says where it is and what is wrong with it.
    fn conclude(&self, outcomes: &[Outcome]) -> Result<ExitCode> {
        match (self.options.format, outcomes) {
            (Format::Text, _) => {
                let tables = outcomes.iter().map(|outcome| table::text(&outcome.results));
                print!("{}", tables.collect::<Vec<_>>().join("\n"));
                for averages in outcomes.iter().filter_map(|one| averages(&one.results)) {
                    print!("\n{averages}");
                }
            }
            (Format::Json, [one]) if self.place == Place::File => {
                println!("{}", serde_json::to_string_pretty(&one.results)?);
            }
            (Format::Json, _) => {
                let all: Vec<&Results> = outcomes.iter().map(|outcome| &outcome.results).collect();
                println!("{}", serde_json::to_string_pretty(&all)?);
            }
        }
        let sound = outcomes.iter().all(|outcome| {
            say(outcome);
            outcome.is_sound()
        });
        eprintln!("results: {}", self.output.display());
        if sound {
            return Ok(ExitCode::SUCCESS);
        }
        if outcomes
            .iter()
            .any(|outcome| !outcome.results.is_complete())
        {
            eprintln!(
                "failed: not everything was measured\nhint: `paratick bench {} --resume --output {}` with the same options measures what is missing",
                self.name,
                self.output.display()
            );
        }
        Ok(ExitCode::FAILURE)
    }

    /// What the numbers will not be able to say, while there is time to change it.
    fn warn(&self, events: Events) {
        for set in &self.sets {
            let plan = &set.plan;
            let samples = plan.rounds_at_most.unwrap_or(plan.rounds) * plan.repeats;
            if samples < 4 {
                events(Event::Warning(format!(
                    "{}: {samples} samples of each are too few to show a difference; use --rounds and --repeat for at least 4, better 6",
                    set.name
                )));
            }
        }
        let rounds = |set: &Set| set.plan.rounds_at_most.unwrap_or(set.plan.rounds);
        if self.sets.iter().any(|set| rounds(set) == 1) {
            events(Event::Warning(
                "with one round, differences from boot to boot are in no interval; use --rounds 3"
                    .into(),
            ));
        }
        let tickless = |mode: &Mode| mode.tick == TickMode::Tickless && !mode.poll;
        if !self
            .sets
            .iter()
            .any(|set| set.plan.modes.iter().any(tickless))
        {
            events(Event::Warning(
                "there is nothing to compare with; add tickless (and tickless-stop) to --modes"
                    .into(),
            ));
        }
    }
}

/// What is wrong with one set's results.
fn say(outcome: &Outcome) {
    let results = &outcome.results;
    if outcome.resumed_guests > 0 {
        eprintln!(
            "guests measured by an earlier run: {}",
            outcome.resumed_guests
        );
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
}

fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| {
        usage(format!(
            "cannot write results to {}: {error}\nhint: name a folder you can make or write to with --output",
            path.display()
        ))
    })
}

/// An output that cannot be used is the user's mistake; all else could not run.
fn sort(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<BadOutput>() {
        Ok(bad) => usage(bad.to_string()),
        Err(error) => error,
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

pub fn usage(message: String) -> anyhow::Error {
    Usage(message).into()
}
