// SPDX-License-Identifier: GPL-2.0-only
//! What was recorded of wake-ups, in a guest.

use crate::noise::{is_time, Clock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What wakes the CPUs of a guest, as its kernel saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestWakeups {
    pub clock: Clock,
    /// From when to when it is told, by the guest's CLOCK_MONOTONIC.
    pub begin_ns: u64,
    pub end_ns: u64,
    pub cpus: u32,
    /// Their numbers; empty in older recordings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub online: Vec<u32>,
    /// None where no timer of the wheel expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jiffies: Option<Jiffies>,
    /// Whether DAMON_STAT is on, which has a `kdamond` of its own; others may have some, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub damon_stat: bool,
    /// In the order of time.
    pub events: Vec<Event>,
}

/// Linux has no more.
const MAX_CPUS: u32 = 8192;

impl GuestWakeups {
    /// The numbers of all CPUs that were online.  Some between them may not have been.
    pub fn numbers(&self) -> BTreeSet<u32> {
        let seen = self.events.iter().map(|event| event.cpu);
        let known = self.online.iter().copied();
        if self.online.is_empty() && self.events.iter().all(|event| event.cpu < self.cpus) {
            return (0..self.cpus).collect();
        }
        known.chain(seen).collect()
    }

    /// Whether it can have been recorded: no times and no CPUs that there cannot be.
    pub fn is_sound(&self) -> bool {
        let others = |what: &What| match what {
            What::Ipi { to } => *to,
            What::Set { on, .. } => *on,
            What::Expiry { wheel: Some(wheel), .. } => wheel.cpu,
            _ => 0,
        };
        let events = self.events.iter();
        let mut cpus = events.flat_map(|event| [event.cpu, others(&event.what)]);
        self.clock.is_sound()
            && self.begin_ns <= self.end_ns
            && self.events.iter().all(|event| is_time((event.at_ns, 0)))
            && is_time((self.end_ns, 0))
            && self.cpus <= MAX_CPUS
            && cpus.all(|cpu| cpu < MAX_CPUS)
            && self.online.iter().all(|cpu| *cpu < MAX_CPUS)
    }
}

/// How the guest's kernel counts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jiffies {
    pub hz: u64,
    /// When a full second of them began, by CLOCK_MONOTONIC.
    pub second_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub cpu: u32,
    /// The guest's CLOCK_MONOTONIC.
    pub at_ns: u64,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum What {
    /// The CPU becomes idle.
    Idle,
    Irq {
        irq: Irq,
    },
    /// A device's interrupt.
    Device {
        name: String,
    },
    /// A timer expires.
    Expiry {
        timer: Timer,
        /// None where its start was not seen.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        late: Option<Late>,
        /// None of high resolution, and where its start was not seen.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wheel: Option<Wheel>,
    },
    /// A work is queued.
    Work {
        function: String,
    },
    /// A task is woken.
    Waking {
        task: u32,
        by: String,
    },
    /// The idle task gives way to this one.
    Run {
        task: u32,
        name: String,
    },
    /// An interrupt is sent to another CPU.
    Ipi {
        to: u32,
    },
    /// A timer of the wheel is set on another CPU.
    Set {
        on: u32,
        /// When it is due by CLOCK_MONOTONIC, or up to a jiffy later.
        due_ns: u64,
    },
}

/// Where a timer of the wheel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wheel {
    pub cpu: u32,
    /// No other CPU may expire it.
    pub pinned: bool,
}

/// By how much a timer expired after the time that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    /// Negative: too early.
    pub ns: i64,
    /// What its class allows: its slack, or where the timer wheel rounds it to; none: anything, or
    /// the kernel does not tell.
    pub allowed_ns: Option<u64>,
}

/// An interrupt that is no device's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[derive(strum::Display)]
pub enum Irq {
    #[strum(to_string = "timer")]
    Timer,
    #[strum(to_string = "rescheduling")]
    Reschedule,
    #[strum(to_string = "function call")]
    Call,
    #[strum(to_string = "IRQ work")]
    Work,
    #[strum(to_string = "virtual tick")]
    Tick,
    #[strum(to_string = "async page fault")]
    AsyncPageFault,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Timer {
    /// What the kernel calls when it expires.
    pub function: String,
    pub class: Class,
    /// Who started it; none where that is the kernel.
    pub process: Option<Process>,
    /// The function that started it, or that slept; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
}

impl Timer {
    /// The scheduler's tick, which also drives the timer wheel.
    pub fn is_tick(&self) -> bool {
        matches!(self.function.as_str(), "tick_nohz_handler" | "tick_sched_timer")
    }
}

/// How late a timer may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Class {
    /// By nothing, or by what the timer wheel rounds it to.
    Hard,
    /// A high-resolution timer that gives a range (prctl(2), PR_SET_TIMERSLACK).
    Slack,
    /// On a full second (`round_jiffies()`).
    Rounded,
    /// It waits for something else to wake an idle CPU.
    Deferrable,
    /// It was started before the recording.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process {
    /// None for all workers of the kernel's work queues together.
    pub pid: Option<u32>,
    pub name: String,
    /// The unit of systemd's that it is part of; none where it is part of none, or has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}
