// SPDX-License-Identifier: GPL-2.0-only
//! The reading of the instrument `cycle`: what happens to a vCPU in one idle cycle, from a trace of
//! its host.  docs/timeline.md describes it.

use crate::{cause::Cause, stats::Summary};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// One idle cycle of one vCPU, chosen from all that were traced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IdleCycle {
    pub vcpu: u32,
    #[serde(flatten)]
    pub chosen: Chosen,
    /// What the workload took on the guest's clock: traced, and just before without tracing.
    pub traced_ns: u64,
    pub untraced_ns: u64,
}

/// The cycle that stands for all, and what all have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chosen {
    /// From the halt's exit, at 0, to the moment before the next halt's, which is an `end`.
    pub events: Vec<Event>,
    /// Whole cycles in the trace.
    pub cycles: u32,
    /// Of these, how many have the same events in the same order.
    pub alike: u32,
    pub exits_per_cycle: Summary,
    /// Means over all cycles.
    pub exits_by_cause: BTreeMap<Cause, f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// From the cycle's start.
    pub t_ns: u64,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum What {
    /// From the guest to the host.
    Exit {
        reason: String,
        cause: Cause,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        msr: Option<String>,
        /// Of an arm: how much later than the deadline written before (negative: earlier).
        #[serde(skip_serializing_if = "Option::is_none", default)]
        moved_ns: Option<i64>,
    },
    /// From the host to the guest.
    Entry,
    /// The halted vCPU's thread gives its pCPU away.
    Sleep,
    /// What the halted vCPU waited for has come, and its thread has its pCPU back.
    Wake { by: Waker },
    /// KVM raises a virtual tick (`delivered`, `late` or `timer`).
    Tick { what: String },
    /// A virtual tick was due, and KVM raises none (`absorbed`, `pending`, `halted`, `disabled`).
    NoTick { what: String },
    /// The next cycle begins.
    End,
}

/// Which interrupt a halted vCPU woke for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Waker {
    /// Its own timer's.
    Timer,
    /// Another vCPU's.
    Ipi,
    /// A virtual tick.
    Tick,
    Device,
    /// No interrupt was seen.
    Unknown,
}

impl Waker {
    /// By the vectors of Linux guests (arch/x86/include/asm/irq_vectors.h) and of our series.
    pub fn of_vector(vector: u32) -> Waker {
        match vector {
            0xec => Waker::Timer,
            0xf5 => Waker::Tick,
            0xf6..=0xf8 | 0xfb..=0xfd => Waker::Ipi,
            0x20..=0xeb => Waker::Device,
            _ => Waker::Unknown,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Waker::Timer => "timer",
            Waker::Ipi => "ipi",
            Waker::Tick => "tick",
            Waker::Device => "device",
            Waker::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl What {
    pub fn cause(&self) -> Option<Cause> {
        match self {
            What::Exit { cause, .. } => Some(*cause),
            _ => None,
        }
    }

    pub fn is_halt(&self) -> bool {
        self.cause() == Some(Cause::Halt)
    }
}

impl Chosen {
    /// How long the cycle took.
    pub fn length_ns(&self) -> u64 {
        self.events.last().map_or(0, |event| event.t_ns)
    }

    pub fn exits(&self) -> usize {
        let causes = self.events.iter().filter_map(|event| event.what.cause());
        causes.count()
    }
}
