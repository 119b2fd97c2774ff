// SPDX-License-Identifier: GPL-2.0-only
//! Records what wakes the CPUs of this system: interrupts, timers with who started them, works,
//! and tasks that wake others.  Stock kernels can be recorded.
//!
//! bpf/timers.bpf.c makes a record of each; [`gather`] gives them names.

mod gather;
mod program;
mod raw;
mod units;

use crate::{
    bpf::{self, Records},
    clock,
    symbols::Symbols,
    Instrument,
};
use anyhow::{Context, Result};
use aya::{maps::StackTraceMap, Ebpf};
use gather::{gather, jiffies, start, Starts};
use paratick_core::{
    noise::{Clock, Instant},
    wakeups::GuestWakeups,
};
use raw::{Wake, TIMERS_LOST};
use std::collections::BTreeSet;

/// A parameter of the kernel's.
const DAMON_STAT: &str = "/sys/module/damon_stat/parameters/enabled";

pub struct TimerRecorder {
    ebpf: Ebpf,
    begun: Instant,
    records: Records<Wake>,
}

impl Instrument for TimerRecorder {
    const NAME: &'static str = "timers";
    type Reading = GuestWakeups;

    fn start() -> Result<TimerRecorder> {
        let mut ebpf = program::load()?;
        let records = Records::of(&mut ebpf)?;
        Ok(TimerRecorder { ebpf, begun: clock::with_tsc(), records })
    }

    fn restart(mut self) -> Result<TimerRecorder> {
        self.records.forget()?;
        self.begun = clock::with_tsc();
        Ok(self)
    }

    fn drain(&mut self) -> Result<()> {
        self.records.drain()
    }

    /// Fails if something could not be recorded: a wake-up would have the wrong cause.
    fn read(&mut self) -> Result<GuestWakeups> {
        self.drain()?;
        bpf::check_lost(&self.ebpf, TIMERS_LOST, "wake-ups", "record for a shorter time")?;
        let clock = Clock { begin: self.begun, end: clock::with_tsc() };
        let symbols = Symbols::read()?;
        let cpus = fs_err::read_to_string("/proc/stat")?;
        let online: Vec<u32> = cpus
            .lines()
            .filter_map(|line| line.strip_prefix("cpu")?.split(' ').next()?.parse().ok())
            .collect();
        let mut events = gather(self.records.taken(), &self.starts(&symbols)?, &symbols);
        units::name(&mut events);
        Ok(GuestWakeups {
            clock,
            begin_ns: clock.begin.ns,
            end_ns: clock.end.ns,
            cpus: online.len() as u32,
            online,
            jiffies: jiffies(self.records.taken()),
            damon_stat: std::fs::read_to_string(DAMON_STAT).is_ok_and(|on| on.trim() == "Y"),
            events,
        })
    }
}

impl TimerRecorder {
    /// Of each stack in the records.  One that the kernel had no room for is in none.
    fn starts(&self, symbols: &Symbols) -> Result<Starts> {
        let stacks =
            StackTraceMap::try_from(self.ebpf.map("stacks").context("no BPF map stacks")?)?;
        let mut starts = Starts::new();
        let numbers: BTreeSet<u32> = self.records.taken().iter().map(|one| one.stack).collect();
        for number in numbers.into_iter().filter(|number| *number > 0) {
            let calls: Vec<u64> =
                stacks.get(&(number - 1), 0)?.frames().iter().map(|frame| frame.ip).collect();
            if let Some(site) = start(&calls, symbols) {
                starts.insert(number, site);
            }
        }
        Ok(starts)
    }
}

#[cfg(test)]
mod tests;
