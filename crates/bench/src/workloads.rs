// SPDX-License-Identifier: GPL-2.0-only
//! Running a plan's workloads in guests that are up.

use super::{
    background::Background,
    noise::{NoiseRecorder, Sides},
    prepared::{folder, Prepared, RUN_LIMIT},
    sample,
    wakeups::{self, Load, Recorded},
};
use anyhow::Result;
use paratick_core::{
    catalogue::{programs, workloads},
    halts::RunHalts,
    idle::IdleEntries,
    pcpu::Pcpus,
    results::{Doing, Fault, Plan, PlannedWorkload},
    wakeups::Woken,
    workload::Report,
};
use paratick_instruments::{
    halts::HaltRecorder,
    pcpus::PcpuCounter,
    spent::{Spent, SpentCounter},
    timers::TimerRecorder,
};
use paratick_machine::{
    exec::{Exec, ExecResult},
    failure::Failure,
    guest::Guest,
    host::Host,
};
use std::{thread, time::Duration};

/// One finished run whose counts are still to be fetched.
pub struct Run {
    workload: PlannedWorkload,
    pub repeat: u32,
    pub window: u32,
    /// One of each guest that ran it, in their order.
    pub reports: Vec<Report>,
    /// Of the host, where the window is of all guests.
    pub pcpus: Option<Pcpus>,
    /// By all guests, from the start of the workload to its end, where this machine is the host.
    pub spent: Option<Spent>,
}

impl Run {
    /// With the work that was done in all guests: with one thread for each vCPU that is more than
    /// was asked of each guest.
    pub fn done(&self) -> PlannedWorkload {
        PlannedWorkload {
            work: self.reports.iter().map(|report| report.work).sum(),
            ..self.workload.clone()
        }
    }
}

#[derive(Default)]
pub struct Completed {
    pub runs: Vec<Run>,
    pub problems: Vec<Fault>,
    /// A workload that did not end: it is still there, and the guests are good for nothing else.
    pub hung: Option<String>,
}

/// Runs the workloads in turn, in all guests at once, and all of them again for every repeat: so a
/// drift within the guests' life meets all of them.  A workload that fails is told and left away;
/// an error means that the guests themselves are of no more use, nor what was measured in them.
/// `here`: this machine is their host.
pub fn all(
    guests: &[Guest],
    here: bool,
    agent: &str,
    plan: &Plan,
    prepared: &Prepared,
    ran: &mut dyn FnMut(),
) -> Result<Completed> {
    let mut all = Completed::default();
    let mut workloads = Vec::new();
    let mut has_io = false;
    for workload in &plan.workloads {
        let argv = preparation(workload, agent, prepared, has_io);
        let prepare = |guest: &Guest| prepare(guest, workload, argv.as_deref());
        if all.note(workload, Doing::Preparing, in_each(guests, prepare))?.is_some() {
            has_io |= programs::is_io(workload);
            workloads.push(workload);
        }
        if all.hung.is_some() {
            return Ok(all);
        }
    }
    let mut window = 0;
    let processes: Vec<u32> = guests.iter().map(Guest::pid).collect();
    for repeat in 1..=plan.repeats {
        let mut failed = Vec::new();
        for workload in &workloads {
            window += 1;
            let run = |guest: &Guest| run_one(guest, agent, workload, window, &[]);
            let counter = here.then(|| SpentCounter::start(&processes)).transpose()?;
            match all.note(workload, Doing::Running(repeat), in_each(guests, run))? {
                Some(reports) => {
                    let workload = (*workload).clone();
                    let spent = counter.map(SpentCounter::read).transpose()?;
                    all.runs.push(Run { workload, repeat, window, reports, pcpus: None, spent })
                }
                None => failed.push(workload.workload.clone()),
            }
            if all.hung.is_some() {
                return Ok(all);
            }
            ran();
        }
        workloads.retain(|workload| !failed.contains(&workload.workload));
    }
    Ok(all)
}

/// How long guests are left alone before the window of all, so that the last one's boot is over;
/// virtual in the lab.
pub(super) const QUIET: Duration = Duration::from_secs(3);

