// SPDX-License-Identifier: GPL-2.0-only
//! Busy vCPUs, and how many ticks the guest itself saw meanwhile.

use super::{compute::microsecond, measure::busy_in_threads, options::Options};
use anyhow::{Context, Result};
use paratick_core::workload::Report;
use rustix::time::{clock_getres, clock_gettime, ClockId};
use std::{collections::BTreeMap, time::Instant};

/// Lines of /proc/interrupts: the local timer's, and that of virtual ticks (patched guests only).
const LOCAL_TIMER: &str = "LOC";
const VIRTUAL_TICK: &str = "VTK";

pub fn run(options: &Options) -> Result<Report> {
    // The first reading of a clock looks for the kernel's own code for it: not inside the window.
    clock(ClockId::Monotonic);
    let mut coarse = Coarse::default();
    let mut received = Received::default();
    let spin = || {
        let begin = Instant::now();
        while begin.elapsed().as_millis() < options.work.into() {
            microsecond();
        }
    };
    let mut measured = busy_in_threads(options, spin, || {
        received.during(|| coarse.watch(options.work))?;
        Ok(options.work)
    })?;
    let more = &mut measured.more;
    received.report(more);
    more.insert("hz".into(), hz()?.into());
    more.insert("jiffies_steps".into(), coarse.steps.into());
    more.insert("jiffies".into(), coarse.jiffies()?.into());
    more.insert("max_lag_ns".into(), coarse.max_lag_ns.into());
    Ok(measured)
}

/// Timer interrupts and virtual ticks that the guest took, for each of its CPUs.
#[derive(Default)]
pub struct Received {
    before: String,
    after: String,
}

impl Received {
    /// To be called inside the window: outside it the guest idles, with ticks of another kind.
    pub fn during<T>(&mut self, work: impl FnOnce() -> T) -> Result<T> {
        self.before = interrupts()?;
        let result = work();
        self.after = interrupts()?;
        Ok(result)
    }

    pub fn report(&self, more: &mut BTreeMap<String, serde_json::Value>) {
        more.insert("local_timer".into(), self.difference(LOCAL_TIMER).into());
        more.insert("virtual_ticks".into(), self.difference(VIRTUAL_TICK).into());
    }

    fn difference(&self, line: &str) -> Option<Vec<u64>> {
        let (before, after) = (counts(&self.before, line)?, counts(&self.after, line)?);
        Some(after.iter().zip(&before).map(|(a, b)| a - b).collect())
    }
}

/// The guest's time as jiffies keep it: it moves only when a tick is handled.
#[derive(Default)]
struct Coarse {
    first_ns: u64,
    last_ns: u64,
    steps: u64,
    max_lag_ns: u64,
}

impl Coarse {
    fn watch(&mut self, ms: u64) {
        let end = clock(ClockId::Monotonic) + ms * 1_000_000;
        self.first_ns = clock(ClockId::MonotonicCoarse);
        self.last_ns = self.first_ns;
        loop {
            let coarse = clock(ClockId::MonotonicCoarse);
            let now = clock(ClockId::Monotonic);
            self.steps += u64::from(coarse != self.last_ns);
            self.last_ns = coarse;
            self.max_lag_ns = self.max_lag_ns.max(now.saturating_sub(coarse));
            if now >= end {
                return;
            }
            microsecond();
        }
    }

    /// By how many ticks the guest's time moved on.
    fn jiffies(&self) -> Result<u64> {
        let period = 1_000_000_000 / hz()?;
        Ok((self.last_ns - self.first_ns + period / 2) / period)
    }
}

/// Ticks per second of this kernel: the coarse clocks advance with them.
pub fn hz() -> Result<u64> {
    1_000_000_000u64
        .checked_div(clock_getres(ClockId::MonotonicCoarse).tv_nsec as u64)
        .context("CLOCK_MONOTONIC_COARSE has no resolution")
}

fn clock(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn interrupts() -> Result<String> {
    Ok(fs_err::read_to_string("/proc/interrupts")?)
}

/// A line's count for each CPU; `None` if there is no such line.
fn counts(interrupts: &str, name: &str) -> Option<Vec<u64>> {
    let line = interrupts
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERRUPTS: &str = "            CPU0       CPU1\n\
        \x20 0:         28          0   IO-APIC   2-edge      timer\n\
        LOC:       1234        567   Local timer interrupts\n";

    #[test]
    fn counts_are_read_per_cpu_and_a_missing_line_is_none() {
        assert_eq!(counts(INTERRUPTS, LOCAL_TIMER), Some(vec![1234, 567]));
        assert_eq!(counts(INTERRUPTS, VIRTUAL_TICK), None);
    }
}
