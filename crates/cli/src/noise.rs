// SPDX-License-Identifier: GPL-2.0-only
//! `paratick noise`.

use crate::{
    errors::usage,
    input,
    options::{duration, number, Format, LabOptions, SideChoice},
    print::{errln, out},
    progress, report, signals,
};
use anyhow::{bail, Result};
use clap::{Args as Arguments, ValueEnum};
use paratick_bench::noise::{quiet, record, record_here, Recorded, Sides};
use paratick_core::{
    event::Events,
    noise::{
        budget, by_source, host_sources, ledger, Budget, Entry, Found, HostNoise, Ledger, Parts,
        Rank, Stalls,
    },
    units::Nanos,
};
use paratick_machine::{accel::Accel, spec::Clock};
use paratick_view::{noise_html, rtla, table::wrap, tables::noise as tables};
use serde::Serialize;
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Say where a guest's time goes while it does not run on
///
/// Lets osnoise sample on all CPUs of a guest, records every exit on its host, and splits each gap
/// of the samples into disjoint parts that add up to it. In the lab it does both sides. With --host
/// here it records the exits of the VMs that run on this machine, and with --side guest the noise
/// of this machine, which may itself be somebody's VM. Stock kernels can be recorded.
/// docs/noise.md explains the tables.
/// Exit codes: 0 done, 1 the emulator counted other exits, 2 wrong usage, 69 could not be
/// recorded.
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
    /// Explain all gaps of this length or more [default: the longest five]
    #[arg(long, value_name = "TIME")]
    above: Option<Nanos>,
    /// Explain so many gaps at most
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number(0..=100_000))]
    gaps: u32,
    /// Find the fewest knobs after which no gap should be longer than this
    #[arg(long, value_name = "TIME")]
    budget: Option<Nanos>,
    /// Print what `rtla osnoise` prints, with the host's columns at the end of `top`
    #[arg(long, value_enum, value_name = "TOOL", conflicts_with_all = ["format", "budget"])]
    rtla: Option<Rtla>,
    /// Also write a page with steal and the hypervisor's noise over time
    #[arg(long, value_name = "FILE.html")]
    figure: Option<PathBuf>,
    /// Take time from the pCPU of the guest's CPU 0, as an SMI would, and look whether it is found
    ///
    /// LENGTH@PERIOD, such as 30us@10ms; only the lab's emulator can.
    #[arg(long, value_name = "STALLS")]
    stall: Option<Stalls>,
    /// Keep what was recorded, for --recording
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Read what was saved before, and record nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save", "time", "side", "stall"])]
    recording: Option<PathBuf>,
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
    if let Some(file) = &args.recording {
        let text = input::text("explain", file, "a file that `paratick noise --save` wrote")?;
        let recorded: Recorded = serde_json::from_str(&text).map_err(|error| {
            let hint = "hint: give a file that `paratick noise --save` wrote";
            input::wrong("explain", file, format!("it is no recording of noise: {error}\n{hint}"))
        })?;
        args.check_gaps(recorded.guest.is_some())?;
        args.check_figure(recorded.guest.is_some() && recorded.host.is_some())?;
        return args.show(&recorded);
    }
    let sides = args.side.sides(&args.lab)?;
    args.lab.check()?;
    args.check_stall(sides)?;
    args.check_gaps(sides.guest)?;
    args.check_figure(sides.guest && sides.host)?;
    if let Some(file) = &args.save {
        input::check_writable(file)?;
    }
    let recorded = progress::during(|events| args.record(sides, events))?;
    if let Some(file) = &args.save {
        input::keep(file, &recorded)?;
    }
    args.show(&recorded)
}