/// Runs each of the plan's workloads in one window of all guests and of the host's CPUs, which the
/// first guest opens.  The others run the same workload, or the server that it talks to; where it
/// is `idle`, they have nothing to do.
pub fn in_one_window(
    host: &Host,
    guests: &[Guest],
    agent: &str,
    plan: &Plan,
    prepared: &Prepared,
    ran: &mut dyn FnMut(),
) -> Result<Completed> {
    let mut all = Completed::default();
    let first = &guests[..1];
    let mut workloads = Vec::new();
    for workload in &plan.workloads {
        let argv = preparation(workload, agent, prepared, false);
        let prepare = |guest: &Guest| prepare(guest, workload, argv.as_deref());
        if all.note(workload, Doing::Preparing, in_each(guests, prepare))?.is_some() {
            workloads.push(workload);
        }
        if all.hung.is_some() {
            return Ok(all);
        }
    }
    let mut window = 0;
    for repeat in 1..=plan.repeats {
        for workload in &workloads {
            window += 1;
            let others = Background::start(&guests[1..], agent, workload)?;
            host.start::<PcpuCounter>()?;
            host.wait(QUIET, RUN_LIMIT)?;
            let more = ["--all-guests", "--interrupts"];
            let more = if plan.records_wakeups { &more[..] } else { &more[..1] };
            let run = |guest: &Guest| run_one(guest, agent, workload, window, more);
            let came = match others.runs()? {
                true => in_each(first, run),
                false => Ok(Err("what it needs of the other guests did not start".into())),
            };
            if let Some(reports) = all.note(workload, Doing::Running(repeat), came)? {
                let pcpus = Some(host.read::<PcpuCounter>()?);
                let workload = (*workload).clone();
                all.runs.push(Run { workload, repeat, window, reports, pcpus, spent: None });
            }
            host.stop::<PcpuCounter>()?;
            others.stop()?;
            if all.hung.is_some() {
                return Ok(all);
            }
            ran();
        }
    }
    Ok(all)
}

impl Completed {
    /// What came of it; none of what failed, and is told.
    fn note<T>(
        &mut self,
        workload: &PlannedWorkload,
        doing: Doing,
        came: Result<Attempt<T>>,
    ) -> Result<Option<T>> {
        let why = match came {
            Ok(Ok(came)) => return Ok(Some(came)),
            Ok(Err(why)) => why,
            Err(error) => match error.downcast_ref() {
                Some(Failure::TimeLimit { limit, .. }) => {
                    self.hung = Some(workload.workload.clone());
                    format!("it did not end within {} s", limit.as_secs())
                }
                _ => return Err(error),
            },
        };
        self.problems.push(failed(workload, doing, why));
        Ok(None)
    }
}

pub(super) fn failed(workload: &PlannedWorkload, doing: Doing, why: String) -> Fault {
    let workload = workload.workload.clone();
    Fault::Workload { workload, doing, why }
}

/// Lets a run's workload run once more, and says what its guests' kernels decided at idle entry.
/// Its window is not for counting exits: the probes take time.
pub fn idle_entries(
    guests: &[Guest],
    agent: &str,
    run: &Run,
) -> Result<Result<(String, IdleEntries), Fault>> {
    let workload = &run.workload;
    let again = |guest: &Guest| run_one(guest, agent, workload, 0, &["--idle-entries"]);
    let reports = match in_each(guests, again)? {
        Ok(reports) => reports,
        Err(why) => return Ok(Err(failed(workload, Doing::CountingIdleEntries, why))),
    };
    let mut sum = IdleEntries::default();
    for entries in reports.into_iter().filter_map(|report| report.idle_entries) {
        sum.add(entries);
    }
    Ok(Ok((workload.workload.clone(), sum)))
}

/// Lets a run's workload run once more, and says how its guests' vCPUs halted meanwhile.  To record
/// takes time, too.
pub fn halts(
    host: &Host,
    guests: &[Guest],
    agent: &str,
    run: &Run,
) -> Result<Result<(String, RunHalts), Fault>> {
    let workload = &run.workload;
    host.start::<HaltRecorder>()?;
    let again = |guest: &Guest| run_one(guest, agent, workload, 0, &[]);
    let ran = in_each(guests, again)?;
    let halts = host.read::<HaltRecorder>();
    host.stop::<HaltRecorder>()?;
    Ok(match (ran, halts) {
        (Ok(_), Ok(halts)) => Ok((workload.workload.clone(), RunHalts::of(&halts))),
        (Err(why), _) => Err(failed(workload, Doing::RecordingHalts, why)),
        (_, Err(why)) => Err(failed(workload, Doing::RecordingHalts, format!("{why:#}"))),
    })
}

/// How long a workload that is not idle is recorded.
const BUSY: Duration = Duration::from_millis(1000);
/// So long before the window a load is started: its program has to be read first.
const STARTS: Duration = Duration::from_secs(1);

/// Records what wakes a guest while a workload runs in it once more; of `idle` nothing runs.
pub fn woken(
    host: &Host,
    guest: &Guest,
    agent: &str,
    workload: &PlannedWorkload,
) -> Result<Result<Woken, Fault>> {
    let idle = workload.workload == "idle";
    let time = if idle { Duration::from_millis(workload.work) } else { BUSY };
    let begin = wakeups::BEFORE.saturating_sub(STARTS).as_secs_f64();
    let script = format!(
        "sleep {begin}; exec {agent} workload {} --work 1000000 --window 0",
        workloads::agents_name(&workload.workload)
    );
    let command = ["sh", "-c", &script].map(String::from);
    let command = if idle { &[][..] } else { &command[..] };
    let sides = Sides::BOTH;
    let load = Load { command, ..Load::default() };
    let recorded = wakeups::record(host, guest, sides, time, load, RUN_LIMIT);
    host.stop::<NoiseRecorder>()?;
    guest.stop::<TimerRecorder>()?;
    Ok(match recorded {
        Ok(Recorded { host: Some(host), guest: Some(seen), .. }) => {
            Ok(Woken::of(&seen, &host, guest.pid()))
        }
        Ok(_) => Err(failed(workload, Doing::RecordingWakeups, "a side is missing".into())),
        Err(why) => Err(failed(workload, Doing::RecordingWakeups, format!("{why:#}"))),
    })
}

