// SPDX-License-Identifier: GPL-2.0-only
//! Records every exit of every vCPU of this host: for how long the guest was away, and where that
//! time went.  Stock kernels can be recorded.
//!
//! bpf/noise.bpf.c makes a record of each; [`gather`] makes absences of the records.

mod gather;
mod program;
mod raw;

use crate::{
    bpf::{self, Records},
    clock, tsc_offsets, Instrument,
};
use anyhow::Result;
use gather::gather;
use paratick_core::noise::{Clock, HostNoise, Instant};
use program::Programs;
use raw::{Absence, NOISE_EXITS, NOISE_LOST};

pub struct NoiseRecorder {
    programs: Programs,
    begun: Instant,
    records: Records<Absence>,
}

impl Instrument for NoiseRecorder {
    const NAME: &'static str = "noise";
    type Reading = HostNoise;

    fn start() -> Result<NoiseRecorder> {
        let mut programs = Programs::load()?;
        let records = Records::of(&mut programs.ebpf)?;
        Ok(NoiseRecorder { programs, begun: clock::with_tsc(), records })
    }

    /// All exits since the start after which the guest was entered again.
    ///
    /// Fails if one could not be recorded: what it took would be missing from the noise.
    fn read(&mut self) -> Result<HostNoise> {
        // In this order: what ends in between is one more record.
        let exits = bpf::state(&self.programs.ebpf, NOISE_EXITS)?;
        self.drain()?;
        bpf::check_lost(
            &self.programs.ebpf,
            NOISE_LOST,
            "exits",
            "record for a shorter time, or fewer guests",
        )?;
        Ok(HostNoise {
            clock: Clock { begin: self.begun, end: clock::with_tsc() },
            tsc_offsets: tsc_offsets::read(),
            exits,
            vmm_end_unknown: !self.programs.sees_run,
            absences: self.records.taken().iter().map(gather).collect::<Result<_>>()?,
        })
    }
}

impl NoiseRecorder {
    /// As [`Records::drain`].
    pub fn drain(&mut self) -> Result<()> {
        self.records.drain()
    }
}

#[cfg(test)]
mod tests;
