// SPDX-License-Identifier: GPL-2.0-only
//! `paratick model`: exits computed instead of measured.

use crate::{
    errors::usage,
    input,
    options::{named, number, Format},
};
use anyhow::Result;
use clap::Subcommand;
use paratick_core::{
    mode::Mode,
    model::{
        file::{self, Guests, Workload},
        WokenBy,
    },
    units::Nanos,
};
use paratick_view::model::{guests, recorded, table1};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Predict the VM exits of every tick mode, for described or measured guests
///
/// By the paper's formulas (sections 3.1, 3.2 and 4) and by models of what Linux does in each mode.
/// Options, a file (--workload) or a recorded result (--from) describe the guests. A result's
/// measured exits are shown beside the predicted ones.  docs/model.md has the formulas.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand)]
enum Verb {
    /// Table 1 of the paper: as printed, by its formulas, and by the reading that makes both agree
    Table1 {
        #[command(flatten)]
        format: Format,
    },
}

/// So much of a line that is wrong is shown.
const SHOWN: usize = 200;

const DESCRIPTION: [&str; 9] =
    ["vms", "vcpus", "hz", "host_hz", "load", "idle_period", "woken_by", "sharing", "time"];

#[derive(clap::Args)]
struct Options {
    /// Guests, all alike
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number(file::COUNT))]
    vms: u32,
    /// vCPUs of each guest
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number(file::COUNT))]
    vcpus: u32,
    /// Rate of the guests' tick
    #[arg(long, value_name = "N", default_value_t = 250, value_parser = number(file::HZ))]
    hz: u32,
    /// Rate of the host's tick [default: the guests']
    #[arg(long, value_name = "N", value_parser = number(file::HZ))]
    host_hz: Option<u32>,
    /// Share of its time that a vCPU is busy, from 0 to 1: the paper's L
    #[arg(long, value_name = "L", default_value_t = 1.0, allow_negative_numbers = true)]
    load: f64,
    /// How long a vCPU is idle at a time, such as 100us or 4ms: the paper's T_idle
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, requires = "load")]
    idle_period: Option<Nanos>,
    /// What ends idle periods: another vCPU, a device, the program's own timer, or the kernel's
    #[arg(long, default_value_t = WokenBy::Ipi, value_parser = named::<WokenBy>(),
        requires = "load")]
    woken_by: WokenBy,
    /// vCPUs that share a pCPU, for the paper's statement on the cross-over
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number(file::COUNT),
        requires = "load")]
    sharing: u32,
    /// The time over which exits are counted
    #[arg(long, value_name = "TIME", default_value = "10s", allow_hyphen_values = true)]
    time: Nanos,
    /// A TOML file of guests (docs/model.md describes it)
    #[arg(long, value_name = "FILE", conflicts_with_all = DESCRIPTION)]
    workload: Option<PathBuf>,
    /// A results file of `paratick bench`: predict its cells
    #[arg(long, value_name = "RESULT", conflicts_with = "workload",
        conflicts_with_all = DESCRIPTION)]
    from: Option<PathBuf>,
    /// With --from: predict every mode from the load that this mode had [default: each from its
    /// own]
    #[arg(long, value_name = "MODE", requires = "from")]
    load_of: Option<Mode>,
    #[command(flatten)]
    format: Format,
}

pub fn run(args: Args) -> Result<ExitCode> {
    match args.verb {
        Some(Verb::Table1 { format }) => {
            let answer = table1::answer();
            format.print(&answer, || answer.text())?;
        }
        None => args.options.run()?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Options {
    fn run(self) -> Result<()> {
        if let Some(path) = &self.from {
            return from(path, self.load_of, self.format);
        }
        let (workload, what) = match &self.workload {
            Some(path) => (read(path)?, path.display().to_string()),
            None => (self.described(), "these guests".into()),
        };
        let vms = workload.vms().map_err(|error| usage(format!("cannot model {what}: {error}")))?;
        let answer = guests::answer(&workload, &vms);
        self.format.print(&answer, || answer.text())
    }

    fn described(&self) -> Workload {
        let guests = Guests {
            name: Some("--load".into()),
            count: self.vms,
            vcpus: self.vcpus,
            hz: self.hz,
            host_hz: self.host_hz,
            load: self.load,
            idle_period: self.idle_period,
            woken_by: self.woken_by,
            sharing: self.sharing,
        };
        Workload { time: self.time, vms: vec![guests] }
    }
}

fn from(path: &Path, load_of: Option<Mode>, format: Format) -> Result<()> {
    let results = input::results("model", path)?;
    let lacks = |mode: &Mode| results.cells.iter().all(|cell| cell.subject.mode != *mode);
    if let Some(mode) = load_of.filter(lacks) {
        let subjects = results.plan.subjects.iter();
        let modes: Vec<String> = subjects.map(|subject| subject.mode.to_string()).collect();
        let modes = modes.join(", ");
        let why = format!("it has no load for {mode}\nhint: its modes are {modes}");
        return Err(input::wrong("model", path, why));
    }
    let answer = recorded::answer(&results, load_of);
    if answer.is_empty() {
        let why = "it has no exits and loads of guests to predict exits of\n\
                   hint: `paratick bench show FILE` shows what a file holds";
        return Err(input::wrong("model", path, why));
    }
    format.print(&answer, || answer.text(&path.display().to_string()))
}

fn read(path: &Path) -> Result<Workload> {
    let text = input::text("model", path, "a TOML file as docs/model.md describes it")?;
    toml::from_str(&text).map_err(|error| {
        // The parser ends its picture of the line with a line break.
        let error = error.to_string();
        let lines = error.trim_end().lines().map(|line| match line.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line.into(),
        });
        let error = lines.collect::<Vec<_>>().join("\n");
        let hint = match error.contains("\nhint: ") {
            true => "",
            false => "\nhint: docs/model.md describes the file and has an example",
        };
        input::wrong("model", path, error + hint)
    })
}
