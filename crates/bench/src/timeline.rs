// SPDX-License-Identifier: GPL-2.0-only
//! One idle cycle of each tick mode, from a trace that the host makes of a workload.

use super::{
    environment, in_effect, join,
    run::{host_spec, Settings},
    store,
};
use anyhow::{bail, Context, Result};
use paratick_build::progress::{Event, Events};
use paratick_core::{
    catalogue::sets::{self, Set, Takes},
    mode::Mode,
    results::{Environment, Plan, PlannedWorkload},
    size::Size,
    timeline::{Line, Timeline, SCHEMA},
    wire::{Disk, GuestConfig},
    workload::Report,
};
use paratick_instruments::cycle::{Cycle, VCPU};
use paratick_machine::{exec::Exec, guest::Guest, host::Host};
use std::{path::Path, time::Duration};

/// Wall-clock limit of a step on the host or in a guest; each takes seconds.
const STEP_LIMIT: Duration = Duration::from_secs(300);

/// Workloads with idle cycles, and the work of one traced run: hundreds of cycles.
pub const WORKLOADS: [(&str, u64); 4] = [
    ("pingpong", 400),
    ("barrier", 800),
    ("sleep", 400),
    ("block", 300),
];

/// A workload that has no time line.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("no workload '{0}' with idle cycles\nhint: those are {names}", names = WORKLOADS.map(|(name, _)| name).join(", "))]
pub struct UnknownWorkload(pub String);

/// A workload at the size that is traced.
pub fn workload(name: &str) -> Result<PlannedWorkload, UnknownWorkload> {
    let known = WORKLOADS.into_iter().find(|(known, _)| *known == name);
    let found = known.and_then(|(name, work)| Some((work, paratick_core::workload::find(name)?)));
    let (work, known) = found.ok_or_else(|| UnknownWorkload(name.to_string()))?;
    Ok(PlannedWorkload {
        workload: known.name.into(),
        work,
        unit: known.unit.into(),
        program: None,
    })
}

/// What is traced where nobody says otherwise: the wake-ups of blocking synchronization.
pub fn set(exit_cost_ns: u32) -> Set {
    let planned = workload(WORKLOADS[0].0).expect("the first of the table");
    let plan = Plan::new(2, sets::papers_modes(), [planned], 1, 1);
    Set {
        bench: "timeline",
        name: "timeline".into(),
        plan,
        memory: Size::mib(512),
        disk: None,
        exit_cost_ns,
        keeps_cost: false,
        takes: Some(Takes::of(28.0, 4.0)),
        parallel_clock: false,
    }
}

/// Fails early where `path` could not be written.
pub fn check_output(path: &Path) -> Result<(), store::BadOutput> {
    store::check_writable(path)
}

/// Traces the plan's only workload in a guest of every mode, on one host.  A mode that fails is a
/// problem of the time line; an error means that nothing can be traced.
pub fn run(settings: &Settings, events: Events) -> Result<Timeline> {
    let plan = &settings.plan;
    let [workload] = plan.workloads.as_slice() else {
        bail!(
            "a time line is of one workload, not of {}",
            plan.workloads.len()
        );
    };
    let mut spec = host_spec(settings);
    // It counts world switches, which nobody asks for here.
    spec.emulation.count_world_switches = false;
    let mut timeline = Timeline {
        schema: SCHEMA.into(),
        tool_version: env!("CARGO_PKG_VERSION").into(),
        started: settings.started.clone(),
        environment: environment::collect(settings, &spec, plan)?,
        workload: workload.workload.clone(),
        work: workload.work,
        unit: workload.unit.clone(),
        vcpus: plan.vcpus,
        lines: Vec::new(),
        problems: Vec::new(),
    };
    let host = Host::boot(spec, &settings.tools, events)?;
    describe(&mut timeline.environment, &host)?;
    for mode in &plan.modes {
        events(Event::Step(format!(
            "{mode}: tracing {}",
            workload.workload
        )));
        match line(&host, settings, *mode, workload, &mut timeline.environment) {
            Ok(line) => timeline.lines.push(line),
            Err(error) => {
                let problem = format!("{mode}: {error:#}");
                events(Event::Warning(problem.clone()));
                timeline.problems.push(problem);
            }
        }
        // One that complained is of no use to the guests that would follow.
        host.check()?;
    }
    Ok(timeline)
}

