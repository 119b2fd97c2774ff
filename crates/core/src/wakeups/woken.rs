// SPDX-License-Identifier: GPL-2.0-only
//! What a bench keeps of a recording of wake-ups.

use super::{
    offenders::{offenders, summary},
    recording::{GuestWakeups, Timer, What},
    rounds::{rounds, Source},
};
use crate::noise::HostNoise;
use serde::{Deserialize, Serialize};

/// Those that wake it most.
const KEPT: usize = 12;

/// A window of a guest, recorded from both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Woken {
    /// How long was recorded.
    pub window_ns: u64,
    /// Timers that expired, without the tick's own.
    pub timer_events: u64,
    /// How often a CPU became idle.
    pub idle_entries: u64,
    /// And for how long in all.
    pub idle_ns: u64,
    /// VM exits.
    pub recorded_exits: u64,
    /// Of them, with no known reason.
    pub unexplained: u64,
    /// The twelve costliest.
    pub offenders: Vec<Waker>,
    /// Of the lab's sampler; `null`: it did not expire.
    pub sampled: Option<Sampled>,
}

/// What wakes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Offender"))]
pub struct Waker {
    /// The timer's function, or what else it is.
    pub source: String,
    /// Who started the timer; `null`: the kernel.
    pub process: Option<String>,
    /// What started it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// How late it may be; `null`: it is no timer.
    pub class: Option<String>,
    /// How often it expired.
    pub expiries: u64,
    /// How often it woke a CPU.
    pub wakeups: u64,
    /// VM exits that this cost.
    pub exits: u64,
}

/// Expiries of the timer that the lab's kernel samples with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sampled {
    /// How often it expired.
    pub expiries: u64,
    /// How often it woke a CPU.
    pub wakeups: u64,
    /// VM exits that this cost.
    pub exits: u64,
    /// How late each expiry was, in full jiffies.
    pub late_ns: Vec<u64>,
}

/// What the kernel calls the lab's sampler (kernel/series/lab).
pub(super) const SAMPLER: &str = "lab_sampler_fn";

impl Woken {
    /// `process` is the guest's VMM on the host.
    pub fn of(guest: &GuestWakeups, host: &HostNoise, process: u32) -> Woken {
        let rounds = rounds(guest, Some((host, process)));
        let sums = summary(guest, &rounds);
        let offenders = offenders(&rounds);
        let window = guest.begin_ns..guest.end_ns;
        let within = || guest.events.iter().filter(|event| window.contains(&event.at_ns));
        let is_sampler = |timer: &Timer| timer.function == SAMPLER;
        let mut sampled: Option<Sampled> = None;
        for event in within() {
            let What::Expiry { timer, late, .. } = &event.what else { continue };
            if is_sampler(timer) {
                // Not from the offenders, who begin when their CPU wakes up: a busy one does not.
                let sampled = sampled.get_or_insert_default();
                sampled.expiries += 1;
                sampled.late_ns.extend(late.map(|late| late.ns.max(0) as u64));
            }
        }
        for one in &offenders {
            let Source::Timer { timer } = &one.source else { continue };
            if is_sampler(timer) {
                let sampled = sampled.get_or_insert_default();
                sampled.wakeups += one.wakeups;
                sampled.exits += one.all_exits();
            }
        }
        let kept = offenders.iter().take(KEPT).map(|one| {
            let timer = match &one.source {
                Source::Timer { timer } => Some(timer),
                _ => None,
            };
            Waker {
                source: one.source.to_string(),
                process: one.source.process().map(|process| process.name.clone()),
                start: timer.and_then(|timer| timer.start.clone()),
                class: timer.map(|timer| timer.class.to_string()),
                expiries: one.expiries,
                wakeups: one.wakeups,
                exits: one.all_exits(),
            }
        });
        Woken {
            window_ns: sums.window_ns,
            timer_events: sums.timer_events,
            idle_entries: sums.idle_entries,
            idle_ns: sums.idle_ns,
            recorded_exits: sums.all_exits(),
            unexplained: sums.unexplained,
            offenders: kept.collect(),
            sampled,
        }
    }
}
