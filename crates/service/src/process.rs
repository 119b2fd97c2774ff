// SPDX-License-Identifier: GPL-2.0-only
//! Processes that must not outlive us: emulators, on the machine and on the host.

use crate::lock;
use anyhow::{Context, Result};
use rustix::process::{kill_process, kill_process_group, Pid, Signal};
use std::{
    collections::BTreeSet,
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus},
    sync::{mpsc, Arc, Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

/// Every process group started here that still runs.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// A process in its own group, which ends with us: when this is dropped, when
/// [`end_all`] is called, and, by its parent-death signal, when we are killed.
pub struct Kept {
    pid: u32,
    status: Arc<(Mutex<Option<ExitStatus>>, Condvar)>,
}

impl Kept {
    /// Starts `command`.  `started` gets the child (for its pipes) before it is waited for,
    /// `ended` runs once it is gone.
    pub fn spawn(
        command: Command,
        cpus: Option<Vec<u32>>,
        started: impl FnOnce(&mut Child) + Send + 'static,
        ended: impl FnOnce(ExitStatus) + Send + 'static,
    ) -> Result<Kept> {
        let name = command.get_program().to_string_lossy().into_owned();
        let status = Arc::new((Mutex::new(None), Condvar::new()));
        let (report, reported) = mpsc::channel();
        let shared = status.clone();
        // The parent-death signal comes when the *thread* that forked ends, so the thread that
        // starts the process is the one that waits for it.
        thread::Builder::new()
            .name("keeper".into())
            .spawn(move || keep(command, cpus, started, ended, &shared, &report))
            .context("starting a thread")?;
        let pid = reported
            .recv()
            .context("the keeper of a process ended")?
            .with_context(|| format!("starting {name}"))?;
        Ok(Kept { pid, status })
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn has_ended(&self) -> bool {
        lock(&self.status.0).is_some()
    }

    /// Asks it to end, and ends it if it has not after `grace`.
    pub fn stop(&self, grace: Duration) {
        if grace > Duration::ZERO {
            signal_group(self.pid, Signal::TERM);
            if self.wait_for(grace) {
                return;
            }
        }
        signal_group(self.pid, Signal::KILL);
        self.wait_for(Duration::from_secs(5));
    }

    /// Whether it ended within `limit`.
    pub fn wait_for(&self, limit: Duration) -> bool {
        let (status, changed) = &*self.status;
        let status = lock(status);
        let (status, _) = changed
            .wait_timeout_while(status, limit, |status| status.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        status.is_some()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.stop(Duration::ZERO);
        }
    }
}

/// Kills whatever is still running: the last act before leaving by a signal.
pub fn end_all() {
    for pid in lock(&RUNNING).iter() {
        signal_group(*pid, Signal::KILL);
    }
}

fn keep(
    mut command: Command,
    cpus: Option<Vec<u32>>,
    started: impl FnOnce(&mut Child),
    ended: impl FnOnce(ExitStatus),
    status: &(Mutex<Option<ExitStatus>>, Condvar),
    report: &mpsc::Sender<std::io::Result<u32>>,
) {
    if let Some(cpus) = cpus {
        // The child inherits this; failing to place it is no reason not to run it.
        let _ = pin_thread(None, &cpus);
    }
    command.process_group(0);
    let parent = rustix::process::getpid();
    // SAFETY: between fork and exec only two system calls are made, and nothing is allocated.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have died before the line above.
            if rustix::process::getppid() != Some(parent) {
                return Err(std::io::ErrorKind::BrokenPipe.into());
            }
            Ok(())
        });
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let _ = report.send(Err(error));
            return;
        }
    };
    lock(&RUNNING).insert(child.id());
    started(&mut child);
    let _ = report.send(Ok(child.id()));
    let result = child.wait();
    lock(&RUNNING).remove(&child.id());
    let result = result.unwrap_or_default();
    *lock(&status.0) = Some(result);
    status.1.notify_all();
    ended(result);
}

/// Pins a thread (`None`: the calling one) to these CPUs.
pub fn pin_thread(thread: Option<u32>, cpus: &[u32]) -> std::io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus {
        set.set(*cpu as usize);
    }
    let thread = thread.and_then(|id| Pid::from_raw(id as i32));
    Ok(rustix::thread::sched_setaffinity(thread, &set)?)
}

fn signal_group(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process_group(pid, signal);
        let _ = kill_process(pid, signal);
    }
}
