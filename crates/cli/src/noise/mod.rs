// SPDX-License-Identifier: GPL-2.0-only
//! `paratick noise`.

mod report;

use crate::{
    errors::usage,
    input::{self, Kind, NO_SIDE},
    options::{duration, named, number, refuse, Format, LabOptions, SideChoice},
    print::{clear_terminal, errln, out},
    progress,
    report::{check, write_page},
    signals,
};
use anyhow::Result;
use clap::{Args as Arguments, ValueEnum};
use paratick_bench::noise::{
    check_ran, quiet, record, record_here, sample_on, Interrupted, Recorded, Sides,
};
use paratick_core::{
    event::Events,
    isolation::{pcpus, sampled},
    noise::{
        guest_parameters, host_parameters, mark_ticks, GuestNoise, HostNoise, Knob, Sampler,
        Stalls, Trial,
    },
    units::Nanos,
};
use paratick_machine::{accel::Accel, guest::Guest, host::Host, spec::Clock};
use paratick_view::{figure, noise_html, rtla};
use report::Report;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// Say where a guest's time goes while it does not run on
///
/// Lets osnoise sample on all CPUs of a guest, or a program where its kernel has no osnoise,
/// records every exit on its host, and splits each gap of the samples into disjoint parts that add
/// up to it. In the lab it does both sides. With --host here it records the exits of the VMs that
/// run on this machine, and with --side guest the noise of this machine, which may itself be
/// somebody's VM. Stock kernels can be recorded. docs/noise.md explains the tables.
/// Exit codes: 0 done, 1 the emulator counted other exits, or the budget was not met in --confirm's
/// second measurement, 2 wrong usage, 69 could not be recorded.
#[derive(Arguments)]
#[command(mut_arg("vcpus", |vcpus| vcpus.default_value("1")))]
pub struct Args {
    #[command(flatten)]
    lab: LabOptions,
    /// For how long to record, in the guest's time
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration)]
    time: Duration,
    #[command(flatten)]
    side: SideChoice,
    /// Who samples in the guest: its kernel's osnoise, or a program that reads the TSC
    /// [default: osnoise where the kernel has it]
    #[arg(long, value_name = "SAMPLER", value_parser = named::<Sampler>())]
    sampler: Option<Sampler>,
    /// Explain all gaps of this length or more [default: the longest five]
    #[arg(long, value_name = "TIME")]
    above: Option<Nanos>,
    /// Explain so many gaps at most
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number(0..=100_000))]
    gaps: u32,
    /// Find the fewest knobs after which no gap should be longer than this
    #[arg(long, value_name = "TIME")]
    budget: Option<Nanos>,
    /// Then boot with these knobs turned, and measure again
    ///
    /// The guest's CPU 0 keeps the housekeeping, so there is no sampling on it.
    #[arg(long, requires = "budget", conflicts_with = "stall")]
    confirm: bool,
    /// Record again and again, and show each window: a terminal has the last one
    #[arg(long, conflicts_with_all = ["rtla", "budget", "figure", "stall", "save", "recording"])]
    top: bool,
    /// End after so many windows [default: when interrupted]
    #[arg(long, value_name = "N", requires = "top", value_parser = number(1..=1_000_000))]
    windows: Option<u32>,
    /// Print what `rtla osnoise` prints, with the host's columns at the end of `top`
    #[arg(long, value_enum, value_name = "TOOL", conflicts_with_all = ["format", "budget"])]
    rtla: Option<Rtla>,
    /// Also draw steal and the hypervisor's noise over time: a page, or an SVG alone
    #[arg(long, value_name = "FILE.html|FILE.svg")]
    figure: Option<PathBuf>,
    /// Take time from the pCPU of the guest's CPU 0, as an SMI would, and look whether it is found
    ///
    /// LENGTH@PERIOD, such as 30us@10ms; only the lab's emulator can.
    #[arg(long, value_name = "STALLS")]
    stall: Option<Stalls>,
    /// Keep what was recorded, for --recording
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Read what was saved before, and record nothing; given twice, the sides that a VM and its
    /// host recorded, each by itself, at the same time
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["save", "time", "side", "sampler", "stall", "confirm"])]
    recording: Vec<PathBuf>,
    /// Which process on the host is the VM, where two recordings do not tell
    #[arg(long, value_name = "PROCESS", requires = "recording")]
    vm: Option<u32>,
    /// Stop after this (wall-clock) time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rtla {
    Top,
    Hist,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    signals::watch()?;
    args.lab.check_recorded(!args.recording.is_empty())?;
    if !args.recording.is_empty() {
        refuse(&["windows"], "with --recording: it is one window")?;
        let recorded = args.read()?;
        args.check_gaps(recorded.guest.is_some())?;
        args.check_figure(recorded.guest.is_some() && recorded.joined().is_some())?;
        return args.show(&recorded, Report::of(&recorded, args.budget));
    }
    let sides = Sides { sampler: args.sampler, ..args.side.sides(&args.lab)? };
    args.check_stall(sides)?;
    args.check_gaps(sides.guest)?;
    args.check_figure(sides.guest && sides.host)?;
    args.check_confirm(sides)?;
    if args.top {
        return args.top(sides);
    }
    if let Some(file) = &args.save {
        input::check_writable(file)?;
    }
    let recorded = progress::during(|events| args.record(sides, &[], events));
    let recorded = recorded.or_else(|error| args.keep(error))?;
    args.save(&recorded)?;
    let mut report = Report::of(&recorded, args.budget);
    if args.confirm {
        report.trial = args.confirm(sides, &report)?;
    }
    args.show(&recorded, report)
}

