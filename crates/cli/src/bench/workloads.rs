// SPDX-License-Identifier: GPL-2.0-only
//! `paratick bench quick`, `table1`, `polling`, `idle` and `idle-tables`: workloads of the lab's
//! own.

use super::{
    common::{each_once, Common},
    measure::{Bench, Written},
    programs::OwnPrograms,
};
use crate::{
    errors::usage,
    options::{number, once, Scale, Vcpus},
};
use anyhow::Result;
use clap::Args;
use paratick_build::requirements;
use paratick_core::{
    catalogue::{
        idle_tables::{self, Part, Server},
        programs::TRACER,
        sets::{self, Scale as SetScale, VCPUS},
        workloads,
    },
    results::PlannedWorkload,
};
use std::process::ExitCode;

const QUICK: &str = "idle,cpu,pingpong,barrier,sleep,block";
const POLLING: &str = "cpu,pingpong,barrier,sleep,exponential,block,idle";

#[derive(Args)]
pub struct Quick {
    #[command(flatten)]
    size: Vcpus,
    /// Workloads to run
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = QUICK,
        value_parser = workloads::quick)]
    workloads: Vec<PlannedWorkload>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
#[command(mut_arg("vcpus", |arg| arg.default_value("16")))]
pub struct Table1 {
    #[command(flatten)]
    size: Vcpus,
    #[command(flatten)]
    scale: Scale,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
pub struct Polling {
    #[command(flatten)]
    size: Vcpus,
    /// Workloads to run
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = POLLING,
        value_parser = workloads::polling)]
    workloads: Vec<PlannedWorkload>,
    /// Guests side by side on the same pCPUs: does one that polls take time from its neighbours?
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number(1..=4))]
    guests: u32,
    #[command(flatten)]
    scale: Scale,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
pub struct Idle {
    /// How many guests of one vCPU there are, side by side on one pCPU; each number is measured by
    /// itself [default: 1,2,5,10,20,50; with --quick 1,2,5,10]
    #[arg(long, value_name = "LIST", value_delimiter = ',',
        value_parser = number(1..=sets::IDLE_GUESTS_MOST))]
    guests: Option<Vec<u32>>,
    /// Lets ten threads of each guest wake up once a second: phases (each at its own), grouped (at
    /// one offset for each guest), slack (a tenth of a second) or accuracy (a quarter)
    #[arg(long, value_name = "HOW")]
    timers: Option<sets::Timers>,
    /// Record how late timers are, too, in all guests, after each window
    #[arg(long)]
    lateness: bool,
    /// Measure less: fewer guests, for a shorter time
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
pub struct IdleTables {
    /// What to measure: modes (Table 1), sampler (Table 2), clocks (Tables 3 and 4; the last of
    /// them, today's, is among the modes), together (Tables 2 to 4, one step after the other),
    /// balance (Table 5)
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "modes,sampler,clocks,balance"
    )]
    parts: Vec<Part>,
    /// CPUs of the guests of Table 5; all others have two, or one [default: 4]
    #[arg(long, value_name = "N", value_parser = number(2..=*VCPUS.end()))]
    vcpus: Option<u32>,
    #[command(flatten)]
    own: OwnPrograms,
    /// Measure less: one boot of each, for a shorter time
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    common: Common,
}

pub fn quick(options: Quick) -> Result<ExitCode> {
    each_once(&options.workloads)?;
    let set = sets::quick(options.size.vcpus, options.workloads);
    Bench::new(options.common, "quick", vec![set], Written::File)?.run()
}

pub fn table1(options: Table1) -> Result<ExitCode> {
    let vcpus = options.size.vcpus;
    if vcpus == 1 {
        return Err(usage(
            "--vcpus 1 is too few: W3 and W4 are threads that wait for each other\n\
             hint: give at least 2; the paper's guests have 16",
        ));
    }
    let sets = sets::table1(vcpus, options.scale.get());
    Bench::new(options.common, "table1", sets, Written::Folder)?.run()
}

pub fn polling(options: Polling) -> Result<ExitCode> {
    each_once(&options.workloads)?;
    let (vcpus, scale) = (options.size.vcpus, options.scale.get());
    let set = sets::polling(vcpus, options.guests, options.workloads, scale);
    Bench::new(options.common, "polling", vec![set], Written::File)?.run()
}

pub fn idle(options: Idle) -> Result<ExitCode> {
    let (scale, guests) = match options.quick {
        true => (SetScale::Quick, &sets::IDLE_GUESTS_QUICK[..]),
        false => (SetScale::Full, &sets::IDLE_GUESTS[..]),
    };
    let guests = options.guests.as_deref().unwrap_or(guests);
    once(guests, "number of guests", "--guests")?;
    let sets = sets::idle(guests, options.timers, options.lateness, scale);
    Bench::new(options.common, "idle", sets, Written::Folder)?.run()
}

pub fn idle_tables(options: IdleTables) -> Result<ExitCode> {
    let names: Vec<_> = options.parts.iter().map(|part| part.name()).collect();
    once(&names, "part", "--parts")?;
    let scale = if options.quick { SetScale::Quick } else { SetScale::Full };
    let of_table_5 = [("--vcpus", options.vcpus.is_some()), ("--program", !options.own.is_empty())];
    let given = of_table_5.iter().find(|(_, given)| *given);
    if let (Some((option, _)), false) = (given, options.parts.contains(&Part::Balance)) {
        return Err(usage(format!(
            "{option} is for guests of Table 5, and --parts leaves that out\n\
             hint: add balance to --parts, or omit {option}"
        )));
    }
    if options.own.are_prepared() {
        requirements::check([TRACER])?;
    }
    let vcpus = options.vcpus.unwrap_or(Server::VCPUS);
    let programs = options.own.planned(vcpus, &Server::NAMES)?;
    let server = Server { vcpus, programs };
    let sets = idle_tables::idle_tables(&options.parts, &server, scale);
    let mut bench = Bench::new(options.common, idle_tables::BENCH, sets, Written::Folder)?;
    bench.prepare_limit = options.own.prepare_limit;
    bench.run()
}
