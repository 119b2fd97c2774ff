// SPDX-License-Identifier: GPL-2.0-only
//! Gaps of a busy CPU: from the kernel's osnoise, or from a program of ours.

use crate::{osnoise::OsnoiseRecorder, sampler::ProgramRecorder, tracefs::Tracefs, Instrument};
use anyhow::Result;
use paratick_core::noise::{GuestNoise, Sampler};

/// Whoever samples, both say the same of each gap.
pub enum GapRecorder {
    Osnoise(OsnoiseRecorder),
    Program(ProgramRecorder),
}

impl Instrument for GapRecorder {
    const NAME: &'static str = "gaps";
    type Reading = GuestNoise;

    fn start() -> Result<GapRecorder> {
        GapRecorder::start_with(None)
    }

    fn restart(self) -> Result<GapRecorder> {
        Ok(match self {
            GapRecorder::Osnoise(recorder) => GapRecorder::Osnoise(recorder.restart()?),
            GapRecorder::Program(recorder) => GapRecorder::Program(recorder.restart()?),
        })
    }

    fn drain(&mut self) -> Result<()> {
        match self {
            GapRecorder::Osnoise(recorder) => recorder.drain(),
            GapRecorder::Program(recorder) => recorder.drain(),
        }
    }

    fn read(&mut self) -> Result<GuestNoise> {
        match self {
            GapRecorder::Osnoise(recorder) => recorder.read(),
            GapRecorder::Program(recorder) => recorder.read(),
        }
    }
}

impl GapRecorder {
    /// None: osnoise where this kernel has it.
    pub fn start_with(sampler: Option<Sampler>) -> Result<GapRecorder> {
        let usual = || match Tracefs::open().is_ok_and(|tracefs| OsnoiseRecorder::can(&tracefs)) {
            true => Sampler::Osnoise,
            false => Sampler::User,
        };
        Ok(match sampler.unwrap_or_else(usual) {
            Sampler::Osnoise => GapRecorder::Osnoise(OsnoiseRecorder::start()?),
            Sampler::User => GapRecorder::Program(ProgramRecorder::start()?),
        })
    }
}
