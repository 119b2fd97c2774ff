// SPDX-License-Identifier: GPL-2.0-only
//! Lets the kernel's osnoise tracer run on all CPUs of this system, and records every gap that it
//! finds, with what the kernel knows of it (Documentation/trace/osnoise-tracer.rst).
//!
//! bpf/osnoise.bpf.c makes a record of each; [`gather`] puts them together.

pub(crate) mod gather;
pub(crate) mod program;
pub(crate) mod raw;

use crate::{
    bpf::{self, Records},
    clock,
    tracefs::{Instance, Tracefs},
    Instrument,
};
use anyhow::{Context, Result};
use aya::Ebpf;
use gather::gather;
use paratick_core::noise::{Clock, GuestNoise, Instant};
use raw::{Noise, Parts, OSNOISE_LOST};
use std::{thread, time::Duration};

/// It samples from then on: its threads find no trace at first, and sleep for a period, which is
/// [`FIRST_US`] then.
pub const LEAD: Duration = Duration::from_millis(100);

/// A first period, of `osnoise/period_us` and `osnoise/runtime_us`.
const FIRST_US: u32 = 20_000;

pub struct OsnoiseRecorder {
    // In this order: who samples ends first.
    _tracer: Instance,
    ebpf: Ebpf,
    begun: Instant,
    records: Records<Noise>,
    parts: Records<Parts>,
}

impl Instrument for OsnoiseRecorder {
    const NAME: &'static str = "osnoise";
    type Reading = GuestNoise;

    fn start() -> Result<OsnoiseRecorder> {
        let tracefs = Tracefs::open().context(program::WHAT)?;
        let mut ebpf = program::load(&tracefs)?;
        let records = Records::of(&mut ebpf)?;
        let parts = Records::named(&mut ebpf, "parts")?;
        let tracer = tracefs.instance("osnoise")?;
        // While all traces are off, it sleeps.
        tracer.set("tracing_on", 1)?;
        let begun = {
            let _short = Short::set(&tracefs)?;
            tracer.set("current_tracer", "osnoise").context(
                "the tracer osnoise cannot be started\n\
                 hint: the kernel needs CONFIG_OSNOISE_TRACER, and no other user of it",
            )?;
            // They read for how long they sleep.
            thread::sleep(Duration::from_micros(FIRST_US.into()) / 4);
            clock::with_tsc()
        };
        Ok(OsnoiseRecorder { _tracer: tracer, ebpf, begun, records, parts })
    }

    fn drain(&mut self) -> Result<()> {
        self.records.drain()?;
        self.parts.drain()
    }

    /// All gaps from [`LEAD`] after the start on.
    ///
    /// Fails if one could not be recorded.
    fn read(&mut self) -> Result<GuestNoise> {
        self.drain()?;
        bpf::check_lost(&self.ebpf, OSNOISE_LOST, "disturbances", "record for a shorter time")?;
        let clock = Clock { begin: self.begun, end: clock::with_tsc() };
        let noise = GuestNoise {
            clock,
            begin_ns: self.begun.ns + LEAD.as_nanos() as u64,
            end_ns: clock.end.ns,
            program: None,
            gaps: gather(self.records.taken(), self.parts.taken()),
        };
        Ok(noise.cut(0, u64::MAX))
    }
}

/// Short periods, until it is dropped.  Neither file may be set beyond the other one.
struct Short<'a> {
    tracefs: &'a Tracefs,
    before: [String; 2],
}

impl Short<'_> {
    const FILES: [&'static str; 2] = ["osnoise/runtime_us", "osnoise/period_us"];

    fn set(tracefs: &Tracefs) -> Result<Short<'_>> {
        let [runtime, period] = Short::FILES.map(|file| tracefs.read(file));
        let short = Short { tracefs, before: [runtime?, period?] };
        short.put(&[FIRST_US, FIRST_US].map(|us| us.to_string()))?;
        Ok(short)
    }

    fn put(&self, [run, period]: &[String; 2]) -> Result<()> {
        let [run_file, period_file] = Short::FILES;
        // It may be more than the period yet.
        drop(self.tracefs.set(run_file, run));
        self.tracefs.set(period_file, period)?;
        self.tracefs.set(run_file, run)
    }
}

impl Drop for Short<'_> {
    fn drop(&mut self) {
        // Nobody can be told here; it samples all the same.
        drop(self.put(&self.before));
    }
}

impl OsnoiseRecorder {
    /// Whether this kernel has the tracer.
    pub(crate) fn can(tracefs: &Tracefs) -> bool {
        program::is_there(tracefs)
    }
}

#[cfg(test)]
mod tests;
