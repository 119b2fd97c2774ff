// SPDX-License-Identifier: GPL-2.0-only
//! `paratick bench noise`: a busy guest, on hosts of several sizes, with CPUs isolated or not.

use super::{
    common::Common,
    isolated::BENCH,
    measure::{Bench, Written},
};
use crate::{
    errors::usage,
    options::{named, number, once, Vcpus},
};
use anyhow::Result;
use clap::Args;
use paratick_build::requirements;
use paratick_core::{
    catalogue::{
        noise,
        sets::{Scale, VCPUS},
    },
    isolation::Isolation,
    latency_program::{self, LatencyProgram},
};
use std::process::ExitCode;

#[derive(Args)]
#[command(mut_arg("vcpus", |arg| arg.default_value("3")))]
pub struct Noise {
    #[command(flatten)]
    size: Vcpus,
    /// CPUs of the host; each number is measured by itself [default: 4,6; with --quick 4]
    #[arg(long, value_name = "LIST", value_delimiter = ',',
        value_parser = number(2..=VCPUS.end() + 1))]
    host_cpus: Option<Vec<u32>>,
    /// What is isolated; each is measured by itself
    #[arg(long, value_name = "LIST", value_delimiter = ',',
        default_value = "none,host,guest,both", value_parser = named::<Isolation>())]
    isolate: Vec<Isolation>,
    /// For how long noise is recorded, in ms of the guest's time [default: 2000; with --quick 500]
    #[arg(long, value_name = "MS", value_parser = number(100..=10_000))]
    window: Option<u32>,
    /// Programs of rt-tests that measure latency after each recording, from user space; oslat
    /// needs a guest's kernel with CONFIG_NUMA, as 6.12-rt is
    #[arg(long, value_name = "LIST", value_delimiter = ',',
        value_parser = named::<LatencyProgram>())]
    programs: Vec<LatencyProgram>,
    /// Measure less: one host, two modes, one boot of each
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    common: Common,
}

pub fn run(options: Noise) -> Result<ExitCode> {
    let vcpus = options.size.vcpus;
    if !options.common.host.host.boots() {
        return Err(usage(
            "CPUs are isolated when a host boots, and this machine runs already\n\
             hint: leave --host here out; `paratick noise` records what there is",
        ));
    }
    if vcpus == 1 {
        return Err(usage(
            "--vcpus 1 is too few: one vCPU is for the guest's housekeeping, the others sample\n\
             hint: give at least 2; the thesis' guest has 3",
        ));
    }
    let (scale, hosts) = match options.quick {
        true => (Scale::Quick, &noise::HOSTS[..1]),
        false => (Scale::Full, &noise::HOSTS[..]),
    };
    let hosts = options.host_cpus.as_deref().unwrap_or(hosts);
    once(hosts, "number of CPUs", "--host-cpus")?;
    once(&options.isolate, "isolation", "--isolate")?;
    once(&options.programs, "program", "--programs")?;
    if !options.programs.is_empty() {
        requirements::check([latency_program::PACKAGE])?;
    }
    if let Some(few) = hosts.iter().find(|cpus| **cpus <= vcpus) {
        return Err(usage(format!(
            "--host-cpus {few} is too few for --vcpus {vcpus}\n\
             hint: the host needs one CPU more than the guest, for its own housekeeping"
        )));
    }
    let mut sets = noise::sets(vcpus, hosts, &options.isolate, scale);
    if let Some(window) = options.window {
        let workloads = sets.iter_mut().flat_map(|set| &mut set.plan.workloads);
        workloads.for_each(|planned| planned.work = window.into());
    }
    for set in &mut sets {
        set.plan.latency_programs = options.programs.clone();
    }
    Bench::new(options.common, BENCH, sets, Written::Folder)?.run()
}
