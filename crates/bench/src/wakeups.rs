// SPDX-License-Identifier: GPL-2.0-only
//! Recording what wakes a guest, from both sides.

use crate::noise::{check_joined, Sides, STEP, STEP_LIMIT};
use anyhow::{bail, Result};
use paratick_core::{noise::HostNoise, wakeups::GuestWakeups};
use paratick_instruments::{noise::NoiseRecorder, timers::TimerRecorder, Instrument};
use paratick_machine::{exec::Exec, guest::Guest, host::Host};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Before a recording counts: timers that were started earlier have no known owner.
const LEAD: Duration = Duration::from_secs(1);

/// After it, for what ends the recording itself.
const TAIL: Duration = Duration::from_millis(100);

#[derive(Serialize, Deserialize)]
pub struct Recorded {
    pub host: Option<HostNoise>,
    pub guest: Option<GuestWakeups>,
    /// The guest's VMM on the host.
    pub process: Option<u32>,
}

/// Records a guest for `time` while `command` runs in it, or nothing.
///
/// `limit` is in wall-clock time.  A command that ends earlier has failed if its code is not 0.
pub fn record(
    host: &Host,
    guest: &Guest,
    sides: Sides,
    time: Duration,
    command: &[String],
    limit: Duration,
) -> Result<Recorded> {
    if sides.host {
        host.start::<NoiseRecorder>()?;
    }
    if sides.guest {
        guest.start::<TimerRecorder>()?;
    }
    let seconds = (LEAD + time + TAIL).as_secs_f64().to_string();
    let argv = match command {
        [] => vec!["sleep".into(), seconds],
        _ => beside(&seconds, command),
    };
    let result = guest.exec(Exec::new(argv).timeout(limit.max(LEAD + time + STEP_LIMIT)))?;
    if result.code != 0 {
        let said = String::from_utf8_lossy(&result.stderr);
        bail!("the command failed with code {}: {}", result.code, said.trim());
    }
    let woken = if sides.guest { Some(cut(guest.read::<TimerRecorder>()?, time)) } else { None };
    let seen = if sides.host { Some(host.read::<NoiseRecorder>()?) } else { None };
    let pid = guest.pid();
    if let (Some(seen), true) = (&seen, sides.guest) {
        check_joined(seen, pid)?;
    }
    Ok(Recorded { host: seen, guest: woken, process: Some(pid) })
}

/// A command in the background, in a session of its own that ends with the recording.
fn beside(seconds: &str, command: &[String]) -> Vec<String> {
    const SCRIPT: &str = "time=$1; shift; setsid \"$@\" </dev/null >/dev/null & \
         sleep \"$time\"; kill -- -$! 2>/dev/null || wait $!";
    let words = ["sh", "-c", SCRIPT, "sh", seconds].map(String::from);
    words.into_iter().chain(command.iter().cloned()).collect()
}

/// The same on this machine, in this process: of the VMs that run on it, or of itself, which may
/// be somebody's VM.
pub fn record_here(sides: Sides, time: Duration) -> Result<Recorded> {
    let mut host = if sides.host { Some(NoiseRecorder::start()?) } else { None };
    let mut guest = if sides.guest { Some(TimerRecorder::start()?) } else { None };
    let end = Instant::now() + if sides.guest { LEAD + time + TAIL } else { time };
    while Instant::now() < end {
        // So that no ring fills up.
        host.as_mut().map_or(Ok(()), NoiseRecorder::drain)?;
        guest.as_mut().map_or(Ok(()), TimerRecorder::drain)?;
        std::thread::sleep(end.saturating_duration_since(Instant::now()).min(STEP));
    }
    let woken = guest.as_mut().map(TimerRecorder::read).transpose()?;
    Ok(Recorded {
        guest: woken.map(|woken| cut(woken, time)),
        host: host.as_mut().map(NoiseRecorder::read).transpose()?,
        process: None,
    })
}

/// What came before stays: it may have woken what comes in the window.
fn cut(mut woken: GuestWakeups, time: Duration) -> GuestWakeups {
    woken.begin_ns = (woken.begin_ns + LEAD.as_nanos() as u64).min(woken.end_ns);
    woken.end_ns = (woken.begin_ns + time.as_nanos() as u64).min(woken.end_ns);
    woken
}
