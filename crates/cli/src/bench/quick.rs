// SPDX-License-Identifier: GPL-2.0-only
//! `paratick bench quick`.

use super::{
    common::{once, Common},
    measure::Place,
};
use anyhow::Result;
use clap::Args;
use paratick_core::catalogue::{sets, workloads::Quick};
use std::process::ExitCode;

const WORKLOADS: &str = "idle,cpu,pingpong,barrier,sleep,block";

#[derive(Args)]
pub struct Options {
    /// CPUs of each guest; the host has one more
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=127))]
    vcpus: u32,
    /// Workloads to run
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = WORKLOADS)]
    workloads: Vec<Quick>,
    #[command(flatten)]
    common: Common,
}

pub fn run(options: Options) -> Result<ExitCode> {
    let names: Vec<_> = options.workloads.iter().map(|quick| quick.name).collect();
    once(&names, "workload", "--workloads")?;
    let set = sets::quick(options.vcpus, &options.workloads);
    let bench = options.common.check("quick", vec![set], Place::File)?;
    bench.run()
}
