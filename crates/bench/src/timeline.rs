// SPDX-License-Identifier: GPL-2.0-only
//! One idle cycle of each tick mode, from a trace that the host makes of a workload.
//!
//! The host's own tracing (tracefs) is used, in two instances of its own: one with every event, in
//! cycles of the processor, which is the only clock that tracefs prints exactly, and one with the
//! window's marks alone, in time.  The marks are in both, so they tell how long a cycle is.

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
    workload::Report,
};
use paratick_instruments::cycle::{
    choose,
    story::{self, Window},
    trace,
};
use paratick_machine::{
    exec::Exec,
    guest::{Disk, Guest, GuestSpec},
    host::Host,
};
use std::{path::Path, time::Duration};

/// Wall-clock limit of a step on the host or in a guest; each takes seconds.
const STEP_LIMIT: Duration = Duration::from_secs(300);
/// The vCPU whose cycles are shown: the one that leads the workloads.
const VCPU: u32 = 0;
/// The trace's buffer of each CPU, in KiB: some twenty times what is written.
const BUFFER_KIB: u32 = 32 << 10;

/// Events that must be there, and events that only some kernels have.
const NEEDED: &str = "kvm/kvm_exit kvm/kvm_entry kvm/kvm_msr kvm/kvm_cpuid kvm/kvm_vcpu_wakeup \
    kvm/kvm_apic_accept_irq irq_vectors/local_timer_entry timer/hrtimer_expire_entry \
    irq/irq_handler_entry sched/sched_switch";
const OPTIONAL: &str = "kvm/kvm_pv_tick irq_vectors/reschedule_entry irq_vectors/irq_work_entry \
    irq_vectors/call_function_entry irq_vectors/call_function_single_entry";

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
    let mut spec = GuestSpec::new(&settings.kernel.image, vcpus, settings.memory, mode);
    spec.disk = settings.disk.map(Disk::Memory);
    let guest = host.start_guest(spec)?;
    in_effect::check(&guest, mode, vcpus)?;
    environment.kernel_version = guest.ready().kernel.clone();
    let lines = &mut environment.qemu_command_lines.guests;
    lines.insert(mode, guest.command_line().to_vec());

    let agent = settings.tools.agent.display().to_string();
    let untraced = run_workload(&guest, &agent, workload)?;
    let tracing = Tracing::start(host)?;
    let traced = run_workload(&guest, &agent, workload)?;
    let traces = tracing.stop()?;
    // Again: a guest whose virtual ticks stay away goes back to its own.
    in_effect::check(&guest, mode, vcpus)?;
    guest.shutdown()?;

    let (records, window) = traces.read()?;
    let told = story::tell(&records, VCPU, window)?;
    let chosen = choose::choose(&told).with_context(|| {
        format!(
            "vCPU {VCPU} did not halt twice while {} ran",
            workload.workload
        )
    })?;
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

/// Two instances of the host's tracing that are on.
struct Tracing<'a> {
    host: &'a Host,
}

/// As tracefs printed them.
struct Traces {
    events: String,
    clock: String,
    stats: String,
}

const FOLDER: &str = "/sys/kernel/tracing";
/// Stands between the parts of what the host answers.
const CUT: &str = "-- cut --\n";

impl Tracing<'_> {
    fn start(host: &Host) -> Result<Tracing<'_>> {
        let script = format!(
            "set -e
[ -d {FOLDER}/instances ] || mount -t tracefs none {FOLDER}
cd {FOLDER}/instances
mkdir paratick paratick-clock
for at in paratick paratick-clock; do
    echo 0 > $at/tracing_on
    echo {BUFFER_KIB} > $at/buffer_size_kb
done
echo 16 > paratick-clock/buffer_size_kb
echo x86-tsc > paratick/trace_clock
echo mono > paratick-clock/trace_clock
for event in {NEEDED}; do echo 1 > paratick/events/$event/enable; done
for event in {OPTIONAL}; do
    [ ! -d paratick/events/$event ] || echo 1 > paratick/events/$event/enable
done
echo 'function == {MARKER_LEAF:#x}' > paratick-clock/events/kvm/kvm_cpuid/filter
echo 1 > paratick-clock/events/kvm/kvm_cpuid/enable
echo 1 > paratick-clock/tracing_on
echo 1 > paratick/tracing_on",
            MARKER_LEAF = paratick_instruments::marker::LEAF,
        );
        let tracing = Tracing { host };
        match shell(host, &script) {
            Ok(_) => Ok(tracing),
            Err(error) => {
                tracing.remove();
                Err(error).context("the host cannot trace its guests\nhint: its kernel needs KVM and CONFIG_FTRACE, as the lab's kernels have")
            }
        }
    }

    fn stop(self) -> Result<Traces> {
        let script = format!(
            "set -e
cd {FOLDER}/instances
echo 0 > paratick/tracing_on
echo 0 > paratick-clock/tracing_on
cat paratick/trace
printf '%s' '{CUT}'
cat paratick-clock/trace
printf '%s' '{CUT}'
cat paratick*/per_cpu/cpu*/stats",
        );
        let said = shell(self.host, &script);
        self.remove();
        let said = said.context("reading the host's trace")?;
        let parts: Vec<_> = said.split(CUT).collect();
        let [events, clock, stats] = parts.as_slice() else {
            bail!("the host's trace came in {} parts, not 3", parts.len());
        };
        Ok(Traces {
            events: events.to_string(),
            clock: clock.to_string(),
            stats: stats.to_string(),
        })
    }

    /// The next guest's begins anew.
    fn remove(&self) {
        let script = format!(
            "cd {FOLDER}/instances && for at in paratick paratick-clock; do
    [ ! -d $at ] || {{ echo 0 > $at/events/enable; rmdir $at; }}
done"
        );
        // What is left is found by the next `start`, which then fails.
        let _ = shell(self.host, &script);
    }
}

impl Traces {
    fn read(&self) -> Result<(Vec<trace::Record>, Window)> {
        trace::check_stats(&self.stats)?;
        let records = trace::parse(&self.events)?;
        let (open, close) = trace::marks(&records)?;
        let (from, to) = trace::marks(&trace::parse(&self.clock)?)?;
        let window = Window {
            open,
            close,
            ns_per_tick: (to - from) as f64 / (close - open) as f64,
        };
        Ok((records, window))
    }
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

    #[test]
    fn a_clocks_rate_comes_from_the_marks_that_are_in_both_traces() {
        let trace = |from: &str, to: &str| {
            let mark = |clock: &str, idx| {
                format!(
                "       CPU 0/KVM-85      [001] d..1. {clock}: kvm_cpuid: func 50415241 idx {idx} rax 0 rbx 0 rcx 0 rdx 0, cpuid entry not found\n"
            )
            };
            format!(
                "# tracer: nop\n#\n# entries-in-buffer/entries-written: 2/2   #P:3\n#\n{}{}",
                mark(from, "101"),
                mark(to, "102")
            )
        };
        let mut traces = Traces {
            events: trace("5000", "205000"),
            clock: trace("7.000100", "7.000200"),
            stats: "entries: 2\noverrun: 0\ncommit overrun: 0\ndropped events: 0\n".into(),
        };
        let (_, window) = traces.read().unwrap();
        assert_eq!((window.open, window.ns_per_tick), (5000, 0.5));
        traces.stats = traces
            .stats
            .replace("dropped events: 0", "dropped events: 7");
        assert!(traces
            .read()
            .unwrap_err()
            .to_string()
            .contains("dropped events 7"));
    }
}
