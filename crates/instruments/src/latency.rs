// SPDX-License-Identifier: GPL-2.0-only
//! Latency of a timer: by the kernel's timerlat, or by a program of ours.

use crate::{
    timerlat::{TimerlatRecorder, WaiterRecorder},
    tracefs::Tracefs,
    Instrument,
};
use anyhow::Result;
use paratick_core::latency::{GuestLatency, Sampler};

/// Whoever waits for the timer, both say the same of each activation.
pub enum LatencyRecorder {
    Timerlat(TimerlatRecorder),
    Program(WaiterRecorder),
}

impl Instrument for LatencyRecorder {
    const NAME: &'static str = "latency";
    type Reading = GuestLatency;

    fn start() -> Result<LatencyRecorder> {
        LatencyRecorder::start_with(None)
    }

    fn drain(&mut self) -> Result<()> {
        match self {
            LatencyRecorder::Timerlat(recorder) => recorder.drain(),
            LatencyRecorder::Program(recorder) => recorder.drain(),
        }
    }

    fn read(&mut self) -> Result<GuestLatency> {
        match self {
            LatencyRecorder::Timerlat(recorder) => recorder.read(),
            LatencyRecorder::Program(recorder) => recorder.read(),
        }
    }
}

impl LatencyRecorder {
    /// None: timerlat where this kernel has it.
    pub fn start_with(sampler: Option<Sampler>) -> Result<LatencyRecorder> {
        let usual = || match Tracefs::open().is_ok_and(|tracefs| TimerlatRecorder::can(&tracefs)) {
            true => Sampler::Timerlat,
            false => Sampler::User,
        };
        Ok(match sampler.unwrap_or_else(usual) {
            Sampler::Timerlat => LatencyRecorder::Timerlat(TimerlatRecorder::start()?),
            Sampler::User => LatencyRecorder::Program(WaiterRecorder::start()?),
        })
    }
}
