// SPDX-License-Identifier: GPL-2.0-only
//! `paratick lab idle`.

use super::shown::Shown;
use crate::{
    errors::usage,
    options::{LabOptions, Recording},
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
use std::{collections::BTreeSet, process::ExitCode};

#[derive(Arguments)]
#[command(mut_arg("for", |time| time.default_value("10s")))]
pub struct Args {
    #[command(flatten)]
    lab: LabOptions,
    #[command(flatten)]
    recording: Recording,
    /// Try what was predicted in another guest, and count
    #[arg(long)]
    confirm: bool,
    #[command(flatten)]
    shown: Shown,
    /// What runs in the guest meanwhile, in the background
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    args.lab.check_recorded("idle")?;
    args.shown.check_figure()?;
    let sides = args.recording.sides();
    args.shown.check(sides.host, sides.guest, "leave --side out")?;
    args.check_confirm(sides)?;
    args.recording.save.check()?;
    let recorded = progress::during(|events| args.record(sides, None, &[], events))?;
    args.recording.save.keep(&recorded)?;
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
        let recorded =
            record(&host, &guest, sides, self.recording.time, load, self.recording.timeout)?;
        guest.shutdown()?;
        host.shutdown()?;
        Ok(recorded)
    }
}
