// SPDX-License-Identifier: GPL-2.0-only
//! The thread that samples: it reads the TSC and does nothing else, until it was away.

use crate::{clock::tsc, pinned::run_program};
use anyhow::{bail, Context, Result};
use std::{
    io,
    os::fd::BorrowedFd,
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

/// Samples on its CPU.
pub struct Reader<'a> {
    /// In ticks of the TSC; what is shorter is no gap.
    pub threshold: u64,
    /// The BPF program that keeps a gap.
    pub program: BorrowedFd<'a>,
    pub stop: &'a AtomicBool,
}

impl Reader<'_> {
    /// `ready` is called as soon as it is known that it can sample there.
    pub fn run(&self, ready: &dyn Fn()) -> Result<Seen> {
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
        run_program(self.program, &[begin, ticks, told]).context("a gap cannot be told")
    }
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
