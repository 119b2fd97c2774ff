// SPDX-License-Identifier: GPL-2.0-only
//! What the threads of VMs take of this machine's processors: time, and with a PMU cycles and
//! instructions, of host and guest (kernel/events/core.c).

use crate::perf::{self, Event};
use anyhow::{Context, Result};
use std::{
    fs::File,
    io::{self, Read},
    os::fd::OwnedFd,
};

/// Of all threads of some processes, and of those that they start.
///
/// Threads of the kernel's that work for a VM (vhost, kvm-pit) are not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    pub cpu_ns: u64,
    /// None: there is no PMU, or it had not enough counters for all the time.
    pub pmu: Option<Pmu>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pmu {
    pub host_cycles: u64,
    pub guest_cycles: u64,
    pub host_instructions: u64,
    pub guest_instructions: u64,
}

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;
const TASK_CLOCK: u64 = 1;
/// In `flags`: threads that are started later count, too; and what does not.
const INHERIT: u64 = 1 << 1;
const EXCLUDE_HOST: u64 = 1 << 19;
const EXCLUDE_GUEST: u64 = 1 << 20;
/// In `read_format`: for how long it should have counted, and for how long it did.
const TIMES: u64 = 3;

/// Counts from its start on.
pub struct SpentCounter {
    clocks: Vec<OwnedFd>,
    /// In the order of [`Pmu`]'s fields.
    pmu: Option<[Vec<OwnedFd>; 4]>,
}

impl SpentCounter {
    pub fn start(processes: &[u32]) -> Result<SpentCounter> {
        let mut threads = Vec::new();
        for process in processes {
            for thread in fs_err::read_dir(format!("/proc/{process}/task"))? {
                threads.push(thread?.file_name().to_string_lossy().parse()?);
            }
        }
        let open = |kind, config, excluded| -> io::Result<Vec<OwnedFd>> {
            let flags = INHERIT | excluded;
            let event = Event { kind, config, flags, read_format: TIMES };
            let opened = threads.iter().map(|thread| perf::open(event, *thread, -1));
            // A VMM's workers end when they are not needed.
            let is_over = |error: &io::Error| error.raw_os_error() == Some(libc::ESRCH);
            opened.filter(|opened| !opened.as_ref().is_err_and(is_over)).collect()
        };
        let clocks = open(SOFTWARE, TASK_CLOCK, 0)
            .context("the CPU time of VMs cannot be counted\nhint: be root")?;
        let pmu = || -> io::Result<_> {
            Ok([
                open(HARDWARE, CYCLES, EXCLUDE_GUEST)?,
                open(HARDWARE, CYCLES, EXCLUDE_HOST)?,
                open(HARDWARE, INSTRUCTIONS, EXCLUDE_GUEST)?,
                open(HARDWARE, INSTRUCTIONS, EXCLUDE_HOST)?,
            ])
        };
        // A virtual machine has often none.
        Ok(SpentCounter { clocks, pmu: pmu().ok() })
    }

    pub fn has_pmu(&self) -> bool {
        self.pmu.is_some()
    }

    pub fn read(self) -> Result<Spent> {
        let cpu_ns = sum(self.clocks)?.context("a clock that always counts")?;
        let Some([host_cycles, guest_cycles, host_instructions, guest_instructions]) = self.pmu
        else {
            return Ok(Spent { cpu_ns, pmu: None });
        };
        let all = sum(host_cycles)?
            .zip(sum(guest_cycles)?)
            .zip(sum(host_instructions)?.zip(sum(guest_instructions)?));
        let pmu = |((host_cycles, guest_cycles), (host_instructions, guest_instructions))| Pmu {
            host_cycles,
            guest_cycles,
            host_instructions,
            guest_instructions,
        };
        Ok(Spent { cpu_ns, pmu: all.map(pmu) })
    }
}

/// None: one of them did not count for all the time.
fn sum(events: Vec<OwnedFd>) -> Result<Option<u64>> {
    let mut sum = 0;
    for event in events {
        let mut bytes = [0; 24];
        File::from(event).read_exact(&mut bytes)?;
        let [count, enabled, running] =
            [0, 8, 16].map(|at| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes")));
        if running < enabled {
            return Ok(None);
        }
        sum += count;
    }
    Ok(Some(sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{process, thread, time::Instant};

    /// Computes for so long, by this thread's own clock.
    fn compute(ns: u64) {
        let clock = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let ns_of =
            |time: rustix::time::Timespec| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        let begin = ns_of(clock());
        while ns_of(clock()) - begin < ns {}
    }

    #[test]
    fn threads_that_start_and_end_meanwhile_are_in_it() {
        let (mine, begun) = (process::id(), Instant::now());
        let counter = match SpentCounter::start(&[mine]) {
            Ok(counter) => counter,
            // Where who is not root may not count.
            Err(error) => return println!("skipped: {error:#}"),
        };
        let has_pmu = counter.has_pmu();
        thread::scope(|scope| {
            scope.spawn(|| compute(60_000_000));
            compute(40_000_000);
        });
        let most = 4 * begun.elapsed().as_nanos() as u64;
        let spent = counter.read().unwrap();
        assert!((95_000_000..most).contains(&spent.cpu_ns), "{spent:?}");
        // A PMU that others use may be short of counters.
        assert!(has_pmu || spent.pmu.is_none());
        let guest = spent.pmu.map(|pmu| (pmu.guest_cycles, pmu.guest_instructions));
        assert!(guest.is_none_or(|guest| guest == (0, 0)), "{spent:?}");
    }
}
