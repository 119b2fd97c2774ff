// SPDX-License-Identifier: GPL-2.0-only
//! Recording the noise of a host's guests, from both sides.

use anyhow::{bail, Result};
use paratick_core::noise::{GuestNoise, HostNoise};
use paratick_instruments::{noise::NoiseRecorder, osnoise::OsnoiseRecorder};
use paratick_machine::{exec::Exec, guest::Guest, host::Host};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Wall-clock limit of what takes no time.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// Which sides look; an operator has no guest, and a tenant no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides {
    pub host: bool,
    pub guest: bool,
}

/// What was seen by each side that looked.
#[derive(Serialize, Deserialize)]
pub struct Recorded {
    pub host: Option<HostNoise>,
    pub guest: Option<GuestNoise>,
    /// The guest's VMM on the host.
    pub process: Option<u32>,
}

/// Lets osnoise run on all CPUs of the guest for `time`, and records what disturbs it.  Where there
/// is no guest of ours, the host is itself the guest of somebody.
///
/// `limit` is in wall-clock time.
pub fn record(
    host: &Host,
    guest: Option<&Guest>,
    sides: Sides,
    time: Duration,
    limit: Duration,
) -> Result<Recorded> {
    if sides.host {
        host.start::<NoiseRecorder>()?;
    }
    match guest {
        _ if !sides.guest => {}
        Some(guest) => guest.start::<OsnoiseRecorder>()?,
        None => host.start::<OsnoiseRecorder>()?,
    }
    let seconds = time.as_secs_f64().to_string();
    let wait = Exec::new(["sleep", &seconds]).timeout(limit.max(time + STEP_LIMIT));
    let result = match guest {
        Some(guest) => guest.exec(wait)?,
        None => host.exec(wait)?,
    };
    if result.code != 0 {
        bail!("waiting failed: {}", String::from_utf8_lossy(&result.stderr).trim());
    }
    let sampled = match guest {
        _ if !sides.guest => None,
        Some(guest) => Some(guest.read::<OsnoiseRecorder>()?),
        None => Some(host.read::<OsnoiseRecorder>()?),
    };
    let seen = if sides.host { Some(host.read::<NoiseRecorder>()?) } else { None };
    Ok(Recorded { host: seen, guest: sampled, process: guest.map(Guest::pid) })
}
