// SPDX-License-Identifier: GPL-2.0-only
//! What a model is asked about: guests, and which end of a range.

use super::Load;
use crate::units::Hz;
use serde::Serialize;

/// Where a model leaves a range: which end of it, or what to expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimate {
    Least,
    Likely,
    Most,
}

impl Estimate {
    pub const ALL: [Estimate; 3] = [Estimate::Least, Estimate::Likely, Estimate::Most];

    pub(super) fn pick(self, least: f64, likely: f64, most: f64) -> f64 {
        match self {
            Estimate::Least => least,
            Estimate::Likely => likely,
            Estimate::Most => most,
        }
    }
}

/// What a model leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    pub least: f64,
    pub likely: f64,
    pub most: f64,
}

impl Range {
    /// None where one of them is not known.
    pub fn of(exits: impl Fn(Estimate) -> Option<f64>) -> Option<Range> {
        let [least, likely, most] = Estimate::ALL.map(exits);
        Some(Range { least: least?, likely: likely?, most: most? })
    }
}

/// So many guests that are all alike, and all of whose vCPUs spend their time in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Vm {
    pub count: u32,
    /// Of each guest.
    pub vcpus: u32,
    /// Of the guests' tick.
    pub hz: Hz,
    /// Of the host's tick.
    pub host_hz: Hz,
    /// vCPUs whose ticks, due at the same time, the host handles one after the other: 1, but all of
    /// them on an emulated host whose CPUs take turns on one clock.
    #[serde(skip)]
    pub in_turns: u32,
    pub load: Load,
}
