// SPDX-License-Identifier: GPL-2.0-only
//! The noise of a busy guest with CPUs isolated on its host, in it, on both or on neither.

use crate::{
    noise::{self, Beside, Sides},
    verify,
};
use anyhow::{bail, Context, Result};
use paratick_core::{
    exits::Counts,
    isolation::{sampled, Isolation},
    latency_program::{Latency, LatencyProgram},
    noise::{unbalanced, HostNoise, NoiseSample, Sampler, Unbalanced},
    results::{Boot, Fault, Plan, PlannedWorkload, Sample},
    wire::GuestConfig,
};
use paratick_machine::{exec::Exec, guest::Guest, host::Host, spec::HostSpec};
use std::time::Duration;

/// In wall-clock time; the longest take some minutes.
const LIMIT: Duration = Duration::from_secs(900);

/// What host and guest do beside the work, as the daemons of a distribution would: the lab's do
/// nothing by themselves.
const CHORES: [&str; 6] = ["workload", "chores", "--busy-us", "300", "--sleep-us", "1000"];

/// Of the host: more than one CPU can do, so that what the thesis says of a host of four is tested:
/// that one is too few for its housekeeping.
const HOST_THREADS: u32 = 8;

/// Of the guest: nearly one CPU's.
const GUEST_THREADS: u32 = 4;

/// For a program that is loaded first.
const LOADING: Duration = Duration::from_secs(2);

/// Of faults of one recording, so many are kept: the rest would say the same.
const FAULTS: usize = 3;

/// Results say that osnoise sampled.
const BOTH: Sides = Sides { sampler: Some(Sampler::Osnoise), ..Sides::BOTH };

pub fn host(spec: &mut HostSpec, plan: &Plan, isolation: Isolation) {
    spec.boot.append.extend(isolation.host_parameters(plan.vcpus));
    noise::quiet_host(spec);
}

pub fn guest(spec: &mut GuestConfig, isolation: Isolation) {
    spec.append.extend(isolation.guest_parameters(spec.vcpus));
    spec.unpinned = !isolation.of_host();
    if isolation.of_host() {
        noise::pin(spec);
    }
}

/// Records each of the plan's workloads as often as it says; its work is how many ms are recorded.
pub fn samples(
    host: &Host,
    guest: &Guest,
    agent: &str,
    (plan, boot): (&Plan, Boot),
    ran: &mut dyn FnMut(),
) -> Result<Vec<(PlannedWorkload, Sample)>> {
    let isolation = plan.isolation.context("the plan is one of noise")?;
    check(isolation, plan.vcpus, (host, guest))?;
    verify::check_sockets(guest, plan.sockets)?;
    check_mode(guest, plan, boot)?;
    noise::sample_on(guest, &sampled(plan.vcpus))?;
    let mut samples = Vec::new();
    for repeat in 1..=plan.repeats {
        for workload in &plan.workloads {
            let beside = beside(agent);
            let sample = sample(host, guest, &beside, (plan.vcpus, workload.work))?;
            let mut sample = Sample { round: boot.round, repeat, ..sample };
            for program in &plan.latency_programs {
                let time = Duration::from_millis(workload.work);
                let Latency { mean_us, longest_us } =
                    latency((host, guest), &beside, *program, plan.vcpus, time)?;
                sample.metrics.insert(program.mean_metric(), mean_us);
                sample.metrics.insert(program.longest_metric(), longest_us);
            }
            samples.push((workload.clone(), sample));
            ran();
        }
    }
    check_mode(guest, plan, boot)?;
    Ok(samples)
}

/// The guest is in its mode on the CPUs that have ticks: on those of nohz_full the kernel keeps its
/// own timer for the few that it needs.
fn check_mode(guest: &Guest, plan: &Plan, boot: Boot) -> Result<()> {
    let isolated = plan.isolation.is_some_and(Isolation::of_guest);
    verify::check_mode(guest, boot.subject.mode, if isolated { 1 } else { plan.vcpus })
}

fn beside(agent: &str) -> Beside {
    let chores = |threads: u32| -> Vec<String> {
        let words = [agent].into_iter().chain(CHORES).map(String::from);
        words.chain(["--threads".into(), threads.to_string()]).collect()
    };
    Beside { on_host: chores(HOST_THREADS), in_guest: chores(GUEST_THREADS) }
}

