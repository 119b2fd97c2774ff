// SPDX-License-Identifier: GPL-2.0-only
//! `paratick bench sequential`, `multithreaded`, `network` and `io`: real programs.

use super::{
    common::Common,
    measure::{Bench, Written},
};
use crate::{
    errors::usage,
    options::{duration, named, once, Disk, Scale},
};
use anyhow::Result;
use clap::Args;
use paratick_build::requirements;
use paratick_core::catalogue::{
    programs::{self, IoSpec, KernelSpec, NetworkSpec},
    sets::{self, GuestSize},
};
use paratick_core::{
    disk_device::DiskDevice,
    network,
    results::{PlannedWorkload, Program},
    units::Nanos,
};
use std::{process::ExitCode, time::Duration};

#[derive(Args)]
pub struct Sequential {
    #[command(flatten)]
    programs: Programs,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
pub struct Multithreaded {
    /// Sizes of guests: small, medium and large (4, 16 and 64 vCPUs, as in the paper), or any
    /// number of vCPUs
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "small,medium,large")]
    sizes: Vec<GuestSize>,
    #[command(flatten)]
    programs: Programs,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
pub struct Io {
    /// Tests to run, such as seqr-4k [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    tests: Vec<String>,
    #[command(flatten)]
    disk: Disk,
    /// How long the disk takes for each request, which then reads as zeros [default: it is a file
    /// in the host's memory]
    #[arg(long, value_name = "TIME", value_parser = latency)]
    disk_latency: Option<Nanos>,
    /// Let CPUs of an emulated host that are busy at the same time share virtual time, as if they
    /// ran in parallel: for guests that poll
    #[arg(long)]
    parallel_clock: bool,
    #[command(flatten)]
    scale: Scale,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
pub struct Network {
    /// Tests to run, such as memcached [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    tests: Vec<String>,
    /// Who moves packets between a guest's virtio-net device and the host's bridge: a thread of the
    /// host's kernel, or QEMU
    #[arg(long, value_name = "WHO", default_value_t, value_parser = named::<network::Network>())]
    network: network::Network,
    #[command(flatten)]
    scale: Scale,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Programs {
    /// Programs to run, by name [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    programs: Vec<String>,
    #[command(flatten)]
    own: OwnPrograms,
    #[command(flatten)]
    scale: Scale,
}

/// Programs that no list has.
#[derive(Args)]
pub struct OwnPrograms {
    /// A program of your own; {threads} in its command is the number of vCPUs.  It is run once on
    /// this machine, as you and in an empty folder, to find the files that guests need in memory
    #[arg(long = "program", value_name = "NAME=COMMAND", value_parser = own)]
    own: Vec<(String, String)>,
    /// How long a program may take on this machine: seconds, or with s, m or h
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration)]
    pub prepare_limit: Duration,
    /// Run programs of your own in guests only.  They read their files over 9p then, and with each
    /// come exits that are not the program's
    #[arg(long, requires = "own")]
    no_prepare: bool,
}

pub fn sequential(options: Sequential) -> Result<ExitCode> {
    let (programs, needs) = options.programs.workloads(None)?;
    let set = sets::sequential(programs, options.programs.scale.get());
    let mut bench = Bench::new(options.common, "sequential", vec![set], Written::File)?;
    requirements::check(needs)?;
    bench.prepare_limit = options.programs.own.prepare_limit;
    bench.run()
}

pub fn multithreaded(options: Multithreaded) -> Result<ExitCode> {
    once(&options.sizes, "size", "--sizes")?;
    let set = |size: &GuestSize| {
        let (programs, needs) = options.programs.workloads(Some(size.0))?;
        requirements::check(needs)?;
        Ok(sets::multithreaded(*size, programs, options.programs.scale.get()))
    };
    let all = options.sizes.iter().map(set).collect::<Result<_>>()?;
    let mut bench = Bench::new(options.common, "multithreaded", all, Written::Folder)?;
    bench.prepare_limit = options.programs.own.prepare_limit;
    bench.run()
}

pub fn io(options: Io) -> Result<ExitCode> {
    let device = options.disk.disk_device;
    let all = programs::io(device);
    let names: Vec<&str> = all.iter().map(|test| test.name.as_str()).collect();
    check_names(&options.tests, &names, "test", "--tests")?;
    let wanted = |test: &&IoSpec| options.tests.is_empty() || options.tests.contains(&test.name);
    let tests: Vec<&IoSpec> = all.iter().filter(wanted).collect();
    let (disk, least) = (options.disk.disk.unwrap_or(sets::DISK), programs::IO_DISK);
    if disk < least {
        return Err(usage(format!(
            "--disk {disk} is too small: fio works on {least}\nhint: give at least --disk {least}"
        )));
    }
    if options.disk_latency.is_some() && device != DiskDevice::VirtioBlk {
        return Err(usage(format!(
            "--disk-latency is not for --disk-device {device}: QEMU's main loop, in which its \
             requests end, rounds times up to ms\n\
             hint: omit --disk-latency, or give --disk-device {}",
            DiskDevice::VirtioBlk
        )));
    }
    let kernels = options.common.host.kernels.for_disk(device)?;
    let tests = tests.into_iter().map(IoSpec::planned).collect();
    let mut set = sets::io(tests, disk, options.scale.get());
    set.plan.disk_latency_ns = options.disk_latency.map(|latency| latency.0);
    set.plan.disk_device = device;
    set.parallel_clock = options.parallel_clock;
    let mut bench = Bench::new(options.common, "io", vec![set], Written::File)?;
    // After the checks, which name the kernel as it was typed.
    bench.options.host.kernels = kernels;
    requirements::check([programs::io_package(), programs::TRACER])?;
    bench.run()
}