/// Replaces the file at once, or leaves it as it was.
pub fn write(path: &Path, timeline: &Timeline) -> Result<()> {
    let mut text = serde_json::to_string_pretty(timeline).context("a time line is plain data")?;
    text.push('\n');
    store::replace(path, text.as_bytes()).with_context(|| format!("writing {}", path.display()))
}

/// Adds what only the running host can say.
fn describe(environment: &mut Environment, host: &Host) -> Result<()> {
    environment.host_kernel_version = host.ready().kernel.clone();
    environment.qemu_command_lines.host = host.command_line().to_vec();
    let said = shell(host, "cat /sys/module/kvm/parameters/halt_poll_ns")?;
    environment.configuration.halt_poll_ns = said.trim().parse().ok();
    Ok(())
}

fn line(
    host: &Host,
    settings: &Settings,
    mode: Mode,
    workload: &PlannedWorkload,
    environment: &mut Environment,
) -> Result<Line> {
    let vcpus = settings.plan.vcpus;
    let mut spec = GuestConfig::new(&settings.kernel.image, vcpus, settings.memory, mode);
    spec.disk = settings.disk.map(Disk::Memory);
    let guest = host.start_guest(spec)?;
    in_effect::check(&guest, mode, vcpus)?;
    environment.kernel_version = guest.ready().kernel.clone();
    let lines = &mut environment.qemu_command_lines.guests;
    lines.insert(mode, guest.command_line().to_vec());

    let agent = settings.tools.agent.display().to_string();
    let untraced = run_workload(&guest, &agent, workload)?;
    host.start::<Cycle>()?;
    let traced = run_workload(&guest, &agent, workload)?;
    let chosen = host
        .read::<Cycle>()
        .with_context(|| format!("tracing {}", workload.workload))?;
    // Again: a guest whose virtual ticks stay away goes back to its own.
    in_effect::check(&guest, mode, vcpus)?;
    guest.shutdown()?;

    Ok(Line {
        mode,
        vcpu: VCPU,
        chosen,
        traced_ns: traced.duration_ns,
        untraced_ns: untraced.duration_ns,
    })
}

fn run_workload(guest: &Guest, agent: &str, workload: &PlannedWorkload) -> Result<Report> {
    let work = workload.work.to_string();
    let argv = [agent, "workload", &workload.workload, "--work", &work];
    let result = guest.exec(Exec::new(argv).timeout(STEP_LIMIT))?;
    if result.code != 0 {
        let said = String::from_utf8_lossy(&result.stderr);
        bail!(
            "{} ended with code {}: {}",
            workload.workload,
            result.code,
            said.trim()
        );
    }
    join::report(&result.stdout)
}

/// Runs a script on the host; gives what it printed.
fn shell(host: &Host, script: &str) -> Result<String> {
    let result = host.exec(Exec::new(["sh", "-c", script]).timeout(STEP_LIMIT))?;
    if result.code != 0 {
        let said = String::from_utf8_lossy(&result.stderr);
        bail!(
            "the host's shell ended with code {}: {}",
            result.code,
            said.trim()
        );
    }
    String::from_utf8(result.stdout).context("the host's answer is no text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_one_of_the_agents() {
        for (name, work) in WORKLOADS {
            let planned = workload(name).unwrap();
            assert_eq!((planned.workload.as_str(), planned.work), (name, work));
        }
        let error = workload("cpu").unwrap_err().to_string();
        assert!(
            error.contains("'cpu'") && error.contains("pingpong"),
            "{error}"
        );
    }
}
