// SPDX-License-Identifier: GPL-2.0-only
//! `paratick halts`: of the VMs that run on this machine.

mod apply;
mod judge;
pub mod lab;
mod pages;
mod shown;

use crate::{
    input::Kind,
    options::{duration, Chosen, Vms},
    progress,
    signals::Leaving,
    top::{windows, Screen},
};
use anyhow::Result;
use clap::Args as Arguments;
use pages::Halting;
use paratick_bench::tune::{self, HaltsHere};
use paratick_build::tools::Tools;
use paratick_core::{halts::Halts, size::Size};
use paratick_machine::{backend, host::Host, spec::HostSpec};
use shown::Shown;
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Find for how long KVM should poll before a halted vCPU's thread sleeps
///
/// Records every halt of the VMs that run on this machine, on any kernel of 5.8 or newer, and says
/// what they would have cost under each rule of polling, for each VM by itself.  `paratick lab
/// halts` records a guest of the lab.  docs/halt-polling.md explains the table.
/// Exit codes: 0 done, 1 with --apply a rule by which a VM loses or a prediction that did not come
/// true, 2 wrong usage, 69 the host could not be recorded, 130 interrupted (what was recorded until
/// then is printed and saved, and no rule is set).
#[derive(Arguments)]
pub struct Args {
    #[command(flatten)]
    vms: Vms,
    /// For how long to record [default: 5s; with --top, until q]
    #[arg(long = "for", id = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// Show it on the whole terminal, each two seconds anew; q ends
    #[arg(long, conflicts_with_all = ["save", "recording", "apply", "cost", "format"])]
    top: bool,
    /// Apply the rule even if some of several VMs lose by it
    #[arg(long)]
    all: bool,
    /// Read halts that were saved before, by this or by `paratick lab halts`, and record nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save", "apply", "for"])]
    recording: Option<PathBuf>,
    #[command(flatten)]
    shown: Shown,
}

const TIME: Duration = Duration::from_secs(5);

pub fn run(args: &Args) -> Result<ExitCode> {
    let leaving = Leaving::watch()?;
    args.shown.check()?;
    if let Some(file) = &args.recording {
        let kind = Kind { verb: "replay", of: "halts", command: "halts" };
        let mut halts: Halts = kind.read(file)?;
        args.vms.choose(&mut halts)?;
        args.shown.show(&halts)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.shown.applies() {
        let why = "with --apply: it sets KVM's parameters for every VM, and shows what each gains";
        args.vms.refuse(why)?;
    }
    if args.top {
        Screen::<Halting>::check()?;
        let (mut here, mut chosen) = args.start()?;
        return windows(args.time, &leaving, |time, leave| {
            record(&mut here, time, &mut chosen, leave).map(Halting)
        });
    }
    let record = || {
        let (mut here, mut chosen) = args.start()?;
        let time = args.time.unwrap_or(TIME);
        record(&mut here, time, &mut chosen, &|| leaving.wanted()).and_then(tune::checked)
    };
    let (host, halts) = progress::during(|events| {
        let mut spec = HostSpec::for_guests(backend::HERE, "", 0, Size::default());
        spec.settings = backend::HERE.settings()?;
        let host = Host::boot(spec, &Tools::default(), events)?;
        Ok((host, record()))
    })?;
    let code = match leaving.wanted() {
        true => args.shown.keep(&halts?).map(|()| leaving.code())?,
        false => args.shown.conclude(&host, &record, halts, args.all)?,
    };
    host.shutdown()?;
    Ok(code)
}

impl Args {
    fn start(&self) -> Result<(HaltsHere, Chosen)> {
        let chosen = self.vms.find()?;
        Ok((tune::start_here()?, chosen))
    }
}

fn record(
    here: &mut HaltsHere,
    time: Duration,
    chosen: &mut Chosen,
    leave: &dyn Fn() -> bool,
) -> Result<Halts> {
    let mut halts = chosen.during(leave, |leave| tune::record_here(here, time, leave))?;
    chosen.keep(&mut halts);
    Ok(halts)
}
