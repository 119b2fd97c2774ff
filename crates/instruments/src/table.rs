// SPDX-License-Identifier: GPL-2.0-only
//! All instruments by their names, and those that run.

use crate::{
    cycle::Cycle,
    exits::ExitCounter,
    gaps::GapRecorder,
    halts::HaltRecorder,
    idle::IdleCounter,
    latency::LatencyRecorder,
    noise::NoiseRecorder,
    osnoise::OsnoiseRecorder,
    pcpus::PcpuCounter,
    polls::PollRecorder,
    sampler::ProgramRecorder,
    steps::StepRecorder,
    timerlat::{TimerlatRecorder, WaiterRecorder},
    timers::TimerRecorder,
    vcpus::VcpuCounter,
    Instrument,
};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;

const TABLE: [(&str, Start); 16] = [
    row::<ExitCounter>(),
    row::<Cycle>(),
    row::<GapRecorder>(),
    row::<IdleCounter>(),
    row::<HaltRecorder>(),
    row::<LatencyRecorder>(),
    row::<NoiseRecorder>(),
    row::<OsnoiseRecorder>(),
    row::<PcpuCounter>(),
    row::<PollRecorder>(),
    row::<ProgramRecorder>(),
    row::<StepRecorder>(),
    row::<TimerlatRecorder>(),
    row::<TimerRecorder>(),
    row::<VcpuCounter>(),
    row::<WaiterRecorder>(),
];

type Start = fn() -> Result<Box<dyn Running>>;

const fn row<I: Instrument>() -> (&'static str, Start) {
    (I::NAME, || Ok(Box::new(I::start()?)))
}

trait Running: Send {
    fn restart(self: Box<Self>) -> Result<Box<dyn Running>>;
    fn read(&mut self) -> Result<Value>;
}

impl<I: Instrument> Running for I {
    fn restart(self: Box<Self>) -> Result<Box<dyn Running>> {
        Ok(Box::new(I::restart(*self)?))
    }

    fn read(&mut self) -> Result<Value> {
        Ok(serde_json::to_value(I::read(self)?)?)
    }
}

#[derive(Default)]
pub struct Instruments(BTreeMap<&'static str, Box<dyn Running>>);

impl Instruments {
    pub fn start(&mut self, name: &str) -> Result<()> {
        let known = TABLE.iter().find(|(known, _)| *known == name);
        let (name, start) = known.with_context(|| format!("no instrument '{name}'"))?;
        let running = match self.0.remove(name) {
            Some(running) => running.restart(),
            None => start(),
        };
        self.0.insert(name, running?);
        Ok(())
    }

    pub fn stop(&mut self, name: &str) {
        self.0.remove(name);
    }

    pub fn read(&mut self, name: &str) -> Result<Value> {
        let running = self.0.get_mut(name);
        running.with_context(|| format!("instrument '{name}' was not started"))?.read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruments_have_different_names() {
        let names: std::collections::BTreeSet<_> = TABLE.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), TABLE.len());
    }

    #[test]
    fn what_was_not_started_is_not_read() {
        let mut instruments = Instruments::default();
        assert!(instruments.start("weather").is_err());
        let error = instruments.read("exits").unwrap_err().to_string();
        assert!(error.contains("'exits'"), "{error}");
    }
}
