// SPDX-License-Identifier: GPL-2.0-only
//! `paratick noise`: of the VMs that run on this machine, or of this machine, which is one.

pub mod lab;
mod pages;
mod report;
mod shown;

use crate::{
    errors::usage,
    input::{Kind, NO_SIDE},
    options::{duration, named, refuse, Chosen, Role, Save, Vms},
    print::errln,
    signals::{self, Leaving},
    top::{windows, Screen},
};
use anyhow::Result;
use clap::Args as Arguments;
use pages::Noise;
use paratick_bench::noise::{check_ran, record_here, start_here, NoiseHere, Recorded, Sides};
use paratick_core::noise::{mark_ticks, GuestNoise, HostNoise, Sampler};
use report::Report;
use shown::Shown;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// Say where the time of VMs goes while they do not run on
///
/// Records every exit of the VMs that run on this machine, whichever their VMM and kernel, and says
/// how long it kept a vCPU away, and why.  With --above, only long absences are kept, for days if
/// need be, and each is explained.  With --side guest, in a VM: lets its kernel's osnoise
/// sample on all CPUs, or a program where it has none, and says what each gap was for.  Afterwards,
/// two recordings of the same time are joined, and each gap is split into disjoint parts that add
/// up to it.  `paratick lab noise` boots both sides.  docs/noise.md explains the tables.
/// Exit codes: 0 done, 1 an emulator counted other exits than a recording of the lab has, 2 wrong
/// usage, 69 could not be recorded, 130 interrupted (what was recorded until then is printed and
/// saved).
#[derive(Arguments)]
pub struct Args {
    #[command(flatten)]
    vms: Vms,
    /// For how long to record [default: 3s; with --top, until q]
    #[arg(long = "for", id = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    #[command(flatten)]
    role: Role,
    /// Who samples in a guest: its kernel's osnoise, or a program that reads the TSC
    /// [default: osnoise where the kernel has it]
    #[arg(long, value_name = "SAMPLER", value_parser = named::<Sampler>())]
    sampler: Option<Sampler>,
    /// Show it on the whole terminal, each two seconds anew; q ends
    #[arg(long, conflicts_with_all = ["save", "recording"])]
    top: bool,
    #[command(flatten)]
    save: Save,
    /// Read what was saved before, and record nothing; given twice, the sides that a VM and its
    /// host recorded, each by itself, at the same time
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save", "for", "side", "sampler"])]
    recording: Vec<PathBuf>,
    #[command(flatten)]
    shown: Shown,
}

const TIME: Duration = Duration::from_secs(3);

pub fn run(args: &Args) -> Result<ExitCode> {
    if !args.recording.is_empty() {
        signals::watch()?;
        let recorded = args.read()?;
        args.shown.check(recorded.guest.is_some(), recorded.joined().is_some())?;
        let report = Report::of(&recorded, args.shown.budget);
        args.shown.show(&recorded, &report)?;
        return Ok(if differs(&recorded) { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    let sides = Sides { sampler: args.sampler, ..args.role.sides() };
    args.shown.check(sides.guest, false)?;
    if sides.guest {
        args.vms.refuse("with --side guest: this machine is the VM")?;
    }
    if args.top {
        refuse(&["above", "budget", "figure", "format"], "with --top")?;
        Screen::<Noise>::check()?;
    }
    args.save.check()?;
    let mut chosen = sides.host.then(|| args.vms.find()).transpose()?;
    let leaving = Leaving::watch()?;
    let mut here = start_here(sides, args.shown.above_ns())?;
    if args.top {
        return windows(args.time, &leaving, |time, leave| {
            record(&mut here, time, &mut chosen, leave).map(Noise::of)
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
    args.shown.show(&recorded, &Report::of(&recorded, args.shown.budget))?;
    kept.map(|()| leaving.code())
}

/// Whether the emulator counted other exits than were recorded.
fn differs(recorded: &Recorded) -> bool {
    let audit = recorded.host.as_ref().and_then(|host| host.audit.as_ref());
    audit.is_some_and(|audit| audit.world_switches.is_some_and(|switches| switches != audit.exits))
}

/// A file of --save.
fn read(file: &Path) -> Result<Recorded> {
    const KIND: Kind = Kind { verb: "explain", of: "noise", command: "noise" };
    let mut recorded: Recorded = KIND.read(file)?;
    if recorded.host.is_none() && recorded.guest.is_none() {
        return Err(KIND.wrong(file, NO_SIDE));
    }
    let sound = recorded.host.as_ref().is_none_or(HostNoise::is_sound)
        && recorded.guest.as_ref().is_none_or(GuestNoise::is_sound);
    if !sound {
        return Err(KIND.damaged(file));
    }
    // Older recordings do not say which exits are those of ticks.
    if let Some(host) = recorded.host.as_mut().filter(|host| host.least_ns == 0) {
        mark_ticks(&mut host.absences);
    }
    Ok(recorded)
}

impl Args {
    fn read(&self) -> Result<Recorded> {
        match self.recording.as_slice() {
            [file] => {
                let mut recorded = read(file)?;
                if recorded.guest.is_some() {
                    self.vms.refuse("with the recording of one guest")?;
                    return Ok(recorded);
                }
                let choose = |host: &mut HostNoise| {
                    self.vms.choose(host).and_then(|()| self.shown.keep_above(host))
                };
                recorded.on_host(choose).transpose()?;
                Ok(recorded)
            }
            [one, other] => {
                refuse(&["vcpu"], "where two recordings are joined")?;
                let (one, other) = (read(one)?, read(other)?);
                let host = one.host.as_ref().or(other.host.as_ref());
                let vm = match self.vms.vm.as_slice() {
                    [] => None,
                    [word] => Some(process(word, host)?),
                    _ => return Err(usage("one VM is joined\nhint: give --vm once")),
                };
                let (both, ns) = one.with(other, vm).map_err(|error| usage(error.to_string()))?;
                if let Some(process) = both.process {
                    let seconds = ns as f64 / 1e9;
                    errln!("the guest is process {process}; both recorded the same {seconds:.2} s");
                }
                Ok(both)
            }
            _ => {
                Err(usage("more than two recordings\nhint: give that of a VM and that of its host"))
            }
        }
    }
}

fn record(
    here: &mut NoiseHere,
    time: Duration,
    chosen: &mut Option<Chosen>,
    leave: &dyn Fn() -> bool,
) -> Result<Recorded> {
    let Some(chosen) = chosen else { return record_here(here, time, leave) };
    let mut recorded = chosen.during(leave, |leave| record_here(here, time, leave))?;
    recorded.on_host(|host| chosen.keep(host));
    Ok(recorded)
}

/// The process of a VM by its name in a recording, or by its number.
fn process(word: &str, host: Option<&HostNoise>) -> Result<u32> {
    let named = host.and_then(|host| host.names.iter().find(|(_, name)| *name == word));
    let process = named.map(|(process, _)| *process).or_else(|| word.parse().ok());
    process.ok_or_else(|| {
        usage(format!("no VM '{word}' was recorded on the host\nhint: give its process there"))
    })
}
