// SPDX-License-Identifier: GPL-2.0-only
//! `paratick noise`.

use crate::{
    input,
    options::{duration, number, Format, LabOptions, SideChoice},
    progress, signals,
};
use anyhow::{bail, Result};
use clap::Args as Arguments;
use paratick_bench::noise::{record, record_here, Recorded, Sides};
use paratick_core::{
    event::Events,
    noise::{by_source, host_sources, ledger, Entry, HostNoise, Ledger, Parts, Rank},
    units::Nanos,
};
use paratick_machine::spec::Clock;
use paratick_view::{table::wrap, tables::noise as tables};
use serde::Serialize;
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Say where a guest's time goes while it does not run on
///
/// Lets osnoise sample on all CPUs of a guest, records every exit on its host, and splits each gap
/// of the samples into disjoint parts that add up to it. In the lab it does both sides. With --host
/// here it records the exits of the VMs that run on this machine, and with --side guest the noise
/// of this machine, which may itself be somebody's VM. Stock kernels can be recorded.
/// docs/noise.md explains the tables.
/// Exit codes: 0 done, 2 wrong usage, 69 could not be recorded.
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
    /// Keep what was recorded, for --recording
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Read what was saved before, and record nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save", "time", "side"])]
    recording: Option<PathBuf>,
    /// Stop after this (wall-clock) time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    format: Format,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    signals::watch()?;
    if let Some(file) = &args.recording {
        let text = input::text("explain", file, "a file that `paratick noise --save` wrote")?;
        let recorded: Recorded = serde_json::from_str(&text).map_err(|error| {
            let hint = "hint: give a file that `paratick noise --save` wrote";
            input::wrong("explain", file, format!("it is no recording of noise: {error}\n{hint}"))
        })?;
        return args.show(&recorded);
    }
    let sides = args.side.sides(&args.lab)?;
    args.lab.check()?;
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
        // CPUs of the emulator take turns, and lose each other's; by this clock less at a time.
        plan.host.emulation.parallel_clock |= plan.guest.vcpus > 1;
        let (host, guest) = plan.boot(events)?;
        let recorded = record(&host, &guest, sides, self.time, self.timeout)?;
        guest.shutdown()?;
        host.shutdown()?;
        Ok(recorded)
    }

    fn show(&self, recorded: &Recorded) -> Result<ExitCode> {
        let report = Report::of(recorded);
        self.format.print(&report, || self.text(recorded, &report))?;
        Ok(ExitCode::SUCCESS)
    }

    fn text(&self, recorded: &Recorded, report: &Report) -> String {
        let mut pieces = Vec::new();
        if let Some(ledger) = &report.ledger {
            pieces.push(tables::cpus(ledger).text());
            pieces.push(tables::parts(ledger, recorded.host.is_some()).text());
        } else if let Some(host) = &recorded.host {
            pieces.push(tables::classes(&host.absences, window(host)).text());
        }
        pieces.push(tables::ranks(&report.sources, "What it came from").text());
        let advice = tables::advice(&report.sources);
        if !advice.is_empty() {
            let lines = advice.iter().map(|line| wrap(&format!("- {line}")));
            pieces.push(format!("What to do about it\n{}", lines.collect::<String>()));
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
    ledger: Option<Ledger>,
    host: Option<&'a HostNoise>,
}

impl Report<'_> {
    fn of(recorded: &Recorded) -> Report<'_> {
        let host = recorded.host.as_ref();
        let ledger = recorded.guest.as_ref().map(|guest| ledger(guest, host.zip(recorded.process)));
        let sources = match &ledger {
            Some(ledger) => {
                let events = ledger.entries.iter().flat_map(|entry| &entry.events);
                by_source(events.map(|event| (event.source.clone(), event.ns)))
            }
            None => host.map_or(Vec::new(), |host| host_sources(&host.absences)),
        };
        Report {
            schema: "paratick-noise/1",
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
