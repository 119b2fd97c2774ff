// SPDX-License-Identifier: GPL-2.0-only
//! `paratick timerlat`.

use crate::{
    errors::usage,
    input::{self, Kind},
    options::{duration, named, number, refuse, Format, LabOptions, SideChoice},
    progress, signals,
};
use anyhow::{bail, Result};
use clap::Args as Arguments;
use paratick_bench::{
    latency::{quiet, record, record_here, Recorded, Wanted},
    noise::Sides,
};
use paratick_core::{
    event::Events,
    latency::{exits_by_cause, splits, summary, ByCause, Sampler, Split, Summary},
};
use paratick_machine::spec::Clock;
use paratick_view::{number::plural, table::wrap, tables::latency as tables};
use serde::Serialize;
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Say where the time goes between the deadline of a guest's timer and the thread that waits for it
///
/// Lets the kernel's timerlat run on all CPUs of a guest, or a program where its kernel has no
/// timerlat, beside COMMAND or nothing, follows each deadline through the host, and splits the
/// latency into parts that add up to it.  In the lab it does both sides; with --host here and
/// --side guest it measures this machine, which may be somebody's VM, and has only the guest's
/// parts.  Stock kernels can be measured.  docs/noise.md explains the parts.
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
    /// Who waits for the timer in the guest: its kernel's timerlat, or a program that sleeps
    /// [default: timerlat where the kernel has it]
    #[arg(long, value_name = "SAMPLER", value_parser = named::<Sampler>())]
    sampler: Option<Sampler>,
    /// Explain so many activations, those with the longest latency
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number(0..=100_000))]
    worst: u32,
    /// Keep what was recorded, for --recording
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Read what was saved before, and record nothing
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["save", "time", "side", "sampler", "command"])]
    recording: Option<PathBuf>,
    /// Stop after this (wall-clock) time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    format: Format,
    /// What runs in the guest meanwhile, in the background
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    signals::watch()?;
    args.lab.check_recorded(args.recording.is_some())?;
    if args.format.is_json() {
        refuse(&["worst"], "with --format json, which has all activations")?;
    }
    if let Some(file) = &args.recording {
        const KIND: Kind = Kind { verb: "explain", of: "latency", command: "timerlat" };
        let recorded: Recorded = KIND.read(file)?;
        if !recorded.guest.is_sound() {
            return Err(KIND.damaged(file));
        }
        return args.show(&recorded);
    }
    let sides = args.side.sides(&args.lab)?;
    args.check(sides)?;
    if let Some(file) = &args.save {
        input::check_writable(file)?;
    }
    let recorded = progress::during(|events| args.record(sides, events))?;
    if recorded.guest.activations.is_empty() {
        bail!(
            "there was no activation in {:?}\n\
             hint: record for longer than the period: 1 ms, or what osnoise/timerlat_period_us in \
             tracefs says",
            args.time
        );
    }
    if let Some(file) = &args.save {
        input::keep(file, &recorded)?;
    }
    args.show(&recorded)
}

impl Args {
    fn check(&self, sides: Sides) -> Result<()> {
        if !sides.guest {
            return Err(usage(
                "latency is measured in a guest: its host alone does not know the deadlines\n\
                 hint: give --side guest in the VM, or leave --host here and --side out",
            ));
        }
        if !self.command.is_empty() && !self.lab.host.host.boots() {
            return Err(usage(
                "a command runs in a guest of the lab, and none is booted\n\
                 hint: start it yourself, or leave --host here out",
            ));
        }
        Ok(())
    }

    fn record(&self, sides: Sides, events: Events) -> Result<Recorded> {
        if !self.lab.host.host.boots() {
            return record_here(self.time, self.sampler);
        }
        let mut plan = self.lab.plan(Clock::Leaping, events)?;
        quiet(&mut plan.host, &mut plan.guest);
        let (host, guest) = plan.boot(events)?;
        let wanted = Wanted {
            sides,
            sampler: self.sampler,
            time: self.time,
            command: &self.command,
            limit: self.timeout,
        };
        let recorded = record(&host, &guest, &wanted)?;
        guest.shutdown()?;
        host.shutdown()?;
        Ok(recorded)
    }

    fn show(&self, recorded: &Recorded) -> Result<ExitCode> {
        let report = Report::of(recorded);
        self.format.print(&report, || self.text(&report))?;
        Ok(ExitCode::SUCCESS)
    }

    fn text(&self, report: &Report) -> String {
        let sums = &report.summary;
        let parts = tables::parts(sums, report.sampler, report.window_ns, report.with_host);
        let mut pieces = vec![parts.text()];
        if report.unseen > 0 {
            pieces.push(wrap(&format!(
                "Besides, {} had a timer that was not seen to expire on the CPU of its thread, and \
                 are left out.",
                plural(report.unseen, "wake-up")
            )));
        }
        if !report.exits.is_empty() {
            pieces.push(tables::exits(&report.exits).text());
        }
        let mut worst: Vec<&Split> = report.activations.iter().collect();
        worst.sort_by_key(|one| (std::cmp::Reverse(one.thread_ns), one.deadline_ns));
        worst.truncate(self.worst as usize);
        if !worst.is_empty() {
            let lines = worst.into_iter().map(|one| wrap(&tables::chain(one)));
            pieces.push(format!("The longest latencies\n{}", lines.collect::<String>()));
        }
        pieces.join("\n")
    }
}

/// What `--format json` prints.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    /// Who waited for the timer.
    sampler: Sampler,
    /// Wake-ups that are not among the activations.
    unseen: usize,
    window_ns: u64,
    with_host: bool,
    summary: Summary,
    exits: Vec<ByCause>,
    activations: Vec<Split>,
}

impl Report {
    fn of(recorded: &Recorded) -> Report {
        let guest = &recorded.guest;
        let activations = splits(guest, recorded.host.as_ref().zip(recorded.process));
        Report {
            schema: "paratick-timerlat/1",
            sampler: guest.sampler,
            unseen: guest.unseen.len(),
            window_ns: guest.end_ns.saturating_sub(guest.begin_ns),
            with_host: recorded.host.is_some(),
            summary: summary(&activations),
            exits: exits_by_cause(&activations),
            activations,
        }
    }
}
