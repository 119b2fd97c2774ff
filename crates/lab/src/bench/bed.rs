// SPDX-License-Identifier: GPL-2.0-only
//! Guests on one host of the lab's (or on this machine), with everything that counts switched on.

use super::{
    drive::{Bed, Measured, Turn},
    in_effect, join,
};
use crate::{
    exec::Exec,
    guest::{Disk, Guest, GuestSpec},
    host::{Host, HostSpec},
    progress::{Event, Events},
    tools::Tools,
};
use anyhow::{bail, Context, Result};
use paratick_core::{
    exits::WindowCounts,
    results::{Plan, PlannedWorkload, Sample},
    size::Size,
    workload::Report,
};
use std::{path::PathBuf, time::Duration};

/// Behind each guest's /dev/vda, in the host's memory: no real disk's time is in the numbers.
const DISK: Size = Size::mib(64);
/// Wall-clock limit of one run of a workload; the longest takes some seconds.
const RUN_LIMIT: Duration = Duration::from_secs(180);

/// What guests are made of.
#[derive(Clone)]
pub struct GuestPattern {
    pub kernel: PathBuf,
    pub memory: Size,
    pub append: Vec<String>,
}

/// A host that is booted when it is first needed, and again after a guest has failed on it.
pub struct LabBed<'a> {
    pub spec: HostSpec,
    pub tools: &'a Tools,
    pub guest: GuestPattern,
    pub plan: Plan,
    pub host: Option<CountingHost>,
}

/// A host on which exits are counted.
pub struct CountingHost {
    pub host: Host,
    /// Windows that the emulator had counted when the current guest was started.
    before: usize,
}

/// One finished run whose counts are still to be fetched.
struct Run {
    workload: PlannedWorkload,
    repeat: u32,
    window: u32,
    report: Report,
}

impl LabBed<'_> {
    /// Boots the host if none is up.
    pub fn host(&mut self, events: Events) -> Result<&mut CountingHost> {
        if self.host.is_none() {
            let host = Host::boot(self.spec.clone(), self.tools, events)?;
            if host.world_switches().is_none() {
                events(Event::Warning(
                    "world switches and instructions are not counted here: only the lab's own emulator counts them".into(),
                ));
            }
            self.host = Some(CountingHost { host, before: 0 });
        }
        self.host.as_mut().context("a host was just booted")
    }

    fn guest_spec(&self, turn: Turn) -> GuestSpec {
        let pattern = &self.guest;
        let mut spec = GuestSpec::new(&pattern.kernel, self.plan.vcpus, pattern.memory, turn.mode);
        spec.append = pattern.append.clone();
        if self.plan.workloads.iter().any(|w| w.workload == "block") {
            spec.disk = Some(Disk::Memory(DISK));
        }
        spec
    }

    fn in_guest(&mut self, turn: Turn, ran: &mut dyn FnMut()) -> Result<Measured> {
        let spec = self.guest_spec(turn);
        let agent = self.tools.agent.display().to_string();
        let plan = self.plan.clone();
        let on = self.host(&mut |_| ())?;
        on.begin()?;
        let guest = on.host.start_guest(spec)?;
        in_effect::check(&guest, turn.mode, plan.vcpus)?;
        ran();
        let runs = run_all(&guest, &agent, &plan, ran)?;
        let samples = on.join(&guest, &runs, turn)?;
        // Again: a guest whose virtual ticks stay away goes back to its own.
        in_effect::check(&guest, turn.mode, plan.vcpus)?;
        let measured = Measured {
            samples,
            command_line: guest.command_line().to_vec(),
            kernel: guest.ready().kernel.clone(),
        };
        // A console that complained makes every sample of the guest worthless.
        guest.shutdown()?;
        on.host.check()?;
        Ok(measured)
    }
}

impl Bed for LabBed<'_> {
    fn measure(&mut self, turn: Turn, ran: &mut dyn FnMut()) -> Result<Measured> {
        let measured = self.in_guest(turn, ran);
        if measured.is_err() {
            // What is wrong with it may be wrong for the next guest too.
            self.host = None;
        }
        measured
    }
}