/// What a program says of the CPUs that osnoise sampled, for as long, in whole seconds.
fn latency(
    (host, guest): (&Host, &Guest),
    beside: &Beside,
    program: LatencyProgram,
    vcpus: u32,
    time: Duration,
) -> Result<Latency> {
    let seconds = time.as_secs_f64().ceil() as u64;
    let command = program.command(vcpus - 1, &sampled(vcpus), seconds);
    let command = Exec::new(["sh", "-c", &command]).timeout(LIMIT);
    let time = Duration::from_secs(seconds) + LOADING;
    let result = noise::exec_beside((host, guest), (time, LIMIT), beside, command)?;
    let read = program.read(&String::from_utf8_lossy(&result.stdout));
    read.filter(|_| result.code == 0).with_context(|| {
        let said = String::from_utf8_lossy(&result.stderr);
        let hint = match program {
            LatencyProgram::Cyclictest => "",
            LatencyProgram::Oslat => {
                "\nhint: it needs a guest's kernel with CONFIG_NUMA, such as --kernel 6.12-rt \
                 --host-kernel 6.12"
            }
        };
        format!("{program} failed with code {}: {}{hint}", result.code, said.trim())
    })
}

fn sample(host: &Host, guest: &Guest, beside: &Beside, (vcpus, ms): (u32, u64)) -> Result<Sample> {
    let time = Duration::from_millis(ms);
    let recorded = noise::record_beside(host, guest, BOTH, time, LIMIT, Some(beside))?;
    noise::check_whole(recorded.host.as_ref())?;
    let sides = recorded.guest.zip(recorded.host);
    let (noise, seen) = sides.context("both sides were asked")?;
    let cpus: Vec<u32> = (1..vcpus).collect();
    let mut faults = unbalanced(&noise, &seen, guest.pid());
    faults.truncate(FAULTS);
    Ok(Sample {
        exits: Some(counts(&seen)),
        world_switches: seen.audit.as_ref().and_then(|audit| audit.world_switches),
        duration_ns: Some(noise.end_ns - noise.begin_ns),
        noise: Some(NoiseSample::of(&noise, &seen, guest.pid(), &cpus)),
        problems: faults.into_iter().map(fault).collect(),
        ..Sample::default()
    })
}

fn fault(wrong: Unbalanced) -> Fault {
    match wrong {
        Unbalanced::Switches { exits, world_switches } => {
            Fault::CountsDiffer { exits, world_switches }
        }
        other => Fault::Unbalanced { what: other.to_string() },
    }
}

/// Of the part of the recording in which the emulator counted, too: all of them, and the causes of
/// those that had ended.
fn counts(seen: &HostNoise) -> Counts {
    let total = seen.audit.as_ref().map_or(0, |audit| audit.exits);
    let mut counts = Counts { total, ..Counts::default() };
    for one in seen.absences.iter().filter(|one| one.audited) {
        *counts.by_cause.entry(one.cause).or_default() += 1;
        *counts.by_reason.entry(one.reason.clone()).or_default() += 1;
    }
    counts
}

/// A kernel ignores what it does not know.
fn check(isolation: Isolation, vcpus: u32, (host, guest): (&Host, &Guest)) -> Result<()> {
    let files = ["/sys/devices/system/cpu/isolated", "/sys/devices/system/cpu/nohz_full"];
    let sides = [
        ("host", host.read_files(&files)?, isolation.host_cpus(vcpus)),
        ("guest", guest.read_files(&files)?, isolation.guest_cpus(vcpus)),
    ];
    for (side, found, due) in sides {
        for (file, found) in files.into_iter().zip(found) {
            let found = found.unwrap_or_default();
            let none = ["", "(null)"].contains(&found.as_str());
            match &due {
                Some(due) if *due == found => {}
                None if none => {}
                due => bail!(
                    "the {side}'s {file} says '{found}' where '{}' should be\n\
                     hint: its kernel needs CONFIG_CPU_ISOLATION and CONFIG_NO_HZ_FULL",
                    due.as_deref().unwrap_or_default()
                ),
            }
        }
    }
    Ok(())
}
