// SPDX-License-Identifier: GPL-2.0-only
//! Threads of ours on the CPUs of this system, one for each, and how they tell the kernel of what
//! they saw.

use anyhow::{bail, Context, Result};
use aya::{programs::Program, Ebpf};
use rustix::thread::{sched_setaffinity, CpuSet};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc, Arc,
    },
    thread::{self, JoinHandle},
};

/// If this file is there, only the CPUs of its list are sampled, as with `osnoise/cpus`.
pub const CPUS: &str = "/run/paratick-sampled-cpus";
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// One for each CPU; all end when it is dropped.
pub struct Threads<T> {
    stop: Arc<AtomicBool>,
    running: Vec<JoinHandle<Result<T>>>,
}

impl<T> Default for Threads<T> {
    fn default() -> Threads<T> {
        Threads { stop: Arc::default(), running: Vec::new() }
    }
}

impl<T: Send + 'static> Threads<T> {
    /// Returns as soon as `run` calls what it is given, on this CPU; it ends when the other thing
    /// that it is given is true.
    pub fn start(
        &mut self,
        cpu: u32,
        name: String,
        run: impl FnOnce(&AtomicBool, &dyn Fn()) -> Result<T> + Send + 'static,
    ) -> Result<()> {
        let (tell, ready) = mpsc::channel();
        let stop = self.stop.clone();
        let pinned = move || {
            pin(cpu)?;
            run(&stop, &|| _ = tell.send(()))
        };
        self.running.push(thread::Builder::new().name(name).spawn(pinned)?);
        // Else it has ended, and says why.
        if ready.recv().is_err() {
            self.end()?;
        }
        Ok(())
    }

    pub fn end(&mut self) -> Result<Vec<T>> {
        self.stop();
        let ended = self.running.drain(..).map(|thread| match thread.join() {
            Ok(seen) => seen,
            Err(_) => bail!("a thread that samples has panicked"),
        });
        ended.collect()
    }
}

impl<T> Threads<T> {
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl<T> Drop for Threads<T> {
    fn drop(&mut self) {
        self.stop();
        for thread in self.running.drain(..) {
            thread.join().ok();
        }
    }
}

/// This thread, from now on.
fn pin(cpu: u32) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    sched_setaffinity(None, &set).with_context(|| {
        format!("CPU {cpu} cannot be sampled\nhint: let the cpuset of this process have it")
    })
}

/// Those that are to be sampled.
pub fn cpus() -> Result<Vec<u32>> {
    let file = if Path::new(CPUS).exists() { CPUS } else { ONLINE };
    let list = fs_err::read_to_string(file)?;
    in_list(list.trim()).with_context(|| format!("{file} has no list of CPUs: {list:?}"))
}

/// The CPUs of a list such as `0-3,6`.
fn in_list(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

/// The BPF program of a raw tracepoint that nobody calls but a program of ours.
pub fn callable(ebpf: &mut Ebpf, name: &str) -> Result<OwnedFd> {
    let Some(Program::RawTracePoint(program)) = ebpf.program_mut(name) else {
        bail!("there is no program {name} in the object");
    };
    program.load()?;
    Ok(program.fd()?.as_fd().try_clone_to_owned()?)
}

/// The part of union bpf_attr that is for BPF_PROG_TEST_RUN (include/uapi/linux/bpf.h).
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    returned: u32,
    data_sizes: [u32; 2],
    data: [u64; 2],
    repeat: u32,
    duration: u32,
    context_size: u32,
    context_size_out: u32,
    context: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
}

const BPF_PROG_TEST_RUN: u32 = 10;

/// Lets a program of raw tracepoints run, here and now.
pub fn run_program<const N: usize>(program: BorrowedFd, arguments: &[u64; N]) -> Result<()> {
    let mut attributes = TestRun {
        program: program.as_fd().as_raw_fd() as u32,
        context_size: size_of_val(arguments) as u32,
        context: arguments.as_ptr() as u64,
        ..TestRun::default()
    };
    // SAFETY: both are alive until it returns, and the kernel is told how long they are.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_PROG_TEST_RUN,
            &mut attributes as *mut TestRun,
            size_of::<TestRun>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error()).context(
            "a BPF program cannot be run by one of user space\n\
             hint: Linux 5.10 or newer is needed",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_as_the_kernel_writes_them() {
        assert_eq!(in_list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(in_list("3"), Some(vec![3]));
        for wrong in ["", "a", "1-"] {
            assert_eq!(in_list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_thread_that_fails_says_why_and_others_end() {
        let cpu = cpus().unwrap()[0];
        let mut threads = Threads::default();
        let waits = |stop: &AtomicBool, ready: &dyn Fn()| {
            ready();
            while !stop.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            Ok(7)
        };
        threads.start(cpu, "one".into(), waits).unwrap();
        let failed = threads.start(cpu, "other".into(), |_, _| bail!("no"));
        assert_eq!(failed.unwrap_err().to_string(), "no");
        let mut threads = Threads::default();
        threads.start(cpu, "one".into(), waits).unwrap();
        assert_eq!(threads.end().unwrap(), [7]);
        assert!(threads.start(100_000, "nowhere".into(), waits).is_err());
    }
}
