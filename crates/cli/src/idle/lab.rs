// SPDX-License-Identifier: GPL-2.0-only
//! `paratick lab idle`.

use super::shown::Shown;
use crate::{
    errors::usage,
    options::{duration, LabOptions, Save, SideChoice},
    progress,
};
use anyhow::Result;
use clap::Args as Arguments;
use paratick_bench::{
    noise::Sides,
    wakeups::{record, Load, Recorded},
};
use paratick_core::{event::Events, wakeups::Knob};
use paratick_machine::spec::Clock;
use std::{collections::BTreeSet, process::ExitCode, time::Duration};

#[derive(Arguments)]
pub struct Args {
    #[command(flatten)]
    lab: LabOptions,
    /// For how long to record, in the guest's time
    #[arg(long = "for", id = "for", value_name = "TIME", default_value = "10s")]
    #[arg(value_parser = duration)]
    time: Duration,
    #[command(flatten)]
    side: SideChoice,
    /// Try what was predicted in another guest, and count
    #[arg(long)]
    confirm: bool,
    #[command(flatten)]
    save: Save,
    /// Stop after this (wall-clock) time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    shown: Shown,
    /// What runs in the guest meanwhile, in the background
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    args.lab.check_recorded("idle")?;
    args.shown.check_figure()?;
    let sides = args.side.sides();
    args.shown.check(sides.host, sides.guest, "leave --side out")?;
    args.check_confirm(sides)?;
    args.save.check()?;
    let recorded = progress::during(|events| args.record(sides, None, &[], events))?;
    args.save.keep(&recorded)?;
    let mut report = args.shown.report(&recorded);
    if args.confirm {
        let slack = report.saving.as_ref().map(|saving| (&saving.processes, saving.slack_ns));
        let knobs = &args.shown.knobs;
        let again = progress::during(|events| args.record(sides, slack, knobs, events))?;
        let counted = args.shown.report(&again);
        if let (Some(trial), Some(counted)) = (&mut report.trial, &counted.trial) {
            trial.counted_exits = Some(counted.exits);
        }
        report.counted = counted.saving;
    }
    args.shown.show(&report)?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn check_confirm(&self, sides: Sides) -> Result<()> {
        let knobs = &self.shown.knobs;
        if !self.confirm {
            return Ok(());
        }
        if self.shown.slack.is_none() && knobs.is_empty() {
            return Err(usage(
                "there is nothing to confirm\n\
                 hint: say what to try, with --slack or --try",
            ));
        }
        if !(sides.host && sides.guest) {
            return Err(usage(
                "what a change saves is counted from both sides\n\
                 hint: leave --side out",
            ));
        }
        if let Some(knob) = knobs.iter().find(|knob| knob.parameters().is_none()) {
            return Err(usage(format!(
                "{knob} takes a change of the guest's kernel, so it cannot be confirmed\n\
                 hint: leave --confirm out; the lab can do it to lab_sampler_fn alone, with \
                 --append lab_sampler.period_us=N"
            )));
        }
        self.lab.host.check(knobs.iter().filter_map(Knob::mode))
    }

    fn record(
        &self,
        sides: Sides,
        slack: Option<(&BTreeSet<String>, u64)>,
        knobs: &[Knob],
        events: Events,
    ) -> Result<Recorded> {
        let mut plan = self.lab.plan(Clock::Leaping, events)?;
        for knob in knobs {
            match knob {
                Knob::Mode(mode) => plan.guest.mode = *mode,
                other => plan.guest.append.extend(other.parameters().into_iter().flatten()),
            }
        }
        let (host, guest) = plan.boot(events)?;
        let load = Load { command: &self.command, slack, knobs };
        let recorded = record(&host, &guest, sides, self.time, load, self.timeout)?;
        guest.shutdown()?;
        host.shutdown()?;
        Ok(recorded)
    }
}
