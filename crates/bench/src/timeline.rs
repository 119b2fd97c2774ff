// SPDX-License-Identifier: GPL-2.0-only
//! One idle cycle of each tick mode, from a trace that the host makes of a workload.

use super::{
    runner::{describe, fresh, host_spec, jobs},
    sample,
    settings::Settings,
    verify,
};
use anyhow::{bail, Context, Result};
use paratick_core::{
    catalogue::{
        sets::{self, CpuTime, Set},
        workloads,
    },
    cycle::{IdleCycle, Why},
    event::{Events, Step, Warning},
    mode::{Mode, Polling},
    results::{Boot, Fault, Plan, PlannedWorkload, Problem, Results},
    size::Size,
    subject::Subject,
    wire::GuestConfig,
    workload::Report,
};
use paratick_instruments::cycle::{Cycle, VCPU};
use paratick_machine::{exec::Exec, guest::Guest, host::Host, spec::HostSpec};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{mpsc, Mutex, MutexGuard},
    thread,
    time::Duration,
};

/// Wall-clock limit of a step on the host or in a guest; each takes seconds.
const STEP_LIMIT: Duration = Duration::from_secs(300);

/// Workloads with idle cycles, and the work of one traced run: hundreds of cycles.
pub const WORKLOADS: [(&str, u64); 4] =
    [("pingpong", 400), ("barrier", 800), ("sleep", 400), ("block", 300)];

/// A workload that has no time line.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("no workload '{0}' with idle cycles\n\
    hint: those are {names}", names = WORKLOADS.map(|(name, _)| name).join(", "))]
pub struct UnknownWorkload(pub String);

pub fn workload(name: &str) -> Result<PlannedWorkload, UnknownWorkload> {
    workloads::find(&WORKLOADS, name).ok_or_else(|| UnknownWorkload(name.to_string()))
}

/// What is traced where nobody says otherwise: the wake-ups of blocking synchronization.  No guest
/// polls: one that does hardly halts, so it may have no cycle.
pub fn set(exit_cost_ns: u32) -> Set {
    let planned = workload(WORKLOADS[0].0).expect("the first of the table");
    let modes = sets::papers_modes().into_iter();
    let modes = modes.map(|mode| Mode { poll: Polling::Off, ..mode }).collect::<Vec<_>>();
    let plan = Plan::new(2, modes, [planned], 1, 1);
    Set {
        exit_cost_ns,
        takes: Some(CpuTime::of(14.0, 2.0)),
        ..Set::new("timeline", "timeline", plan, Size::mib(512))
    }
}

/// Traces the plan's only workload in a guest of every subject, on several hosts side by side.  A
/// subject that fails is a problem of the results; an error means that nothing can be traced.
pub fn run(settings: &Settings, events: Events) -> Result<Results> {
    let Plan { workloads, subjects, .. } = &settings.set.plan;
    let [workload] = workloads.as_slice() else {
        bail!("a time line is of one workload, not of {}", workloads.len());
    };
    let mut spec = host_spec(settings);
    // It counts world switches, which nobody asks for here.
    spec.emulation.count_world_switches = false;
    let jobs = jobs(settings, &spec, subjects.len());
    let tracing = Tracing {
        settings,
        workload,
        waiting: Mutex::new(subjects.iter().copied().collect()),
        results: Mutex::new(fresh(settings, &spec)?),
    };
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        let hosts = (0..jobs).map(|_| {
            let (spec, tell) = (spec.clone(), tell.clone());
            scope.spawn(|| tracing.on_one_host(spec, tell))
        });
        let hosts: Vec<_> = hosts.collect();
        drop(tell);
        for told in told {
            let workload = &workload.workload;
            match told {
                Told::Begins(subject) => events(Step::Tracing { subject, workload }.into()),
                Told::Failed(problem) => events(Warning::Problem(&problem).into()),
            }
        }
        hosts.into_iter().try_for_each(|host| host.join().expect("a host's thread"))
    })?;
    let mut results = tracing.results.into_inner().expect("no thread panicked");
    // As the plan has them, not as they ended.
    results.summarize();
    let place = |subject| subjects.iter().position(|one| *one == subject);
    results.problems.sort_by_key(|problem| problem.boot.map(|boot| place(boot.subject)));
    Ok(results)
}

/// Told to the thread that may print.
enum Told {
    Begins(Subject),
    Failed(Problem),
}

/// Shared by the threads, each of which has a host.
struct Tracing<'a> {
    settings: &'a Settings,
    workload: &'a PlannedWorkload,
    waiting: Mutex<VecDeque<Subject>>,
    results: Mutex<Results>,
}

