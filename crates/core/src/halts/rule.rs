// SPDX-License-Identifier: GPL-2.0-only
//! By which rule it is decided for how long to poll, with its parameters.

use serde::{Deserialize, Serialize};

/// What becomes of a limit that the host's rule shrank below `grow_start`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Floor {
    /// It stays, as before ae232ea46088 (5.15).
    None,
    /// It becomes 0, as in 6.12.
    #[default]
    ToZero,
    /// A limit is never shrunk below this many nanoseconds: the article, read to the letter.
    At(u32),
}

/// The host's rule: module parameters of `kvm`, and `max` of the VM where it has its own
/// (`KVM_CAP_HALT_POLL`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HostRule {
    /// `halt_poll_ns`.
    pub max: u32,
    pub grow: u32,
    pub grow_start: u32,
    pub shrink: u32,
    #[serde(default)]
    pub floor: Floor,
}

/// The guest's rule: module parameters of `haltpoll`, without their `guest_halt_poll_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GuestRule {
    /// `guest_halt_poll_ns`.
    pub max: u32,
    pub grow: u32,
    pub grow_start: u32,
    pub shrink: u32,
    pub allow_shrink: bool,
}

/// The learned window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LearnedRule {
    pub max: u32,
    /// What it costs to block and to wake up, in nanoseconds.
    pub cost: u32,
}

/// A rule with its parameters: what was in force, or what is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    Host(HostRule),
    Guest(GuestRule),
    Learned(LearnedRule),
    /// Always as long; 0 is never.
    Fixed(u32),
}