/// Lets a run's workload run on the host itself, on as many pCPUs, and says for how long it took,
/// in ns.  None: there is no way to do that.
pub fn native(
    host: &Host,
    agent: &str,
    vcpus: u32,
    run: &Run,
) -> Result<Option<Result<(String, u64), Fault>>> {
    let workload = &run.workload;
    // A host has not the disk of its guests, and no program's folder.
    if workload.program.is_some() || workload.workload == "block" {
        return Ok(None);
    }
    let (work, cpus) = (workload.work.to_string(), format!("1-{vcpus}"));
    let name = workloads::agents_name(&workload.workload);
    let argv = ["taskset", "-c", &cpus, agent, "workload", name, "--work", &work, "--window", "0"];
    let result = host.exec(exec(argv, workload))?;
    let report = checked(&result)
        .and_then(|result| sample::report(&result.stdout).map_err(|error| format!("{error:#}")));
    Ok(Some(match report {
        Ok(report) => Ok((workload.workload.clone(), report.duration_ns)),
        Err(why) => Err(failed(workload, Doing::RunningNatively, why)),
    }))
}

/// What a guest said; the text is why its workload failed.
pub(super) type Attempt<T> = std::result::Result<T, String>;

pub(super) fn in_each<T: Send>(
    guests: &[Guest],
    what: impl Fn(&Guest) -> Result<Attempt<T>> + Sync,
) -> Result<Attempt<Vec<T>>> {
    thread::scope(|scope| {
        let what = &what;
        let running: Vec<_> = guests.iter().map(|guest| scope.spawn(move || what(guest))).collect();
        let said = running.into_iter().map(|guest| match guest.join() {
            Ok(said) => said,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        // All are waited for, whatever the first says.
        let said: Vec<_> = said.collect();
        said.into_iter().collect()
    })
}

/// What makes a program's folder with its input, and brings all the files that it needs into
/// memory.  `has_io`: the guest has found out by a run which those of fio are.
fn preparation(
    workload: &PlannedWorkload,
    agent: &str,
    prepared: &Prepared,
    has_io: bool,
) -> Option<Vec<String>> {
    let program = workload.program.as_ref()?;
    let folder = folder(workload);
    if let Some(argv) = prepared.preparation(program, agent, &folder) {
        return Some(argv);
    }
    let script = match program.in_place || has_io && programs::is_io(workload) {
        true => "true".into(),
        // On a guest without its peer, as on the machine.
        false if program.server.is_some() => {
            programs::preparation(&programs::on_the_machine(workload)?, agent)
        }
        false => programs::preparation(program, agent),
    };
    let script = format!("mkdir -p {folder} && cd {folder} && {{ {script}\n}}");
    Some(vec!["sh".into(), "-c".into(), script])
}

fn prepare(
    guest: &Guest,
    workload: &PlannedWorkload,
    argv: Option<&[String]>,
) -> Result<Attempt<()>> {
    let Some(argv) = argv else { return Ok(Ok(())) };
    let result = guest.exec(exec(argv.iter().map(String::as_str), workload))?;
    Ok(checked(&result).map(drop))
}

fn run_one(
    guest: &Guest,
    agent: &str,
    workload: &PlannedWorkload,
    window: u32,
    more: &[&str],
) -> Result<Attempt<Report>> {
    let (work, window) = (workload.work.to_string(), window.to_string());
    let name = match &workload.program {
        None => workloads::agents_name(&workload.workload),
        Some(_) => "program",
    };
    let mut argv = vec![agent, "workload", name, "--work", &work, "--window", &window];
    argv.extend(more);
    if let Some(program) = &workload.program {
        if !program.in_place {
            argv.extend(["--root", programs::ROOT]);
        }
        argv.extend(["--", "sh", "-c", &program.command]);
    }
    let result = guest.exec(exec(argv, workload))?;
    Ok(checked(&result)
        .and_then(|result| sample::report(&result.stdout).map_err(|error| format!("{error:#}"))))
}

fn exec<'a>(argv: impl IntoIterator<Item = &'a str>, workload: &PlannedWorkload) -> Exec {
    let mut exec = Exec::new(argv).timeout(RUN_LIMIT);
    if workload.program.is_some() {
        exec.cwd = folder(workload).into();
        exec.env.push(("DIR".into(), folder(workload)));
    }
    exec
}

fn checked(result: &ExecResult) -> Attempt<&ExecResult> {
    if result.code == 0 {
        return Ok(result);
    }
    let said = String::from_utf8_lossy(&result.stderr);
    Err(format!("it ended with code {}: {}", result.code, said.trim()))
}
