// SPDX-License-Identifier: GPL-2.0-only
//! `paratick timerlat`: of this machine, which may be somebody's VM.

pub mod lab;
mod shown;

use crate::{
    input::Kind,
    options::{duration, named, Save},
    signals::{self, Leaving},
};
use anyhow::Result;
use clap::Args as Arguments;
use paratick_bench::latency::{record_here, Recorded};
use paratick_core::latency::Sampler;
use shown::{check_any, Shown};
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Say where the time goes between the deadline of a timer and the thread that waits for it
///
/// Lets the kernel's timerlat run on all CPUs of this machine, which may be somebody's VM, or a
/// program where its kernel has no timerlat, and splits the latency into parts that add up to it.
/// `paratick lab timerlat` boots a guest and its host, and follows each deadline through both.
/// docs/noise.md explains the parts.
/// Exit codes: 0 done, 2 wrong usage, 69 could not be recorded, 130 interrupted (what was recorded
/// until then is printed and saved).
#[derive(Arguments)]
pub struct Args {
    /// For how long to record
    #[arg(long = "for", id = "for", value_name = "TIME", default_value = "3s")]
    #[arg(value_parser = duration)]
    time: Duration,
    /// Who waits for the timer: the kernel's timerlat, or a program that sleeps
    /// [default: timerlat where the kernel has it]
    #[arg(long, value_name = "SAMPLER", value_parser = named::<Sampler>())]
    sampler: Option<Sampler>,
    #[command(flatten)]
    save: Save,
    /// Read what was saved before, by this or by `paratick lab timerlat`, and record nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save", "for", "sampler"])]
    recording: Option<PathBuf>,
    #[command(flatten)]
    shown: Shown,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    args.shown.check()?;
    if let Some(file) = &args.recording {
        signals::watch()?;
        const KIND: Kind = Kind { verb: "explain", of: "latency", command: "timerlat" };
        let recorded: Recorded = KIND.read(file)?;
        if !recorded.guest.is_sound() {
            return Err(KIND.damaged(file));
        }
        args.shown.show(&recorded)?;
        return Ok(ExitCode::SUCCESS);
    }
    args.save.check()?;
    let leaving = Leaving::watch()?;
    let recorded = record_here(args.time, args.sampler, &|| leaving.wanted())?;
    // Whoever reads the table may go away, and a disk may be full.
    let kept = args.save.keep(&recorded);
    if !leaving.wanted() {
        check_any(&recorded)?;
    }
    args.shown.show(&recorded)?;
    kept.map(|()| leaving.code())
}