impl CountingHost {
    /// Forgets the windows of earlier guests.
    fn begin(&mut self) -> Result<()> {
        self.host.counting_start()?;
        self.before = self.emulator_windows()?.map_or(0, |windows| windows.len());
        Ok(())
    }

    /// Fetches what the host and the emulator counted in the windows of `runs`.
    fn join(
        &mut self,
        guest: &Guest,
        runs: &[Run],
        turn: Turn,
    ) -> Result<Vec<(PlannedWorkload, Sample)>> {
        let windows = self.host.windows()?;
        check_windows(&windows, runs, guest.pid())?;
        let emulator = self.emulator_windows()?;
        let emulator = emulator
            .as_deref()
            .map(|all| &all[self.before.min(all.len())..]);
        if let Some(seen) = emulator.filter(|seen| seen.len() != runs.len()) {
            bail!(
                "the host counted {} windows, and the emulator {}",
                runs.len(),
                seen.len()
            );
        }
        let joined = runs.iter().zip(&windows).enumerate();
        Ok(joined
            .map(|(number, (run, counts))| {
                let emulator = emulator.map(|seen| &seen[number]);
                (run.done(), run.sample(turn, counts, emulator))
            })
            .collect())
    }

    /// All that the emulator counted since the host's boot; none where it does not count.
    fn emulator_windows(&self) -> Result<Option<Vec<join::EmulatorWindow>>> {
        let Some(file) = self.host.world_switches() else {
            return Ok(None);
        };
        match fs_err::read_to_string(file) {
            Ok(text) => join::emulator_windows(&text).map(Some),
            // The plugin may make its file with the first window.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Some(Vec::new())),
            Err(error) => Err(error.into()),
        }
    }
}

/// The windows must be those of the runs, all of them, in their order.
fn check_windows(windows: &[WindowCounts], runs: &[Run], pid: u32) -> Result<()> {
    let due: Vec<_> = runs.iter().map(|run| (run.window, Some(pid))).collect();
    let found: Vec<_> = windows
        .iter()
        .map(|found| (found.window, found.vm()))
        .collect();
    if found != due {
        bail!("the host counted the windows {found:?} (number, QEMU) where {due:?} were marked");
    }
    Ok(())
}

impl Run {
    /// With the work that was done: with one thread for each vCPU that is more than was asked of each.
    fn done(&self) -> PlannedWorkload {
        PlannedWorkload {
            work: self.report.work,
            ..self.workload.clone()
        }
    }

    fn sample(
        &self,
        turn: Turn,
        counts: &WindowCounts,
        emulator: Option<&join::EmulatorWindow>,
    ) -> Sample {
        Sample {
            round: turn.round,
            repeat: self.repeat,
            ..join::sample(&self.report, counts, emulator)
        }
    }
}

/// Runs the workloads in turn, and all of them again for every repeat: so a drift within the
/// guest's life meets all of them.
fn run_all(guest: &Guest, agent: &str, plan: &Plan, ran: &mut dyn FnMut()) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for repeat in 1..=plan.repeats {
        for workload in &plan.workloads {
            let window = runs.len() as u32 + 1;
            let report = run_one(guest, agent, workload, window)
                .with_context(|| format!("running {} (run {repeat})", workload.workload))?;
            runs.push(Run {
                workload: workload.clone(),
                repeat,
                window,
                report,
            });
            ran();
        }
    }
    Ok(runs)
}

fn run_one(guest: &Guest, agent: &str, workload: &PlannedWorkload, window: u32) -> Result<Report> {
    let (work, window) = (workload.work.to_string(), window.to_string());
    let name = workload.workload.as_str();
    let argv = [
        agent, "workload", name, "--work", &work, "--window", &window,
    ];
    let result = guest.exec(Exec::new(argv).timeout(RUN_LIMIT))?;
    if result.code != 0 {
        let said = String::from_utf8_lossy(&result.stderr);
        bail!("it ended with code {}: {}", result.code, said.trim());
    }
    join::report(&result.stdout)
}
