// SPDX-License-Identifier: GPL-2.0-only
//! Recording what wakes a guest, from both sides.

use crate::{
    here::Here,
    noise::{check_joined, check_whole, Sides, STEP_LIMIT},
};
use anyhow::{bail, Result};
use paratick_core::{
    noise::HostNoise,
    wakeups::{GuestWakeups, Knob},
};
use paratick_instruments::{noise::NoiseRecorder, timers::TimerRecorder, Instrument};
use paratick_machine::{exec::Exec, guest::Guest, host::Host};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};

/// Before a recording counts: timers that were started earlier have no known owner.
const LEAD: Duration = Duration::from_secs(1);

/// More of it for a command, which is loaded first.
const LOADING: Duration = Duration::from_secs(2);

/// Of both.
pub(super) const BEFORE: Duration = Duration::from_secs(LEAD.as_secs() + LOADING.as_secs());

/// After it, for what ends the recording itself.
const TAIL: Duration = Duration::from_millis(100);

#[derive(Serialize, Deserialize)]
pub struct Recorded {
    pub host: Option<HostNoise>,
    pub guest: Option<GuestWakeups>,
    /// The guest's VMM on the host.
    pub process: Option<u32>,
}

/// What happens in a guest while it is recorded.
#[derive(Clone, Copy, Default)]
pub struct Load<'a> {
    /// Runs in the background, if it is not empty.
    pub command: &'a [String],
    /// Processes that get another timer slack at the beginning, by their names, and which.
    pub slack: Option<(&'a BTreeSet<String>, u64)>,
    /// Set at the beginning.
    pub knobs: &'a [Knob],
}

/// Records a guest for `time`.
///
/// `limit` is in wall-clock time.  A command that ends earlier has failed if its code is not 0.
pub fn record(
    host: &Host,
    guest: &Guest,
    sides: Sides,
    time: Duration,
    load: Load,
    limit: Duration,
) -> Result<Recorded> {
    // Reading them for the first time takes long where the machine has other work.
    guest.exec(Exec::new(["sh", "-c", "sleep 0.1"]).timeout(limit))?;
    if sides.host {
        host.start::<NoiseRecorder>()?;
    }
    if sides.guest {
        guest.start::<TimerRecorder>()?;
    }
    let lead = if load.command.is_empty() { LEAD } else { BEFORE };
    let seconds = (lead + time + TAIL).as_secs_f64().to_string();
    let result =
        guest.exec(Exec::new(load.argv(&seconds)).timeout(limit.max(lead + time + STEP_LIMIT)))?;
    if result.code != 0 {
        let said = String::from_utf8_lossy(&result.stderr);
        bail!("what runs in the guest failed with code {}: {}", result.code, said.trim());
    }
    let woken =
        if sides.guest { Some(cut(guest.read::<TimerRecorder>()?, lead, time)) } else { None };
    let seen = if sides.host { Some(host.read::<NoiseRecorder>()?) } else { None };
    check_whole(seen.as_ref())?;
    let pid = guest.pid();
    if let (Some(seen), true) = (&seen, sides.guest) {
        check_joined(seen, pid)?;
    }
    Ok(Recorded { host: seen, guest: woken, process: Some(pid) })
}

/// The command has a session of its own, which ends with the recording.
const SCRIPT: &str = r#"
    time=$1 slack=$2 names=$3 settings=$4; shift 4
    set -f
    for setting in $settings; do
        echo "${setting#*=}" >"${setting%%=*}" || exit 1
    done
    set +f
    [ $# = 0 ] || setsid "$@" </dev/null >/dev/null &
    [ -z "$slack" ] || sleep 0.3
    for task in ${slack:+/proc/[0-9]*/task/[0-9]*}; do
        read -r name <$task/comm 2>/dev/null || continue
        case "/$names/" in */"$name"/*) echo $slack >/proc/${task##*/}/timerslack_ns ;; esac
    done
    sleep "$time"
    [ $# = 0 ] || kill -- -$! 2>/dev/null || wait $!
"#;

impl Load<'_> {
    pub(crate) fn argv(&self, seconds: &str) -> Vec<String> {
        let (names, slack) = match self.slack {
            Some((names, slack)) => {
                (Vec::from_iter(names.iter().cloned()).join("/"), slack.to_string())
            }
            None => Default::default(),
        };
        let settings: Vec<String> = self.knobs.iter().filter_map(setting).collect();
        let settings = settings.join(" ");
        let words =
            ["sh", "-c", SCRIPT, "sh", seconds, &slack, &names, &settings].map(String::from);
        words.into_iter().chain(self.command.iter().cloned()).collect()
    }
}

/// As a file, and what goes there.
fn setting(knob: &Knob) -> Option<String> {
    match knob {
        Knob::Sysctl { key, value } => Some(format!("/proc/sys/{}={value}", key.replace('.', "/"))),
        Knob::Sched(feature) => Some(format!("/sys/kernel/debug/sched/features={feature}")),
        Knob::Boot(_) | Knob::Mode(_) | Knob::Moved { .. } => None,
    }
}

/// The same on this machine, in this process.
pub type WakeupsHere = Here<NoiseRecorder, TimerRecorder>;

pub fn start_here(sides: Sides) -> Result<WakeupsHere> {
    let host = sides.host.then(NoiseRecorder::start).transpose()?;
    Ok(Here::of(host, sides.guest.then(TimerRecorder::start).transpose()?))
}

/// It ends early when `leave` says so.
pub fn record_here(
    here: &mut WakeupsHere,
    time: Duration,
    leave: &dyn Fn() -> bool,
) -> Result<Recorded> {
    let around = if here.has_guest() { LEAD + TAIL } else { Duration::ZERO };
    let (host, woken) = here.record(time + around, leave)?;
    Ok(Recorded { guest: woken.map(|woken| cut(woken, LEAD, time)), host, process: None })
}

/// What came before stays: it may have woken what comes in the window.
fn cut(mut woken: GuestWakeups, lead: Duration, time: Duration) -> GuestWakeups {
    woken.begin_ns = (woken.begin_ns + lead.as_nanos() as u64).min(woken.end_ns);
    woken.end_ns = (woken.begin_ns + time.as_nanos() as u64).min(woken.end_ns);
    woken
}
