// SPDX-License-Identifier: GPL-2.0-only
//! One bench from its settings to its results.

use super::{
    bed::{GuestPattern, LabBed},
    drive, environment, store,
};
use crate::{
    accel::Accel,
    exec::Exec,
    host::{Host, HostSpec, Place},
    progress::Events,
    tools::Tools,
};
use anyhow::Result;
use paratick_core::{
    mode::Mode,
    results::{Plan, PlannedWorkload, Results, SCHEMA},
    size::Size,
};
use std::{path::PathBuf, time::Duration};

/// A kernel image, and what is known of it.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub image: PathBuf,
    pub config: Option<PathBuf>,
    /// Hash of its patches.
    pub patches: Option<String>,
}

pub struct Settings {
    pub plan: Plan,
    pub kernel: Kernel,
    /// None where the machine is the host.
    pub host_kernel: Option<Kernel>,
    pub tools: Tools,
    pub accel: Accel,
    pub memory: Size,
    pub output: PathBuf,
    /// Insist on continuing `output`.
    pub resume: bool,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
}

/// What a bench came to.
#[derive(Debug)]
pub struct Outcome {
    pub results: Results,
    pub output: PathBuf,
    /// Guests that an earlier run had already measured.
    pub resumed_guests: usize,
}

impl Outcome {
    /// Everything was measured, and nothing is doubtful.
    pub fn is_sound(&self) -> bool {
        let results = &self.results;
        results.is_complete() && results.problems.is_empty() && results.doubtful().next().is_none()
    }
}

/// A plan of every mode and workload given, in their order.
pub fn plan(
    vcpus: u32,
    modes: Vec<Mode>,
    workloads: impl IntoIterator<Item = impl Into<PlannedWorkload>>,
    rounds: u32,
    repeats: u32,
) -> Plan {
    Plan {
        vcpus,
        guests: 1,
        modes,
        workloads: workloads.into_iter().map(Into::into).collect(),
        rounds,
        repeats,
        rounds_at_most: None,
        precision: None,
    }
}

/// Measures what is missing.  Results are in the output file after every guest.
pub fn run(settings: &Settings, events: Events) -> Result<Outcome> {
    store::check(&settings.output, settings.resume)?;
    let spec = host_spec(settings);
    let mut results = store::open(
        &settings.output,
        fresh(settings, &spec)?,
        settings.resume,
        events,
    )?;
    let resumed = drive::order(&results.plan)
        .filter(|turn| results.has_guest(turn.mode, turn.round))
        .count();
    if !results.is_complete() {
        let mut bed = LabBed {
            spec,
            tools: &settings.tools,
            guest: GuestPattern {
                kernel: settings.kernel.image.clone(),
                memory: settings.memory,
                append: Vec::new(),
            },
            plan: settings.plan.clone(),
            host: None,
        };
        describe(&mut results, &bed.host(events)?.host)?;
        let mut keep = |results: &Results| store::write(&settings.output, results);
        drive::drive(&mut results, &mut bed, &mut keep, events)?;
    }
    results.summarize();
    Ok(Outcome {
        results,
        output: settings.output.clone(),
        resumed_guests: resumed,
    })
}

fn host_spec(settings: &Settings) -> HostSpec {
    let (kernel, place) = match &settings.host_kernel {
        Some(kernel) => (kernel.image.clone(), Place::Lab),
        None => (PathBuf::new(), Place::Here),
    };
    let mut spec = HostSpec::for_guests(kernel, settings.plan.vcpus, settings.memory);
    spec.place = place;
    spec.accel = settings.accel;
    spec.plugin_out = true;
    spec
}

fn fresh(settings: &Settings, spec: &HostSpec) -> Result<Results> {
    Ok(Results {
        schema: SCHEMA.into(),
        tool_version: env!("CARGO_PKG_VERSION").into(),
        bench: "quick".into(),
        started: settings.started.clone(),
        plan: settings.plan.clone(),
        environment: environment::collect(settings, spec, &settings.plan)?,
        cells: Vec::new(),
        problems: Vec::new(),
    })
}

/// Adds what only the running host can say.
fn describe(results: &mut Results, host: &Host) -> Result<()> {
    let environment = &mut results.environment;
    environment.host_kernel_version = host.ready().kernel.clone();
    environment.qemu_command_lines.host = host.command_line().to_vec();
    let file = "/sys/module/kvm/parameters/halt_poll_ns";
    let asked = Exec::new(["cat", file]).timeout(Duration::from_secs(30));
    let said = host.exec(asked)?.stdout;
    environment.configuration.halt_poll_ns = String::from_utf8_lossy(&said).trim().parse().ok();
    Ok(())
}
