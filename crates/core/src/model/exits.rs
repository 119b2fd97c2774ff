// SPDX-License-Identifier: GPL-2.0-only
//! Predicted exits, by cause.

use crate::cause::Cause;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    ops::{Add, Mul},
};

/// So many exits of each cause.  A cause that a model says nothing about is absent, which is not 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Exits(BTreeMap<Cause, f64>);

impl Exits {
    pub(super) fn of<const N: usize>(causes: [(Cause, f64); N]) -> Exits {
        Exits(causes.into())
    }

    /// None where the model says nothing about the cause.
    pub fn get(&self, cause: Cause) -> Option<f64> {
        self.0.get(&cause).copied()
    }

    /// The paper's count: what the guest does to manage its timers, and their expiry.
    pub fn managing(&self) -> f64 {
        self.sum(|cause| matches!(cause, Cause::Arm | Cause::Stop | Cause::Expiry))
    }

    /// What results files call `timer_exits`: also the host's own ticks while the guest runs, which
    /// come in every mode, and which carry paratick's.
    pub fn timer(&self) -> f64 {
        self.sum(Cause::is_timer)
    }

    pub fn total(&self) -> f64 {
        self.sum(|_| true)
    }

    fn sum(&self, wanted: impl Fn(Cause) -> bool) -> f64 {
        let wanted = self.0.iter().filter(|(cause, _)| wanted(**cause));
        wanted.map(|(_, count)| count).sum()
    }
}

impl Add for Exits {
    type Output = Exits;

    fn add(mut self, other: Exits) -> Exits {
        for (cause, count) in other.0 {
            *self.0.entry(cause).or_default() += count;
        }
        self
    }
}

impl Mul<f64> for Exits {
    type Output = Exits;

    fn mul(mut self, factor: f64) -> Exits {
        self.0.values_mut().for_each(|count| *count *= factor);
        self
    }
}
