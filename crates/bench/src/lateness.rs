// SPDX-License-Identifier: GPL-2.0-only
//! How late the timers of many guests are, recorded in all of them at once.

use super::{
    background::Background,
    prepared::RUN_LIMIT,
    workloads::{failed, in_each, Attempt, QUIET},
};
use anyhow::Result;
use paratick_core::{
    results::{Doing, Fault, PlannedWorkload},
    wakeups::{lateness, Class, GuestWakeups, Lateness},
};
use paratick_instruments::timers::TimerRecorder;
use paratick_machine::{guest::Guest, host::Host};
use std::{collections::BTreeMap, time::Duration};

/// What ends the recordings of others is not in a window.
const TAIL: Duration = Duration::from_secs(1);

/// In a window as long as that of `workload`, which runs in all of them.
pub fn of_all(
    host: &Host,
    guests: &[Guest],
    agent: &str,
    workload: &PlannedWorkload,
) -> Result<Result<BTreeMap<Class, Lateness>, Fault>> {
    let loads = Background::start(guests, agent, workload)?;
    let recorded = record(host, guests, Duration::from_millis(workload.work));
    for guest in guests {
        guest.stop::<TimerRecorder>()?;
    }
    loads.stop()?;
    let why = match recorded {
        Ok(Ok(seen)) => return Ok(Ok(lateness(&seen))),
        Ok(Err(why)) => why,
        Err(why) => format!("{why:#}"),
    };
    Ok(Err(failed(workload, Doing::RecordingWakeups, why)))
}

fn record(host: &Host, guests: &[Guest], time: Duration) -> Result<Attempt<Vec<GuestWakeups>>> {
    in_each(guests, |guest| Ok(Ok(guest.start::<TimerRecorder>()?)))?.ok();
    host.wait(QUIET, RUN_LIMIT)?;
    in_each(guests, |guest| {
        guest.wait(time + TAIL, RUN_LIMIT)?;
        let mut seen = guest.read::<TimerRecorder>()?;
        seen.end_ns = seen.end_ns.saturating_sub(TAIL.as_nanos() as u64);
        seen.begin_ns = seen.end_ns.saturating_sub(time.as_nanos() as u64).max(seen.begin_ns);
        Ok(Ok(seen))
    })
}