/// A file of --save.
fn read(file: &Path) -> Result<Recorded> {
    const KIND: Kind = Kind { verb: "explain", of: "noise", command: "noise" };
    let mut recorded: Recorded = KIND.read(file)?;
    if recorded.host.is_none() && recorded.guest.is_none() {
        return Err(KIND.wrong(file, NO_SIDE));
    }
    let sound = recorded.host.as_ref().is_none_or(HostNoise::is_sound)
        && recorded.guest.as_ref().is_none_or(GuestNoise::is_sound);
    if !sound {
        return Err(KIND.damaged(file));
    }
    // Older recordings do not say which exits are those of ticks.
    if let Some(host) = &mut recorded.host {
        mark_ticks(&mut host.absences);
    }
    Ok(recorded)
}

impl Args {
    fn read(&self) -> Result<Recorded> {
        match self.recording.as_slice() {
            [file] if self.vm.is_none() => read(file),
            [one, other] => {
                let (both, ns) = read(one)?
                    .with(read(other)?, self.vm)
                    .map_err(|error| usage(error.to_string()))?;
                if let Some(process) = both.process {
                    let seconds = ns as f64 / 1e9;
                    errln!("the guest is process {process}; both recorded the same {seconds:.2} s");
                }
                Ok(both)
            }
            [_] => Err(usage(
                "--vm has no effect with one recording\n\
                 hint: give the recording of the other side, too: --recording a second time",
            )),
            _ => {
                Err(usage("more than two recordings\nhint: give that of a VM and that of its host"))
            }
        }
    }

    fn save(&self, recorded: &Recorded) -> Result<()> {
        self.save.as_ref().map_or(Ok(()), |file| input::keep(file, recorded))
    }

    /// What was recorded until it failed is saved and shown all the same.
    fn keep(&self, error: anyhow::Error) -> Result<Recorded> {
        if let Some(Interrupted(recorded)) = error.downcast_ref() {
            self.save(recorded)?;
            let report = Report::of(recorded, None);
            self.format.print(&report, || report.text(recorded, self.gaps, self.least()))?;
        }
        Err(error)
    }

    fn least(&self) -> u64 {
        self.above.map_or(0, |above| above.0)
    }

    fn check_stall(&self, sides: Sides) -> Result<()> {
        let emulated =
            self.lab.host.host.boots() && self.lab.host.emulation.accel.resolve() == Accel::Tcg;
        if self.stall.is_some() && !(emulated && sides.host && sides.guest) {
            return Err(usage(
                "only the lab's emulator can stall a CPU, and both sides have to look\n\
                 hint: leave --stall, or --host here, --accel kvm and --side, out",
            ));
        }
        Ok(())
    }

    /// There are gaps only where a guest was asked.
    fn check_gaps(&self, guest: bool) -> Result<()> {
        if !guest {
            let why = "where no guest is asked: only who samples there finds gaps";
            refuse(&["above", "gaps", "sampler"], why)?;
        }
        if self.format.is_json() {
            refuse(&["above", "gaps"], "with --format json, which has all gaps")?;
        }
        if self.rtla.is_some() {
            refuse(&["above", "gaps"], "with --rtla: its tables have all gaps")?;
        }
        let wanted = [("--budget", self.budget.is_some()), ("--rtla", self.rtla.is_some())];
        match wanted.into_iter().find(|(_, wanted)| *wanted && !guest) {
            None => Ok(()),
            Some((option, _)) => Err(usage(format!(
                "{option} is about gaps, which only who samples in a guest finds\n\
                 hint: record the guest's side, too"
            ))),
        }
    }

    fn check_figure(&self, both: bool) -> Result<()> {
        let Some(file) = &self.figure else { return Ok(()) };
        if !both {
            return Err(usage(
                "--figure shows what the host did in the gaps of a guest\n\
                 hint: record both sides: leave --side and --host here out",
            ));
        }
        match is_svg(file) {
            true => input::check_figure(file),
            false => check(file),
        }
    }

