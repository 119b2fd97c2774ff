// SPDX-License-Identifier: GPL-2.0-only
//! What was recorded of latency, on a host and in a guest.

use crate::{
    cause::Cause,
    noise::{is_time, Clock, TscOffset},
};
use serde::{Deserialize, Serialize};

/// What a guest's timerlat measured, or a program in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestLatency {
    /// Older recordings are all timerlat's.
    #[serde(default)]
    pub sampler: Sampler,
    pub clock: Clock,
    /// From when to when, by the guest's CLOCK_MONOTONIC.
    pub begin_ns: u64,
    pub end_ns: u64,
    pub activations: Vec<Activation>,
    /// The deadlines of those whose timer was not seen to expire: of these the thread's latency
    /// alone is known, and nothing is made of it.
    #[serde(default)]
    pub unseen: Vec<u64>,
}

impl GuestLatency {
    /// Whether all its times are times: nothing else can be reckoned with.
    pub fn is_sound(&self) -> bool {
        let mut times = self
            .activations
            .iter()
            .flat_map(|one| [one.irq_ns, one.thread_ns].map(|ns| (one.deadline_ns, ns)));
        self.clock.is_sound() && self.begin_ns <= self.end_ns && times.all(is_time)
    }

    /// Only what was due in `ns` from `skip_ns` after the beginning on.
    pub fn cut(mut self, skip_ns: u64, ns: u64) -> GuestLatency {
        self.begin_ns = self.begin_ns.saturating_add(skip_ns).min(self.end_ns);
        self.end_ns = self.begin_ns.saturating_add(ns).min(self.end_ns);
        let (begin, end) = (self.begin_ns, self.end_ns);
        self.activations.retain(|one| (begin..end).contains(&one.deadline_ns));
        self.unseen.retain(|deadline_ns| (begin..end).contains(deadline_ns));
        self
    }
}

/// Whose thread waits for a timer.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
    strum::VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Sampler {
    /// The kernel's tracer.
    #[default]
    Timerlat,
    /// A program in user space, which sleeps.
    User,
}

/// A timer was due, and the thread that waits for it ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activation {
    pub cpu: u32,
    /// As it is counted on this CPU, from 1 on.
    pub number: u64,
    /// The guest's CLOCK_MONOTONIC.
    pub deadline_ns: u64,
    /// When the interrupt began in which the timer expired.
    pub irq_began_ns: u64,
    pub via: Via,
    /// From the deadline on, until the timer has its turn in the interrupt, and until the thread
    /// runs: timerlat's own two numbers, or when a program in user space has read the clock.
    pub irq_ns: u64,
    pub thread_ns: u64,
}

/// In which interrupt of the guest its timer expired.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::Display,
)]
#[serde(rename_all = "kebab-case")]
pub enum Via {
    #[strum(serialize = "local timer")]
    LocalTimer,
    #[strum(serialize = "virtual tick")]
    VirtualTick,
    #[strum(serialize = "no timer's interrupt")]
    Other,
}

/// What the vCPUs of a host did, in the order of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSteps {
    pub clock: Clock,
    /// Of the vCPUs of all VMs that still ran at the end.
    pub tsc_offsets: Vec<TscOffset>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub process: u32,
    pub vcpu: u32,
    /// The host's CLOCK_MONOTONIC.
    pub at_ns: u64,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    Exit,
    /// The handler of KVM's timer for the vCPU begins, wherever it runs.
    Timer,
    /// The vCPU's thread leaves its pCPU.
    Out,
    Woken,
    Runs,
    /// It enters its guest again, after an exit of this cause.
    Entry {
        cause: Cause,
        /// As KVM names it.
        reason: String,
    },
}
