// SPDX-License-Identifier: GPL-2.0-only
//! The thread that samples: it reads the TSC and does nothing else, until it was away.

use crate::clock::tsc;
use anyhow::{bail, Context, Result};
use rustix::thread::{sched_setaffinity, CpuSet};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    sync::atomic::{AtomicBool, Ordering},
};

/// So often a gap of no length is told at the beginning, to know how long that takes, …
const TRIALS: u32 = 64;
/// … and so often the TSC is read, so that all that it needs is in memory.
const WARM: u64 = 1_000;

/// What one of them has seen of itself; times in ticks of the TSC.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub readings: u64,
    /// From its first reading to its last.
    pub whole: u64,
    /// In all it told of gaps for so long, …
    pub telling: u64,
    /// … and at least for so long each time.
    pub least: u64,
    pub page_faults: u64,
}

/// Samples on one CPU.
pub struct Reader<'a> {
    /// In ticks of the TSC; what is shorter is no gap.
    pub threshold: u64,
    /// The BPF program that keeps a gap.
    pub program: BorrowedFd<'a>,
    pub stop: &'a AtomicBool,
}

impl Reader<'_> {
    /// `ready` is called as soon as it is known that it can sample there.
    pub fn run(&self, cpu: u32, ready: impl FnOnce()) -> Result<Seen> {
        let mut set = CpuSet::new();
        set.set(cpu as usize);
        sched_setaffinity(None, &set).with_context(|| {
            format!("CPU {cpu} cannot be sampled\nhint: let the cpuset of this process have it")
        })?;
        let mut trial = Seen { least: u64::MAX, ..Seen::default() };
        for _ in 0..TRIALS {
            let now = tsc();
            self.tell(&mut trial, now, now)?;
        }
        self.sample(&mut trial, WARM)?;
        ready();
        let faults = page_faults()?;
        let mut seen = Seen { least: trial.least, ..Seen::default() };
        self.sample(&mut seen, u64::MAX)?;
        seen.page_faults = page_faults()? - faults;
        Ok(seen)
    }

    /// So often at most.
    fn sample(&self, seen: &mut Seen, most: u64) -> Result<()> {
        let begun = tsc();
        let mut last = begun;
        while seen.readings < most && !self.stop.load(Ordering::Relaxed) {
            let now = tsc();
            seen.readings += 1;
            last = match now.wrapping_sub(last) < self.threshold {
                true => now,
                false => self.tell(seen, last, now)?,
            };
        }
        seen.whole = last.wrapping_sub(begun);
        Ok(())
    }

    /// Keeps a gap; when to go on from.  It does not look while it does so.  If that takes too long
    /// for it, there is a gap of what it took longer, in which the kernel may know of something.
    fn tell(&self, seen: &mut Seen, last: u64, now: u64) -> Result<u64> {
        self.keep(last, now.wrapping_sub(last), 0)?;
        let then = tsc();
        let took = then.wrapping_sub(now);
        seen.least = seen.least.min(took);
        let more = took - seen.least;
        if more < self.threshold {
            seen.telling += took;
            return Ok(then);
        }
        self.keep(now.wrapping_add(seen.least), more, seen.least)?;
        let end = tsc();
        seen.telling += seen.least + end.wrapping_sub(then);
        Ok(end)
    }

    fn keep(&self, begin: u64, ticks: u64, told: u64) -> Result<()> {
        run_program(self.program, &[begin, ticks, told])
    }
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
fn run_program(program: BorrowedFd, arguments: &[u64; 3]) -> Result<()> {
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
            "a gap cannot be told to the kernel\n\
             hint: Linux 5.10 or newer is needed",
        );
    }
    Ok(())
}

/// Of this thread.
fn page_faults() -> Result<u64> {
    // SAFETY: plain numbers, for which zeros are as good as any.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: it is as long as the kernel expects.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) } < 0 {
        bail!("its page faults are not known: {}", io::Error::last_os_error());
    }
    Ok((usage.ru_minflt + usage.ru_majflt) as u64)
}
