// SPDX-License-Identifier: GPL-2.0-only
//! Recording the latency of a timer in a guest, and what its host did meanwhile.

/// For whoever lets both samplers run at once.
pub use paratick_instruments::{
    steps::StepRecorder,
    timerlat::{TimerlatRecorder, WaiterRecorder},
};

use crate::{
    here::Here,
    noise::{self, Sides, STEP_LIMIT},
    wakeups::Load,
};
use anyhow::{bail, Result};
use paratick_core::{
    latency::{GuestLatency, HostSteps, Sampler},
    wire::GuestConfig,
};
use paratick_instruments::latency::LatencyRecorder;
use paratick_machine::{exec::Exec, guest::Guest, host::Host, spec::HostSpec};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// At the beginning of a recording: timers that were started earlier have no known owner.
const LEAD: Duration = Duration::from_millis(500);

/// More of it for a command, which is loaded first.
const LOADING: Duration = Duration::from_secs(2);

/// At the end, for what ends the recording itself.
const TAIL: Duration = Duration::from_millis(100);

#[derive(Serialize, Deserialize)]
pub struct Recorded {
    pub host: Option<HostSteps>,
    pub guest: GuestLatency,
    /// The guest's VMM on the host.
    pub process: Option<u32>,
}

/// Lets an emulated host's CPUs not wait for each other, which would be latency.
pub fn quiet(host: &mut HostSpec, guest: &mut GuestConfig) {
    noise::quiet(host, guest, None);
    host.emulation.count_world_switches = false;
}

/// What is to be recorded.
pub struct Wanted<'a> {
    pub sides: Sides,
    /// Who waits for the timer; None: timerlat where the guest's kernel has it.
    pub sampler: Option<Sampler>,
    pub time: Duration,
    /// What runs beside it, if it is not empty.
    pub command: &'a [String],
    /// In wall-clock time.
    pub limit: Duration,
}

/// Lets the sampler run on all CPUs of the guest, beside a command, if there is one.
pub fn record(host: &Host, guest: &Guest, wanted: &Wanted) -> Result<Recorded> {
    let Wanted { sides, sampler, time, command, limit } = *wanted;
    let lead = if command.is_empty() { LEAD } else { LEAD + LOADING };
    let seconds = (lead + time + TAIL).as_secs_f64().to_string();
    if sides.host {
        host.start::<StepRecorder>()?;
    }
    match sampler {
        None => guest.start::<LatencyRecorder>()?,
        Some(Sampler::Timerlat) => guest.start::<TimerlatRecorder>()?,
        Some(Sampler::User) => guest.start::<WaiterRecorder>()?,
    }
    let load = Load { command, ..Load::default() };
    let limit = limit.max(lead + time + STEP_LIMIT);
    let result = guest.exec(Exec::new(load.argv(&seconds)).timeout(limit))?;
    if result.code != 0 {
        let said = String::from_utf8_lossy(&result.stderr);
        bail!("what runs in the guest failed with code {}: {}", result.code, said.trim());
    }
    let latency = match sampler {
        None => guest.read::<LatencyRecorder>(),
        Some(Sampler::Timerlat) => guest.read::<TimerlatRecorder>(),
        Some(Sampler::User) => guest.read::<WaiterRecorder>(),
    };
    let latency = cut(latency?, lead, time);
    let seen = if sides.host { Some(host.read::<StepRecorder>()?) } else { None };
    if let Some(seen) = &seen {
        noise::check_offsets(&seen.tsc_offsets, guest.pid())?;
    }
    Ok(Recorded { host: seen, guest: latency, process: Some(guest.pid()) })
}

/// The same on this machine, in this process, which may be somebody's VM.  It ends early when
/// `leave` says so.
pub fn record_here(
    time: Duration,
    sampler: Option<Sampler>,
    leave: &dyn Fn() -> bool,
) -> Result<Recorded> {
    let guest = LatencyRecorder::start_with(sampler)?;
    let mut here = Here::<StepRecorder, _>::of(None, Some(guest));
    let (_, latency) = here.record(LEAD + time + TAIL, leave)?;
    let latency = latency.expect("latency is recorded");
    Ok(Recorded { host: None, guest: cut(latency, LEAD, time), process: None })
}

fn cut(latency: GuestLatency, lead: Duration, time: Duration) -> GuestLatency {
    latency.cut(lead.as_nanos() as u64, time.as_nanos() as u64)
}
