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
use std::time::Duration;

/// It samples from then on: its threads find no trace at first, and sleep for a period
/// (`osnoise/period_us`).
pub const LEAD: Duration = Duration::from_millis(1_050);

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
        tracer.set("current_tracer", "osnoise").context(
            "the tracer osnoise cannot be started\n\
             hint: the kernel needs CONFIG_OSNOISE_TRACER, and no other user of it",
        )?;
        let begun = clock::with_tsc();
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

impl OsnoiseRecorder {
    /// Whether this kernel has the tracer.
    pub(crate) fn can(tracefs: &Tracefs) -> bool {
        program::is_there(tracefs)
    }
}

#[cfg(test)]
mod tests;
