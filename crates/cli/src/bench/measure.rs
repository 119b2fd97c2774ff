// SPDX-License-Identifier: GPL-2.0-only
//! A bench that was checked, from its measurement to what is printed of it.

use super::{
    common::Common,
    crowd::{self, Crowds},
    isolated::{self, Isolated},
    mileage::{self, Tables},
};
use crate::{
    errors::usage,
    options::once,
    print::{errln, printable},
    progress, report, signals,
};
use anyhow::Result;
use paratick_bench::{
    self,
    prepared::{self, Prepared},
    timeline, BadOutput, Outcome, Settings,
};
use paratick_build::tools;
use paratick_core::{
    catalogue::sets::Set,
    event::{Events, Step, Warning},
    mode::{Mode, TickMode},
    results::Results,
    stats::MIN_VERDICT,
};
use paratick_view::terminal;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Written {
    File,
    Folder,
}

/// A bench whose options were checked.
pub struct Bench {
    pub(super) options: Common,
    name: &'static str,
    sets: Vec<Set>,
    written: Written,
    output: PathBuf,
    started: String,
    /// For the one run of each program on this machine.
    pub(super) prepare_limit: Duration,
}

impl Bench {
    /// Replaces what the user chose in each of the bench's `sets`, and checks everything that can
    /// be checked before anything is built or booted.
    pub fn new(
        options: Common,
        name: &'static str,
        mut sets: Vec<Set>,
        written: Written,
    ) -> Result<Bench> {
        let settings = options.host.settings.all(options.host.host)?;
        for set in &mut sets {
            options.apply(set, &settings)?;
            once(&set.plan.subjects, "mode", "--modes, --halt-poll and the like")?;
        }
        let subjects = sets.iter().flat_map(|set| &set.plan.subjects);
        let modes = subjects.map(|subject| &subject.mode);
        options.host.check(modes)?;
        let started = paratick_bench::now();
        let folder = written == Written::Folder;
        let output = match &options.output {
            Some(path) => std::path::absolute(path)?,
            None if options.resume => paratick_bench::latest(name, folder).map_err(as_usage)?,
            None => paratick_bench::default_path(name, folder, &started)?,
        };
        let bench =
            Bench { options, name, sets, written, output, started, prepare_limit: prepared::LIMIT };
        bench.check_outputs()?;
        tools::find_agent()?;
        Ok(bench)
    }

    fn check_outputs(&self) -> Result<()> {
        if self.written == Written::Folder {
            make_folder(&self.output)?;
        }
        let page = self.output.with_extension("html");
        if self.options.report && self.written == Written::File && page == self.output {
            return Err(usage(format!(
                "the report would be written over the results, {}\n\
                 hint: give the results another name, such as --output {}",
                page.display(),
                page.with_extension("json").display()
            )));
        }
        let there = self.sets.iter().map(|set| self.file_of(set));
        let there: Vec<_> = there.filter(|file| file.exists()).collect();
        if self.options.resume && there.is_empty() && self.written == Written::Folder {
            return Err(usage(format!(
                "there is nothing to resume in {}\nhint: omit --resume to start over",
                self.output.display()
            )));
        }
        for set in &self.sets {
            let file = self.file_of(set);
            let resume = self.resumes(&file);
            paratick_bench::check_output(&file, resume).map_err(as_usage)?;
        }
        Ok(())
    }

    /// Of a bench with several files, those that are not there yet are begun.
    fn resumes(&self, file: &Path) -> bool {
        self.options.resume && (self.written == Written::File || file.exists())
    }

    fn file_of(&self, set: &Set) -> PathBuf {
        match self.written {
            Written::File => self.output.clone(),
            Written::Folder => self.output.join(format!("{}.json", set.name)),
        }
    }

