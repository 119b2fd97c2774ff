// SPDX-License-Identifier: GPL-2.0-only
//! `paratick bench table1`.

use super::{common::Common, measure::Place};
use anyhow::Result;
use clap::Args;
use paratick_core::catalogue::sets::{self, Scale};
use std::process::ExitCode;

#[derive(Args)]
pub struct Options {
    /// CPUs of each guest; the paper's have 16
    #[arg(long, value_name = "N", default_value_t = sets::TABLE1_VCPUS, value_parser = clap::value_parser!(u32).range(2..=127))]
    vcpus: u32,
    /// Only so much as half an hour for all benches allows
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    common: Common,
}

pub fn run(options: Options) -> Result<ExitCode> {
    let scale = if options.quick {
        Scale::Quick
    } else {
        Scale::Full
    };
    let bench =
        options
            .common
            .check("table1", sets::table1(options.vcpus, scale), Place::Folder)?;
    bench.run()
}
