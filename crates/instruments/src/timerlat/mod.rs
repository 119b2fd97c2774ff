// SPDX-License-Identifier: GPL-2.0-only
//! Lets the kernel's timerlat tracer run on all CPUs of this system, and records each of its
//! activations, with the interrupt that began it (Documentation/trace/timerlat-tracer.rst).
//!
//! bpf/timerlat.bpf.c makes a record of each expiry; what timerlat measured is in its own trace,
//! and [`gather`] puts both together.  Where a kernel has no such tracer, a [`program`](waiter)
//! waits in its place.

mod gather;
mod program;
mod raw;
mod waiter;

pub use waiter::WaiterRecorder;

use crate::{
    bpf::{self, Records},
    clock,
    tracefs::{Instance, Tracefs},
    Instrument,
};
use anyhow::{bail, Context, Result};
use aya::Ebpf;
use gather::gather;
use paratick_core::{
    latency::{GuestLatency, Sampler},
    noise::{Clock, Instant},
};
use raw::{Expiry, TIMERLAT_LOST};

/// For each CPU: room for more than a minute.
const BUFFER_KB: u32 = 4096;

pub struct TimerlatRecorder {
    tracer: Instance,
    ebpf: Ebpf,
    begun: Instant,
    records: Records<Expiry>,
}

impl Instrument for TimerlatRecorder {
    const NAME: &'static str = "timerlat";
    type Reading = GuestLatency;

    fn start() -> Result<TimerlatRecorder> {
        let tracefs = Tracefs::open().context(program::WHAT)?;
        let mut ebpf = program::for_tracer(&tracefs)?;
        let records = Records::of(&mut ebpf)?;
        let tracer = tracefs.instance("timerlat")?;
        tracer.set("buffer_size_kb", BUFFER_KB)?;
        tracer.set("tracing_on", 1)?;
        tracer.set("current_tracer", "timerlat").context(
            "the tracer timerlat cannot be started\n\
             hint: the kernel needs CONFIG_TIMERLAT_TRACER, and no other user of it or of osnoise",
        )?;
        Ok(TimerlatRecorder { tracer, ebpf, begun: clock::with_tsc(), records })
    }

    fn drain(&mut self) -> Result<()> {
        self.records.drain()
    }

    /// All activations that have ended since the start.
    ///
    /// Fails if one could not be recorded.
    fn read(&mut self) -> Result<GuestLatency> {
        const HINT: &str = "record for a shorter time";
        // What expires from now on is in neither.
        self.tracer.set("tracing_on", 0)?;
        let lost = overruns(&self.tracer.stats()?);
        if lost > 0 {
            bail!("timerlat's trace had no room for {lost} of its numbers\nhint: {HINT}");
        }
        let trace = self.tracer.trace()?;
        self.drain()?;
        bpf::check_lost(&self.ebpf, TIMERLAT_LOST, "expiries", HINT)?;
        let clock = Clock { begin: self.begun, end: clock::with_tsc() };
        Ok(GuestLatency {
            sampler: Sampler::Timerlat,
            clock,
            begin_ns: self.begun.ns,
            end_ns: clock.end.ns,
            activations: gather(self.records.taken(), &trace)?,
            unseen: Vec::new(),
        })
    }
}

impl TimerlatRecorder {
    /// Whether this kernel has the tracer.
    pub(crate) fn can(tracefs: &Tracefs) -> bool {
        tracefs.has_tracer(Self::NAME)
    }
}

/// How much of a trace was written over, by `stats` of all CPUs.
fn overruns(stats: &str) -> u64 {
    let of = |line: &str| line.strip_prefix("overrun: ")?.trim().parse::<u64>().ok();
    stats.lines().filter_map(of).sum()
}

#[cfg(test)]
mod tests;