    /// Measures one set after the other; each is in its file as far as it came.
    fn measure(&self, events: Events) -> Result<Vec<Outcome>> {
        // Before anything is measured: whoever interrupts the bench must know what to resume.
        let output = &self.output;
        events(Step::ResultsGoTo { output }.into());
        self.warn(events);
        self.announce_time(events);
        // First: a program of the user's own that cannot run is found out before anything is built.
        let workloads = self.sets.iter().flat_map(|set| &set.plan.workloads);
        let prepared = prepared::ensure(workloads, self.prepare_limit, events)?;
        let settings = self.settings(prepared, events)?;
        let measured = self.sets.iter().enumerate().map(|(number, set)| {
            if self.sets.len() > 1 {
                let (number, sets) = (number + 1, self.sets.len());
                let set = &set.name;
                events(Step::BeginningSet { set, number, sets }.into());
            }
            paratick_bench::run(&settings(set), events).map_err(as_usage)
        });
        measured.collect()
    }

    pub fn run(self) -> Result<ExitCode> {
        signals::watch()?;
        let outcomes = progress::during(|events| self.measure(events))?;
        // First: what was measured is shown even where a report fails.
        let code = self.conclude(&outcomes)?;
        if self.options.report {
            errln!("report: {}", self.report(&outcomes)?.display());
        }
        Ok(code)
    }

    /// Writes a report of everything measured, with a time line; returns where it is.
    fn report(&self, outcomes: &[Outcome]) -> Result<PathBuf> {
        let output = &self.output;
        let (page, timeline) = match self.written {
            Written::Folder => (output.join("report.html"), output.join("timeline.json")),
            Written::File => {
                (output.with_extension("html"), output.with_extension("timeline.json"))
            }
        };
        let mut files: Vec<PathBuf> = outcomes.iter().map(|one| one.output.clone()).collect();
        // The trace is of a host in the lab.
        if self.options.host.host.boots() {
            progress::during(|events| self.trace(&timeline, events))?;
            files.push(timeline);
        }
        report::write(&files, &page)?;
        Ok(page)
    }

    /// Records one idle cycle of every mode to `file`, unless an interrupted bench has done it.
    fn trace(&self, file: &Path, events: Events) -> Result<()> {
        if self.options.resume && file.exists() {
            return Ok(());
        }
        events(Step::TracingModes.into());
        let set = timeline::set(self.options.host.emulation.exit_cost.unwrap_or(0));
        let settings = self.settings(Prepared::default(), events)?;
        paratick_bench::write(file, &timeline::run(&settings(&set), events)?)
    }