pub fn network(options: Network) -> Result<ExitCode> {
    let all = programs::network();
    let names: Vec<&str> = all.iter().map(|test| test.name.as_str()).collect();
    check_names(&options.tests, &names, "test", "--tests")?;
    let host = &options.common.host;
    if !host.host.boots() {
        return Err(usage(
            "bench network makes a bridge on its host, which must be the lab's\n\
             hint: omit --host",
        ));
    }
    let kernels = host.kernels.for_network()?;
    let wanted =
        |test: &&NetworkSpec| options.tests.is_empty() || options.tests.contains(&test.name);
    let tests: Vec<_> = all.iter().filter(wanted).collect();
    let packages: Vec<&String> = tests.iter().flat_map(|test| &test.packages).collect();
    let tests = tests.into_iter().map(NetworkSpec::planned).collect();
    let set = sets::network(tests, options.network, options.scale.get());
    let mut bench = Bench::new(options.common, "network", vec![set], Written::File)?;
    bench.options.host.kernels = kernels;
    requirements::check(packages.into_iter().map(String::as_str).chain([programs::TRACER]))?;
    bench.run()
}

/// Longer than any disk's, and a run ends all the same.
const LONGEST_LATENCY: Nanos = Nanos(20_000_000);

fn latency(text: &str) -> std::result::Result<Nanos, String> {
    let latency: Nanos = text.parse().map_err(|error| format!("{error}"))?;
    match latency > LONGEST_LATENCY {
        true => Err(format!("longer than any disk takes\nhint: give at most {LONGEST_LATENCY}")),
        false => Ok(latency),
    }
}

impl Programs {
    /// The programs to run, with so many threads; none: sequentially.  And the packages that must
    /// be installed for that.
    fn workloads(&self, threads: Option<u32>) -> Result<(Vec<PlannedWorkload>, Vec<&'static str>)> {
        let kernels = match threads {
            Some(_) => programs::kernels(),
            None => &[],
        };
        let all = programs::programs();
        let names = all.iter().map(|program| program.name.as_str());
        let names: Vec<&str> =
            names.chain(kernels.iter().map(|kernel| kernel.name.as_str())).collect();
        check_names(&self.programs, &names, "program", "--programs")?;
        // Who only names programs of their own wants no others.
        let none = self.programs.is_empty() && !self.own.is_empty();
        let wanted =
            |name: &String| !none && (self.programs.is_empty() || self.programs.contains(name));
        let chosen: Vec<_> = all.iter().filter(|program| wanted(&program.name)).collect();
        let packages = chosen.iter().flat_map(|program| &program.packages);
        let packages = packages.map(String::as_str);
        let tracer = (!none || self.own.are_prepared()).then_some(programs::TRACER);
        let needs = packages.chain(tracer).collect();
        let mut workloads: Vec<_> =
            chosen.into_iter().map(|program| program.planned(threads)).collect();
        let kernels = kernels.iter().filter(|kernel| wanted(&kernel.name));
        workloads.extend(kernels.map(KernelSpec::planned));
        workloads.extend(self.own.planned(threads.unwrap_or(1), &names)?);
        Ok((workloads, needs))
    }
}

impl OwnPrograms {
    pub fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// Whether they are run on this machine, which needs the tracer.
    pub fn are_prepared(&self) -> bool {
        !self.own.is_empty() && !self.no_prepare
    }

    /// With so many threads; the bench has others of these names.
    pub fn planned(&self, threads: u32, taken: &[&str]) -> Result<Vec<PlannedWorkload>> {
        let names: Vec<_> = self.own.iter().map(|(name, _)| name).collect();
        once(&names, "program", "--program")?;
        let planned = |(name, command): &(String, String)| {
            if taken.contains(&name.as_str()) {
                return Err(usage(format!(
                    "--program {name}=… has the name of a program of the bench\n\
                     hint: use another name"
                )));
            }
            let command = command.replace("{threads}", &threads.to_string());
            let program = Program { command, in_place: self.no_prepare, ..Program::default() };
            Ok(PlannedWorkload::run_of(name, program))
        };
        self.own.iter().map(planned).collect()
    }
}

fn check_names(given: &[String], known: &[&str], what: &str, option: &str) -> Result<()> {
    once(given, what, option)?;
    match given.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            Err(usage(format!("no {what} '{name}'\nhint: the {what}s are {}", known.join(", "))))
        }
        None => Ok(()),
    }
}

/// `NAME=COMMAND`; the name becomes a folder's name.
fn own(text: &str) -> Result<(String, String), String> {
    let (name, command) =
        text.split_once('=').ok_or("write NAME=COMMAND, such as 'sum=sha256sum /bin/bash'")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err(format!("a name may have letters, digits, - and _ only, not '{name}'"));
    }
    if command.trim().is_empty() {
        return Err(format!("{name} has no command"));
    }
    Ok((name.into(), command.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_ones_own_is_a_name_and_a_command() {
        let parsed = own("sum=sha256sum a=b").unwrap();
        assert_eq!(parsed, ("sum".into(), "sha256sum a=b".into()));
        for wrong in ["sum", "=x", "a/b=x", ".=x", "sum= "] {
            assert!(own(wrong).is_err(), "{wrong}");
        }
    }
}
