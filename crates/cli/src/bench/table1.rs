// SPDX-License-Identifier: GPL-2.0-only
//! `paratick bench table1`.

use super::{
    common::Common,
    measure::{Bench, Written},
};
use crate::{
    errors::usage,
    options::{Scale, Vcpus},
};
use anyhow::Result;
use clap::Args;
use paratick_core::catalogue::sets;
use std::process::ExitCode;

#[derive(Args)]
#[command(mut_arg("vcpus", |arg| arg.default_value("16")))]
pub struct Options {
    #[command(flatten)]
    size: Vcpus,
    #[command(flatten)]
    scale: Scale,
    #[command(flatten)]
    common: Common,
}

pub fn run(options: Options) -> Result<ExitCode> {
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
