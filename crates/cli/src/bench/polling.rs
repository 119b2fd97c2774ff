// SPDX-License-Identifier: GPL-2.0-only
//! `paratick bench polling`.

use super::{
    common::{each_once, Common},
    measure::{Bench, Written},
};
use crate::options::{number, Scale, Vcpus};
use anyhow::Result;
use clap::Args;
use paratick_core::{
    catalogue::{sets, workloads},
    results::PlannedWorkload,
};
use std::process::ExitCode;

const WORKLOADS: &str = "cpu,pingpong,barrier,sleep,exponential,block,idle";

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    size: Vcpus,
    /// Workloads to run
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = WORKLOADS,
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

pub fn run(options: Options) -> Result<ExitCode> {
    each_once(&options.workloads)?;
    let (vcpus, scale) = (options.size.vcpus, options.scale.get());
    let set = sets::polling(vcpus, options.guests, options.workloads, scale);
    Bench::new(options.common, "polling", vec![set], Written::File)?.run()
}
