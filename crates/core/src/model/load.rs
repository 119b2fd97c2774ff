// SPDX-License-Identifier: GPL-2.0-only
//! How a vCPU spends a second: how much of it running, and how often it is idle.

use crate::units::Nanos;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[derive(strum::Display, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum WokenBy {
    /// Another vCPU, by an inter-processor interrupt: blocking synchronization.
    #[default]
    Ipi,
    /// A device's interrupt: blocking I/O.
    Device,
    /// A timer that the application set for it, and which the kernel armed: clock_nanosleep.
    Sleep,
    /// A timer of the kernel's own (timer wheel): housekeeping.
    Kernel,
}

/// Idle periods of a vCPU per second, by what ends them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Wakes {
    pub ipi: f64,
    pub device: f64,
    pub sleep: f64,
    pub kernel: f64,
}

impl Wakes {
    pub fn all(self) -> f64 {
        self.ipi + self.device + self.sleep + self.kernel
    }

    pub(super) fn scaled(self, factor: f64) -> Wakes {
        Wakes {
            ipi: self.ipi * factor,
            device: self.device * factor,
            sleep: self.sleep * factor,
            kernel: self.kernel * factor,
        }
    }

    fn only(woken_by: WokenBy, rate: f64) -> Wakes {
        let mut wakes = Wakes::default();
        *match woken_by {
            WokenBy::Ipi => &mut wakes.ipi,
            WokenBy::Device => &mut wakes.device,
            WokenBy::Sleep => &mut wakes.sleep,
            WokenBy::Kernel => &mut wakes.kernel,
        } = rate;
        wakes
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Load {
    /// Share of the time in which the vCPU is not idle: the paper's L.
    pub busy: f64,
    /// Share of the time in which it executes guest code: an interrupt of the host costs an exit
    /// only then.  Less than `busy` by what exits take.
    pub in_guest: f64,
    /// Share of the guest's vCPUs that its ticks interrupt again and again, where they are not all
    /// alike: these look after the timer wheels.  0 where nothing is known of it.
    pub ticked: f64,
    pub wakes: Wakes,
}

#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum BadLoad {
    #[error(
        "a load of {0}\nhint: the load is the share of its time that a vCPU is busy, from 0 to 1"
    )]
    NotAShare(f64),
    #[error(
        "a load of {0} without an idle period\n\
        hint: say how long the vCPU is idle at a time, such as --idle-period 100us (idle-period in \
        a file)"
    )]
    NoIdlePeriod(f64),
    #[error(
        "an idle period of 0 with a load of {0}: a vCPU that is never idle has a load of 1\n\
        hint: give a longer --idle-period (idle-period in a file), or a load of 1"
    )]
    NoTime(f64),
}

impl Load {
    /// By the paper's two variables: the load L and the mean idle period T_idle.  An idle vCPU
    /// (load 0) without an idle period is never woken.
    pub fn new(load: f64, idle_period: Option<Nanos>, woken_by: WokenBy) -> Result<Load, BadLoad> {
        if !(0.0..=1.0).contains(&load) {
            return Err(BadLoad::NotAShare(load));
        }
        let rate = match idle_period {
            _ if load == 1.0 => 0.0,
            Some(Nanos(0)) => return Err(BadLoad::NoTime(load)),
            Some(period) => (1.0 - load) / period.seconds(),
            None if load == 0.0 => 0.0,
            None => return Err(BadLoad::NoIdlePeriod(load)),
        };
        Ok(Load { busy: load, in_guest: load, ticked: 0.0, wakes: Wakes::only(woken_by, rate) })
    }

    /// Idle periods per second: the paper's (1 − L) / T_idle.
    pub fn idle_periods(&self) -> f64 {
        self.wakes.all()
    }

    /// How long the vCPU is idle at a time, in seconds; none if it never is, or is never woken.
    pub fn idle_period(&self) -> Option<f64> {
        let rate = self.idle_periods();
        (rate > 0.0).then(|| (1.0 - self.busy) / rate)
    }
}
