// SPDX-License-Identifier: GPL-2.0-only
//! One bench from its settings to its results.

use super::{
    environment, isolated,
    schedule::{self, Worker},
    settings::Settings,
    store,
    worker::HostWorker,
};
use anyhow::{Context, Result};
use paratick_core::{
    catalogue::sets::Set,
    event::Events,
    results::{Environment, Results},
    size::Size,
};
use paratick_machine::{host::Host, spec::HostSpec};
use std::path::PathBuf;

#[derive(Debug)]
pub struct Outcome {
    pub results: Results,
    pub output: PathBuf,
    /// Guests that an earlier run had already measured.
    pub resumed_guests: usize,
}

impl Outcome {
    pub fn is_sound(&self) -> bool {
        let results = &self.results;
        results.is_complete() && results.problems.is_empty() && results.doubtful().next().is_none()
    }
}

/// Measures what is missing.  Results are in the output file after every guest.
pub fn run(settings: &Settings, events: Events) -> Result<Outcome> {
    let _alone = store::occupy(&settings.output)?;
    store::check(&settings.output, settings.resume)?;
    let spec = host_spec(settings);
    let mut results =
        store::open(&settings.output, fresh(settings, &spec)?, settings.resume, events)?;
    let resumed = schedule::order(&results.plan).filter(|boot| results.has_guest(*boot)).count();
    results.summarize();
    if !results.is_complete() || results.wants_another_round() {
        let more = if results.wants_another_round() { settings.set.plan.subjects.len() } else { 0 };
        let missing = (schedule::order(&results.plan).count() - resumed).max(more);
        let worker = |_| HostWorker {
            spec: spec.clone(),
            settings,
            plan: settings.set.plan.clone(),
            host: None,
        };
        let mut workers: Vec<_> = (0..jobs(settings, &spec, missing)).map(worker).collect();
        let first = settings.set.plan.subjects.first().copied();
        let first = first.context("a plan has a subject")?.host;
        describe(&mut results.environment, &workers[0].host(first, events)?.host);
        let mut keep = |results: &Results| store::write(&settings.output, results);
        let mut workers: Vec<_> =
            workers.iter_mut().map(|worker| worker as &mut dyn Worker).collect();
        schedule::measure(&mut results, &mut workers, &mut keep, events)?;
    }
    Ok(Outcome { results, output: settings.output.clone(), resumed_guests: resumed })
}

/// An emulated host keeps one CPU of the machine busy, and neither its counts nor its clock depend
/// on what else the machine does.  Real hosts would disturb each other.
pub(super) fn jobs(settings: &Settings, spec: &HostSpec, missing: usize) -> usize {
    let facts = spec.facts();
    if facts.ns_per_instruction.is_none() {
        return 1;
    }
    let memory = environment::available_memory().unwrap_or(0) / 2 / facts.memory.bytes().max(1);
    let bearable = (paratick_service::online_cpus() as usize).min(memory as usize);
    settings.jobs.unwrap_or(bearable).clamp(1, missing.max(1))
}

/// Memory of a guest's QEMU itself, where there are too many guests for the host's own to hold it.
const VMM: Size = Size::mib(40);

pub(super) fn host_spec(settings: &Settings) -> HostSpec {
    let kernel = settings.host_kernel.as_ref();
    let kernel = kernel.map_or(PathBuf::new(), |kernel| kernel.image.clone());
    let Set { plan, memory, disk, exit_cost_ns, parallel_clock, .. } = &settings.set;
    let mut each = memory.bytes() + disk.map_or(0, Size::bytes);
    if plan.one_window {
        each += VMM.bytes();
    }
    let memory = Size(each * u64::from(plan.guests));
    let mut spec = HostSpec::for_guests(settings.backend, kernel, plan.vcpus, memory);
    spec.boot.cpus = plan.host_cpus.unwrap_or(spec.boot.cpus);
    spec.emulation.accel = settings.accel;
    spec.emulation.count_world_switches = true;
    spec.emulation.exit_cost_ns = *exit_cost_ns;
    spec.emulation.parallel_clock = *parallel_clock;
    if let Some(isolation) = plan.isolation {
        isolated::host(&mut spec, plan, isolation);
    }
    spec
}

pub(super) fn fresh(settings: &Settings, spec: &HostSpec) -> Result<Results> {
    Ok(Results {
        command: settings.command.clone(),
        started: settings.started.clone(),
        environment: environment::collect(settings, spec)?,
        ..Results::new(settings.set.bench, settings.set.plan.clone())
    })
}

/// Adds what only the running host can say.
pub(super) fn describe(environment: &mut Environment, host: &Host) {
    environment.host_kernel_version = host.ready().kernel.clone();
    environment.qemu_command_lines.host = host.command_line().to_vec();
}
