// SPDX-License-Identifier: GPL-2.0-only
//! `paratick idle`: of the VMs that run on this machine, or of this machine, which is one.

pub mod lab;
mod pages;
mod report;
mod shown;

use crate::{
    input::{Kind, NO_SIDE},
    options::{duration, Chosen, Role, Save, Vms},
    signals::{self, Leaving},
    top::{windows, Screen},
};
use anyhow::Result;
use clap::Args as Arguments;
use pages::Wakeups;
use paratick_bench::{
    noise::{check_ran, check_whole},
    wakeups::{record_here, start_here, Recorded, WakeupsHere},
};
use paratick_core::{noise::HostNoise, wakeups::GuestWakeups};
use shown::Shown;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// Say what wakes VMs that should be idle
///
/// Records every exit of the VMs that run on this machine, and how often each wakes a pCPU.  With
/// --side guest, in a VM: every interrupt and every timer with who started it, and so what wakes
/// this machine.  `paratick lab idle` boots both sides, and charges each exit to what woke the
/// vCPU.  docs/idle.md explains the tables.
/// Exit codes: 0 done, 2 wrong usage, 69 could not be recorded, 130 interrupted (what was recorded
/// until then is printed and saved).
#[derive(Arguments)]
pub struct Args {
    #[command(flatten)]
    vms: Vms,
    /// For how long to record [default: 10s; with --top, until q]
    #[arg(long = "for", id = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    #[command(flatten)]
    role: Role,
    /// Show it on the whole terminal, each two seconds anew; q ends
    #[arg(long, conflicts_with_all = ["save", "recording", "figure", "format", "slack", "knobs"])]
    top: bool,
    #[command(flatten)]
    save: Save,
    /// Read what was saved before, by this or by `paratick lab idle`, and record nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save", "for", "side"])]
    recording: Option<PathBuf>,
    #[command(flatten)]
    shown: Shown,
}

const TIME: Duration = Duration::from_secs(10);
const HINT: &str = "read what `paratick lab idle --save FILE` recorded, or omit --try";

pub fn run(args: &Args) -> Result<ExitCode> {
    args.shown.check_figure()?;
    if let Some(file) = &args.recording {
        signals::watch()?;
        let mut recorded = read(file)?;
        args.shown.check(recorded.host.is_some(), recorded.guest.is_some(), HINT)?;
        match &mut recorded.host {
            Some(host) if recorded.guest.is_none() => args.vms.choose(host)?,
            _ => args.vms.refuse("with the recording of one guest")?,
        }
        args.shown.show(&args.shown.report(&recorded))?;
        return Ok(ExitCode::SUCCESS);
    }
    let sides = args.role.sides();
    args.shown.check(sides.host, sides.guest, HINT)?;
    if sides.guest {
        args.vms.refuse("with --side guest: this machine is the VM")?;
    }
    if args.top {
        Screen::<Wakeups>::check()?;
    }
    args.save.check()?;
    let mut chosen = sides.host.then(|| args.vms.find()).transpose()?;
    let leaving = Leaving::watch()?;
    let mut here = start_here(sides)?;
    if args.top {
        return windows(args.time, &leaving, |time, leave| {
            record(&mut here, time, &mut chosen, leave).map(Wakeups::of)
        });
    }
    let time = args.time.unwrap_or(TIME);
    let recorded = record(&mut here, time, &mut chosen, &|| leaving.wanted())?;
    // Whoever reads the table may go away, and a disk may be full.
    let kept = args.save.keep(&recorded);
    if !leaving.wanted() {
        check_ran(recorded.host.as_ref())?;
    }
    if let Some((chosen, host)) = chosen.as_ref().zip(recorded.host.as_ref()) {
        chosen.tell_missing(host);
    }
    args.shown.show(&args.shown.report(&recorded))?;
    check_whole(recorded.host.as_ref())?;
    kept.map(|()| leaving.code())
}

/// A file of --save.
fn read(file: &Path) -> Result<Recorded> {
    const KIND: Kind = Kind { verb: "explain", of: "wake-ups", command: "idle" };
    let mut recorded: Recorded = KIND.read(file)?;
    if recorded.host.is_none() && recorded.guest.is_none() {
        return Err(KIND.wrong(file, NO_SIDE));
    }
    let sound = recorded.host.as_ref().is_none_or(HostNoise::is_sound)
        && recorded.guest.as_ref().is_none_or(GuestWakeups::is_sound);
    if !sound {
        return Err(KIND.damaged(file));
    }
    // Somebody may have put it together by hand.
    if let Some(guest) = &mut recorded.guest {
        guest.events.sort_by_key(|event| event.at_ns);
    }
    Ok(recorded)
}

fn record(
    here: &mut WakeupsHere,
    time: Duration,
    chosen: &mut Option<Chosen>,
    leave: &dyn Fn() -> bool,
) -> Result<Recorded> {
    let Some(chosen) = chosen else { return record_here(here, time, leave) };
    let mut recorded = chosen.during(leave, |leave| record_here(here, time, leave))?;
    if let Some(host) = &mut recorded.host {
        chosen.keep(host);
    }
    Ok(recorded)
}
