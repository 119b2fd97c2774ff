// SPDX-License-Identifier: GPL-2.0-only
//! `paratick bench quick`.

use super::{
    common::{each_once, Common},
    measure::{Bench, Written},
};
use crate::options::Vcpus;
use anyhow::Result;
use clap::Args;
use paratick_core::{
    catalogue::{sets, workloads},
    results::PlannedWorkload,
};
use std::process::ExitCode;

const WORKLOADS: &str = "idle,cpu,pingpong,barrier,sleep,block";

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    size: Vcpus,
    /// Workloads to run
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = WORKLOADS,
        value_parser = workloads::quick)]
    workloads: Vec<PlannedWorkload>,
    #[command(flatten)]
    common: Common,
}

pub fn run(options: Options) -> Result<ExitCode> {
    each_once(&options.workloads)?;
    let set = sets::quick(options.size.vcpus, options.workloads);
    Bench::new(options.common, "quick", vec![set], Written::File)?.run()
}