    fn check_confirm(&self, sides: Sides) -> Result<()> {
        if !self.confirm {
            return Ok(());
        }
        if !(self.lab.host.host.boots() && sides.host && sides.guest) {
            return Err(usage(
                "--confirm boots host and guest again, and both sides have to look\n\
                 hint: leave --host here and --side out",
            ));
        }
        if self.lab.size.vcpus == 1 {
            return Err(usage(
                "--vcpus 1 is too few for --confirm: one vCPU is for the guest's housekeeping\n\
                 hint: give at least 2",
            ));
        }
        Ok(())
    }

    /// None where no knob is needed, or known.
    fn confirm(&self, sides: Sides, report: &Report) -> Result<Option<Trial>> {
        let Some((budget, book)) = report.budget.as_ref().zip(report.ledger.as_ref()) else {
            return Ok(None);
        };
        if budget.knobs.is_empty() {
            return Ok(None);
        }
        let again = progress::during(|events| self.record(sides, &budget.knobs, events))?;
        let measured = Report::of(&again, self.budget).ledger;
        Ok(measured.map(|measured| Trial::of(budget, book, &measured)))
    }

    fn record(&self, sides: Sides, knobs: &[Knob], events: Events) -> Result<Recorded> {
        if !self.lab.host.host.boots() {
            let recorded = record_here(sides, self.time)?;
            check_ran(recorded.host.as_ref())?;
            return Ok(recorded);
        }
        let (host, guest) = self.boot(knobs, events)?;
        let mut recorded = record(&host, &guest, sides, self.time, self.timeout)?;
        recorded.stalls = self.stall;
        guest.shutdown()?;
        host.shutdown()?;
        Ok(recorded)
    }

    /// A pair of the lab's with these knobs turned.
    fn boot(&self, knobs: &[Knob], events: Events) -> Result<(Host, Guest)> {
        let mut plan = self.lab.plan(Clock::Leaping, events)?;
        quiet(&mut plan.host, &mut plan.guest, self.stall);
        let vcpus = plan.guest.vcpus;
        plan.host.boot.append.extend(host_parameters(knobs, &pcpus(vcpus)));
        plan.guest.append.extend(guest_parameters(knobs, &sampled(vcpus)));
        let (host, guest) = plan.boot(events)?;
        if self.confirm {
            sample_on(&guest, &sampled(vcpus))?;
        }
        Ok((host, guest))
    }

    /// One window after the other.
    fn top(&self, sides: Sides) -> Result<ExitCode> {
        let windows = 1..=self.windows.unwrap_or(u32::MAX);
        if !self.lab.host.host.boots() {
            for window in windows {
                self.show_window(window, &record_here(sides, self.time)?)?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let (host, guest) = progress::during(|events| self.boot(&[], events))?;
        for window in windows {
            self.show_window(window, &record(&host, &guest, sides, self.time, self.timeout)?)?;
        }
        guest.shutdown()?;
        host.shutdown()?;
        Ok(ExitCode::SUCCESS)
    }

    fn show_window(&self, window: u32, recorded: &Recorded) -> Result<()> {
        let report = Report::of(recorded, None);
        if !self.format.is_json() {
            clear_terminal();
            out!("Window {window}\n\n")?;
        }
        self.format.print(&report, || report.brief(recorded) + "\n")
    }

    fn show(&self, recorded: &Recorded, report: Report) -> Result<ExitCode> {
        match (self.rtla, &report.ledger) {
            (Some(Rtla::Top), Some(book)) => {
                out!("{}", rtla::top(book, recorded.joined().is_some()))?
            }
            (Some(Rtla::Hist), Some(book)) => out!("{}", rtla::hist(book))?,
            _ => self.format.print(&report, || report.text(recorded, self.gaps, self.least()))?,
        }
        let drawn = self.figure.as_ref().zip(report.ledger.as_ref()).zip(recorded.guest.as_ref());
        if let Some(((file, book), guest)) = drawn {
            if is_svg(file) {
                input::put(file, figure::noise(book, guest.begin_ns).as_bytes())?;
            } else {
                let page = noise_html(book, guest.begin_ns, recorded.joined().is_some())?;
                write_page(file, &page)?;
            }
            errln!("figure: {}", file.display());
        }
        let audit = recorded.host.as_ref().and_then(|host| host.audit);
        let differs = audit.is_some_and(|audit| {
            audit.world_switches.is_some_and(|switches| switches != audit.exits)
        });
        let missed = report.trial.is_some_and(|trial| trial.measured.over > 0);
        Ok(if differs || missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn is_svg(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "svg")
}
