// SPDX-License-Identifier: GPL-2.0-only
//! `paratick bench paper`: the whole evaluation, and its report.

use super::{
    common::Common,
    measure::{Bench, Written},
};
use crate::options::Scale as ScaleOption;
use anyhow::Result;
use clap::Args;
use paratick_build::requirements;
use paratick_core::{
    catalogue::{
        programs::{self, IoSpec, KernelSpec},
        sets::{self, GuestSize, Scale, Set},
    },
    disk_device::DiskDevice,
    model::table1,
    results::PlannedWorkload,
};
use std::process::ExitCode;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    scale: ScaleOption,
    #[command(flatten)]
    common: Common,
}

pub fn run(options: Options) -> Result<ExitCode> {
    let packages = programs::programs().iter().flat_map(|one| &one.packages);
    requirements::check(packages.map(String::as_str).chain([programs::io_package()]))?;
    let sets = sets_of(options.scale.get());
    let mut common = options.common;
    common.report = true;
    Bench::new(common, "paper", sets, Written::Folder)?.run()
}

/// In the paper's order; then what shows how much the cost of an exit decides.
fn sets_of(scale: Scale) -> Vec<Set> {
    let programs = |threads: Option<u32>| -> Vec<_> {
        let programs = programs::programs().iter();
        let planned = programs.map(|program| program.planned(threads));
        let kernels = programs::kernels().iter().map(KernelSpec::planned);
        planned.chain(kernels.filter(|_| threads.is_some())).collect()
    };
    // Of the paper's block sizes, quickly a small and a large one.
    let wanted =
        |job: &&IoSpec| scale == Scale::Full || [4 << 10, 64 << 10].contains(&job.block_bytes);
    let fio = || -> Vec<_> {
        let jobs = programs::io(DiskDevice::default());
        jobs.iter().filter(wanted).map(IoSpec::planned).collect()
    };
    let sizes = match scale {
        Scale::Quick => &GuestSize::PAPERS[..1],
        Scale::Full => &GuestSize::PAPERS[..],
    };
    let mut all = sets::table1(table1::VCPUS, scale);
    if scale == Scale::Quick {
        // Four guests of 16 vCPUs take longer to boot than to measure.
        all.retain(|set| set.plan.guests == 1);
    }
    all.push(sets::sequential(programs(None), scale));
    let sizes = sizes.iter();
    all.extend(sizes.map(|size| sets::multithreaded(*size, programs(Some(size.0)), scale)));
    all.push(sets::io(fio(), programs::IO_DISK, scale));
    // Small blocks have the most exits, so the cost of one matters most there.
    let small = |job: &PlannedWorkload| match scale {
        Scale::Quick => ["seqr-4k", "rndwr-4k"].contains(&job.workload.as_str()),
        Scale::Full => true,
    };
    let fio = fio().into_iter().filter(small).collect();
    let small = sets::io(fio, programs::IO_DISK, Scale::Quick);
    all.extend(sets::at_other_costs(&small, scale));
    if scale == Scale::Full {
        let small = sets::multithreaded(GuestSize::SMALL, programs(Some(4)), Scale::Quick);
        all.extend(sets::at_other_costs(&small, scale));
    }
    all
}