impl Tracing<'_> {
    fn results(&self) -> MutexGuard<'_, Results> {
        self.results.lock().expect("no thread panicked")
    }

    fn next(&self) -> Option<Subject> {
        self.waiting.lock().expect("no thread panicked").pop_front()
    }

    fn on_one_host(&self, spec: HostSpec, tell: mpsc::Sender<Told>) -> Result<()> {
        let traced = self.all_that_wait(spec, tell);
        if traced.is_err() {
            self.waiting.lock().expect("no thread panicked").clear();
        }
        traced
    }

    fn all_that_wait(&self, mut spec: HostSpec, tell: mpsc::Sender<Told>) -> Result<()> {
        let mut host: Option<Host> = None;
        while let Some(subject) = self.next() {
            tell.send(Told::Begins(subject))?;
            if host.as_ref().is_none_or(|host| host.settings() != subject.host) {
                drop(host.take());
                spec.settings = subject.host;
                let booted = Host::boot(spec.clone(), &self.settings.tools, &mut |_| ())?;
                verify::check_host(&booted)?;
                describe(&mut self.results().environment, &booted);
                host = Some(booted);
            }
            let host = host.as_ref().context("a host was just booted")?;
            match self.trace(host, subject) {
                Ok(cycle) => self.results().readings(self.workload, subject).cycle = Some(cycle),
                Err(error) => {
                    let why = format!("{error:#}");
                    let problem = Boot { round: 1, subject }.problem(Fault::Guest { why });
                    self.results().problems.push(problem.clone());
                    tell.send(Told::Failed(problem))?;
                }
            }
            // One that complained is of no use to the guests that would follow.
            host.check()?;
        }
        Ok(())
    }

    fn trace(&self, host: &Host, subject: Subject) -> Result<IdleCycle> {
        let (settings, workload) = (self.settings, self.workload);
        let (vcpus, mode) = (settings.set.plan.vcpus, subject.mode);
        let mut spec = GuestConfig::new(&settings.kernel.image, vcpus, settings.set.memory, mode);
        spec.disk = settings.set.guest_disk();
        spec.root_disk = settings.kernel.root_disk.clone();
        spec.sockets = settings.set.plan.sockets;
        let guest = host.start_guest(spec)?;
        verify::check_mode(&guest, mode, vcpus)?;
        verify::check_sockets(&guest, settings.set.plan.sockets)?;
        self.note(&guest, subject);

        let agent = settings.tools.agent.display().to_string();
        let untraced = run_workload(&guest, &agent, workload, &[])?;
        host.start::<Cycle>()?;
        let traced = run_workload(&guest, &agent, workload, &["--deadline-writes"])?;
        let read = host.read::<Cycle>().with_context(|| {
            let polls =
                if mode.polls() { ", in a guest that polls and so hardly halts" } else { "" };
            format!("tracing {}{polls}", workload.workload)
        })?;
        // Again: a guest whose virtual ticks stay away goes back to its own.
        verify::check_mode(&guest, mode, vcpus)?;
        guest.shutdown()?;

        let reasons = traced.deadline_writes.filter(|_| mode.tick.row().halt_until);
        Ok(IdleCycle {
            vcpu: VCPU,
            chosen: read.explained(reasons.as_deref().unwrap_or(&[])),
            traced_ns: traced.duration_ns,
            untraced_ns: untraced.duration_ns,
            deadline_writes: reasons.map(|reasons| tally(&reasons)),
        })
    }

    /// How the guest was started, and on which kernel.
    fn note(&self, guest: &Guest, subject: Subject) {
        let environment = &mut self.results().environment;
        environment.kernel_version = guest.ready().kernel.clone();
        let lines = &mut environment.qemu_command_lines.guests;
        lines.insert(subject.to_string(), guest.command_line().to_vec());
    }
}

fn tally(reasons: &[Why]) -> BTreeMap<Why, u32> {
    let mut counts = BTreeMap::new();
    for why in reasons {
        *counts.entry(*why).or_default() += 1;
    }
    counts
}

fn run_workload(
    guest: &Guest,
    agent: &str,
    workload: &PlannedWorkload,
    options: &[&str],
) -> Result<Report> {
    let work = workload.work.to_string();
    let argv = [&[agent, "workload", &workload.workload, "--work", &work], options].concat();
    let result = guest.exec(Exec::new(argv).timeout(STEP_LIMIT))?;
    if result.code != 0 {
        let said = String::from_utf8_lossy(&result.stderr);
        bail!("{} ended with code {}: {}", workload.workload, result.code, said.trim());
    }
    sample::report(&result.stdout)
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
        assert!(error.contains("'cpu'") && error.contains("pingpong"), "{error}");
    }
}