    /// What each set is measured with; what has to be built for it is built.
    fn settings(
        &self,
        prepared: Prepared,
        events: Events,
    ) -> Result<impl Fn(&Set) -> Settings + '_> {
        let host = &self.options.host;
        let tools = host.host.tools(Some(events))?;
        let (kernel, host_kernel) = host.kernels.ensure(None, events)?;
        let workloads = self.sets.iter().flat_map(|set| &set.plan.workloads);
        if kernel.root_disk.is_some() && workloads.into_iter().any(|one| one.program.is_some()) {
            return Err(usage(format!(
                "guests with kernel {name} cannot run this machine's programs: without 9p they do \
                 not see its files\n\
                 hint: name a kernel that has 9p, such as --kernel debian:6.12",
                name = host.kernels.kernel
            )));
        }
        let prepared = Arc::new(prepared);
        Ok(move |set: &Set| {
            let output = self.file_of(set);
            Settings {
                set: set.clone(),
                command: command_line(),
                kernel: kernel.clone(),
                host_kernel: host.host.boots().then(|| host_kernel.clone()),
                tools: tools.clone(),
                backend: host.host,
                prepared: prepared.clone(),
                accel: host.emulation.accel,
                jobs: self.options.jobs.map(|jobs| jobs as usize),
                resume: self.resumes(&output),
                output,
                started: self.started.clone(),
            }
        })
    }

    /// Prints what was measured, and says where it is and what is wrong with it.
    fn conclude(&self, outcomes: &[Outcome]) -> Result<ExitCode> {
        let results: Vec<&Results> = outcomes.iter().map(|outcome| &outcome.results).collect();
        match (self.written, &results[..]) {
            _ if self.name == crowd::BENCH => {
                self.options.format.print(&Crowds::of(&results), || terminal::crowds(&results))?;
            }
            _ if self.name == isolated::BENCH => {
                let isolated = Isolated::of(&results);
                self.options.format.print(&isolated, || terminal::isolated(&results))?;
            }
            _ if self.name == mileage::BENCH => {
                self.options.format.print(&Tables::of(&results), || terminal::mileage(&results))?;
            }
            (Written::File, [one]) => self.options.format.print(one, || text(&results))?,
            _ => self.options.format.print(&results, || text(&results))?,
        }
        outcomes.iter().for_each(say);
        let sound = outcomes.iter().all(Outcome::is_sound);
        errln!("results: {}", self.output.display());
        if sound {
            return Ok(ExitCode::SUCCESS);
        }
        if outcomes.iter().any(|outcome| !outcome.results.is_complete()) {
            errln!(
                "failed: not everything was measured\n\
                 hint: `paratick bench {} --resume --output {}` with the same options measures the \
                 rest",
                self.name,
                self.output.display()
            );
        }
        Ok(ExitCode::FAILURE)
    }

    fn announce_time(&self, events: Events) {
        if !self.options.host.host.boots() {
            return;
        }
        let cpus = paratick_service::online_cpus();
        let cpus = self.options.jobs.unwrap_or(cpus).min(cpus);
        let sets = self.sets.iter().filter_map(|set| set.estimate(cpus));
        let trace = self.options.report.then(|| timeline::set(0).estimate(cpus));
        let known = sets.chain(trace.flatten());
        let minutes = known.sum::<Duration>().as_secs().div_ceil(60);
        let unknown: BTreeSet<_> = self.sets.iter().flat_map(Set::unmeasured).collect();
        let unknown = Vec::from_iter(unknown);
        if minutes > 0 {
            let estimate =
                Step::Estimating { minutes, cpus, unknown: &unknown, resumes: self.options.resume };
            events(estimate.into());
        }
    }

    /// What the numbers will not be able to say, while there is time to change it.
    fn warn(&self, events: Events) {
        let rounds = |set: &&Set| set.plan.rounds_at_most.unwrap_or(set.plan.rounds);
        // These are held against a model, and against their numbers of guests, not mode against
        // mode.
        let few = self.sets.iter().filter(|set| {
            !["table1", crowd::BENCH].contains(&set.bench) && rounds(set) < MIN_VERDICT as u32
        });
        let few: Vec<_> = few.map(|set| set.name.as_str()).collect();
        if !few.is_empty() {
            let needed = MIN_VERDICT;
            events(Warning::FewRounds { sets: &few, needed }.into());
        }
        let is_baseline = |mode: &Mode| {
            !mode.polls() && matches!(mode.tick, TickMode::Tickless | TickMode::TicklessStop)
        };
        let compared = |set: &Set| {
            let subjects = &set.plan.subjects;
            subjects.iter().any(|subject| is_baseline(&subject.mode)) && subjects.len() > 1
        };
        if self.name != isolated::BENCH && !self.sets.iter().any(compared) {
            events(Warning::NothingToCompareWith.into());
        }
    }
}

fn text(all: &[&Results]) -> String {
    let texts: Vec<_> = all.iter().map(|results| terminal::results(results)).collect();
    texts.join("\n")
}

/// As it was typed, by the program's own name.
pub fn command_line() -> Vec<String> {
    let typed = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    ["paratick".to_string()].into_iter().chain(typed).collect()
}

fn say(outcome: &Outcome) {
    let results = &outcome.results;
    if outcome.resumed_guests > 0 {
        errln!("guests measured by an earlier run: {}", outcome.resumed_guests);
    }
    for problem in &results.problems {
        errln!("failed: {}", printable(problem));
    }
    let doubtful = results.doubtful().count();
    if doubtful > 0 {
        errln!(
            "failed: {doubtful} samples are doubtful; each says why in `problems` in the results"
        );
    }
}

fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| {
        usage(format!(
            "cannot write results to {}: {error}\n\
             hint: name a folder you can make or write to with --output",
            path.display()
        ))
    })
}

/// An output that cannot be used is the user's mistake; all else could not run.
fn as_usage(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<BadOutput>() {
        Ok(bad) => usage(bad.to_string()),
        Err(error) => error,
    }
}
