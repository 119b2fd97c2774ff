// SPDX-License-Identifier: GPL-2.0-only
//! `paratick noise --top`: one window after the other.

use super::{report::Report, Args};
use crate::{
    print::{clear_terminal, out},
    progress,
};
use anyhow::Result;
use paratick_bench::noise::{record, record_here, Recorded, Sides};
use std::process::ExitCode;

pub fn run(args: &Args, sides: Sides) -> Result<ExitCode> {
    let windows = 1..=args.windows.unwrap_or(u32::MAX);
    if !args.lab.host.host.boots() {
        for window in windows {
            show(args, window, &record_here(sides, args.time)?)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (host, guest) = progress::during(|events| args.boot(&[], events))?;
    for window in windows {
        show(args, window, &record(&host, &guest, sides, args.time, args.timeout)?)?;
    }
    guest.shutdown()?;
    host.shutdown()?;
    Ok(ExitCode::SUCCESS)
}

fn show(args: &Args, window: u32, recorded: &Recorded) -> Result<()> {
    let report = Report::of(recorded, None);
    if !args.format.is_json() {
        clear_terminal();
        out!("Window {window}\n\n")?;
    }
    args.format.print(&report, || report.brief(recorded))
}