impl Args {
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
        let wanted = [("--budget", self.budget.is_some()), ("--rtla", self.rtla.is_some())];
        match wanted.into_iter().find(|(_, wanted)| *wanted && !guest) {
            None => Ok(()),
            Some((option, _)) => Err(usage(format!(
                "{option} is about gaps, which only osnoise in a guest finds\n\
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
        report::check(file)
    }

    fn record(&self, sides: Sides, events: Events) -> Result<Recorded> {
        if !self.lab.host.host.boots() {
            let recorded = record_here(sides, self.time)?;
            if recorded.host.as_ref().is_some_and(|host| host.absences.is_empty()) {
                bail!(
                    "no vCPU ran on this machine while it was recorded\n\
                     hint: start a VM, or give --side guest if this machine is one"
                );
            }
            return Ok(recorded);
        }
        let mut plan = self.lab.plan(Clock::Leaping, events)?;
        quiet(&mut plan.host, &mut plan.guest, self.stall);
        let (host, guest) = plan.boot(events)?;
        let mut recorded = record(&host, &guest, sides, self.time, self.timeout)?;
        recorded.stalls = self.stall;
        guest.shutdown()?;
        host.shutdown()?;
        Ok(recorded)
    }

    fn show(&self, recorded: &Recorded) -> Result<ExitCode> {
        let report = Report::of(recorded, self.budget);
        match (self.rtla, &report.ledger) {
            (Some(Rtla::Top), Some(book)) => out!("{}", rtla::top(book, recorded.host.is_some()))?,
            (Some(Rtla::Hist), Some(book)) => out!("{}", rtla::hist(book))?,
            _ => self.format.print(&report, || self.text(recorded, &report))?,
        }
        let drawn = self.figure.as_ref().zip(report.ledger.as_ref()).zip(recorded.guest.as_ref());
        if let Some(((file, book), guest)) = drawn {
            report::write_page(file, &noise_html(book, guest.begin_ns, recorded.host.is_some())?)?;
            errln!("figure: {}", file.display());
        }
        let audit = recorded.host.as_ref().and_then(|host| host.audit);
        let differs = audit.is_some_and(|audit| {
            audit.world_switches.is_some_and(|switches| switches != audit.exits)
        });
        Ok(if differs { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn text(&self, recorded: &Recorded, report: &Report) -> String {
        let mut pieces = Vec::new();
        if let Some(ledger) = &report.ledger {
            pieces.push(tables::cpus(ledger).text());
            pieces.push(tables::parts(ledger, recorded.host.is_some()).text());
        } else if let Some(host) = &recorded.host {
            pieces.push(tables::classes(&host.absences, window(host)).text());
        }
        if let Some((stalls, found)) = recorded.stalls.zip(report.stalls.as_ref()) {
            pieces.push(wrap(&tables::stalls(stalls, found)));
        }
        if let Some(audit) = recorded.host.as_ref().and_then(tables::audit) {
            pieces.push(wrap(&audit));
        }
        pieces.push(tables::ranks(&report.sources, "What it came from").text());
        let advice = tables::advice(&report.sources);
        if !advice.is_empty() {
            let lines = advice.iter().map(|line| wrap(&format!("- {line}")));
            pieces.push(format!("What to do about it\n{}", lines.collect::<String>()));
        }
        if let Some(budget) = &report.budget {
            pieces.push(tables::budget(budget).lines().map(wrap).collect());
        }
        let gaps = report.ledger.as_ref().map_or(Vec::new(), |ledger| self.gaps(ledger));
        if !gaps.is_empty() {
            let lines = gaps.iter().map(|entry| wrap(&tables::chain(entry)));
            pieces.push(format!("The longest gaps\n{}", lines.collect::<String>()));
        }
        if recorded.host.as_ref().is_some_and(|host| host.vmm_end_unknown) {
            pieces.push(wrap(
                "Where a VMM's time ended could not be seen: what KVM did before the next entry \
                 counts as the VMM's.",
            ));
        }
        pieces.join("\n")
    }

    /// Those to explain, the longest first.
    fn gaps<'a>(&self, ledger: &'a Ledger) -> Vec<&'a Entry> {
        let least = self.above.map_or(0, |above| above.0);
        let mut gaps: Vec<&Entry> = ledger.entries.iter().filter(|gap| gap.ns >= least).collect();
        gaps.sort_by_key(|gap| (std::cmp::Reverse(gap.ns), gap.begin_ns));
        gaps.truncate(self.gaps as usize);
        gaps
    }
}

/// What `--format json` prints.
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    /// Of the gaps where a guest was asked, else of all exits.
    sources: Vec<Rank>,
    parts: Option<Parts>,
    unexplained_gaps: Option<usize>,
    /// What turning knobs would do, if a budget is given.
    budget: Option<Budget>,
    /// What was found of the emulator's stalls.
    stalls: Option<Found>,
    ledger: Option<Ledger>,
    host: Option<&'a HostNoise>,
}

impl Report<'_> {
    fn of(recorded: &Recorded, most: Option<Nanos>) -> Report<'_> {
        let host = recorded.host.as_ref();
        let ledger = recorded.guest.as_ref().map(|guest| ledger(guest, host.zip(recorded.process)));
        let sources = match &ledger {
            Some(ledger) => {
                let events = ledger.entries.iter().flat_map(|entry| &entry.events);
                by_source(events.map(|event| (event.source.clone(), event.ns)))
            }
            None => host.map_or(Vec::new(), |host| host_sources(&host.absences)),
        };
        let sides = ledger.as_ref().zip(recorded.guest.as_ref()).zip(host.zip(recorded.process));
        let stalls =
            sides.zip(recorded.stalls).and_then(|(((ledger, guest), (host, process)), stalls)| {
                stalls.found(ledger, guest, host, process)
            });
        Report {
            schema: "paratick-noise/1",
            budget: ledger.as_ref().zip(most).map(|(ledger, most)| budget(ledger, most.0)),
            stalls,
            sources,
            parts: ledger.as_ref().map(Ledger::parts),
            unexplained_gaps: host.and(ledger.as_ref()).map(Ledger::unexplained),
            ledger,
            host,
        }
    }
}

fn window(host: &HostNoise) -> u64 {
    host.clock.end.ns.saturating_sub(host.clock.begin.ns)
}
