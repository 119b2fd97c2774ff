// SPDX-License-Identifier: GPL-2.0-only
//! `paratick lab timerlat`.

use super::shown::{check_any, Shown};
use crate::{
    errors::usage,
    options::{named, LabOptions, Recording},
    progress,
};
use anyhow::Result;
use clap::Args as Arguments;
use paratick_bench::latency::{quiet, record, Recorded, Wanted};
use paratick_core::{event::Events, latency::Sampler};
use paratick_machine::spec::Clock;
use std::process::ExitCode;

#[derive(Arguments)]
#[command(mut_arg("vcpus", |vcpus| vcpus.default_value("1")))]
pub struct Args {
    #[command(flatten)]
    lab: LabOptions,
    #[command(flatten)]
    recording: Recording,
    /// Who waits for the timer in the guest: its kernel's timerlat, or a program that sleeps
    /// [default: timerlat where the kernel has it]
    #[arg(long, value_name = "SAMPLER", value_parser = named::<Sampler>())]
    sampler: Option<Sampler>,
    #[command(flatten)]
    shown: Shown,
    /// What runs in the guest meanwhile, in the background
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    args.lab.check_recorded("timerlat")?;
    args.shown.check()?;
    if !args.recording.sides().guest {
        return Err(usage(
            "latency is measured in a guest: its host alone does not know the deadlines\n\
             hint: leave --side out",
        ));
    }
    args.recording.save.check()?;
    let recorded = progress::during(|events| args.record(events))?;
    check_any(&recorded)?;
    args.recording.save.keep(&recorded)?;
    args.shown.show(&recorded)?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn record(&self, events: Events) -> Result<Recorded> {
        let mut plan = self.lab.plan(Clock::Leaping, events)?;
        quiet(&mut plan.host, &mut plan.guest);
        let (host, guest) = plan.boot(events)?;
        let wanted = Wanted {
            sides: self.recording.sides(),
            sampler: self.sampler,
            time: self.recording.time,
            command: &self.command,
            limit: self.recording.timeout,
        };
        let recorded = record(&host, &guest, &wanted)?;
        guest.shutdown()?;
        host.shutdown()?;
        Ok(recorded)
    }
}
