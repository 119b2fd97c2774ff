// SPDX-License-Identifier: GPL-2.0-only
//! `paratick calibrate`.

use crate::{
    input,
    options::{number, Format, Save},
    progress, signals,
};
use anyhow::Result;
use paratick_core::calibration::{Calibration, SCHEMA};
use paratick_machine::micro::{calibrate, MOST_SAMPLES};
use paratick_view::tables::calibration as tables;
use std::{path::PathBuf, process::ExitCode};

/// Measure what exits cost on this machine, in cycles
///
/// A micro guest, without a VMM and without an operating system, reads the TSC around instructions
/// that exit: CPUID, port I/O, HLT and wake-up, TSC_DEADLINE, IPI, EOI.  What decides the numbers
/// is shown with them.  On a machine that is a guest itself they are not those of hardware, and
/// under emulation there are none.  Needs /dev/kvm.  docs/exit-cost.md explains the table.
/// Exit codes: 0 done, 2 wrong usage, 69 this machine runs no VMs.
#[derive(clap::Args)]
pub struct Args {
    /// How often to measure each
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = number(100..=MOST_SAMPLES))]
    samples: u32,
    #[command(flatten)]
    save: Save,
    /// Show what was saved before, and measure nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["samples", "save"])]
    recording: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    signals::watch()?;
    let measured = match &args.recording {
        Some(file) => {
            let hint = "a file that `paratick calibrate --save FILE` wrote";
            let text = input::text("show", file, hint)?;
            let read = serde_json::from_str(&text).map_err(|error| error.to_string());
            let known = read.and_then(|all: Calibration| match &*all.schema {
                SCHEMA => Ok(all),
                other => Err(format!("its schema is {other}, not {SCHEMA}")),
            });
            known.map_err(|error| {
                let what = format!("it is no calibration: {error}\nhint: give {hint}");
                input::wrong("show", file, what)
            })?
        }
        None => {
            args.save.check()?;
            progress::during(|events| calibrate(args.samples, events))?
        }
    };
    args.save.keep(&measured)?;
    let text =
        || format!("{}\n{}", tables::exits(&measured).text(), tables::machine(&measured).text());
    args.format.print(&measured, text)?;
    Ok(ExitCode::SUCCESS)
}
