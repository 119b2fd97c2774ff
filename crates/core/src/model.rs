// SPDX-License-Identifier: GPL-2.0-only
//! How many VM exits a way of keeping the tick costs, by computing instead of measuring.
//!
//! Two families of models share one input, [`Load`]: how a vCPU spends a second.
//!
//! * The *formulas* of the paper (sections 3.1, 3.2 and 4) count what manages timers, two exits
//!   for every tick and two for every idle period: [`TickModel::FORMULAS`].
//! * The *kernels'* models count what Linux 6.12 does in each tick mode, by cause, so that they can
//!   be held against a measurement: [`TickModel::KERNELS`].
//!
//! ```
//! use paratick_core::{model::*, units::{Hz, Nanos}};
//!
//! // 16 threads that block for 100 µs at a time, and compute for half of it.
//! let load = Load::new(0.5, Some(Nanos(100_000)), WokenBy::Ipi)?;
//! let vm = Vm { count: 1, vcpus: 16, hz: Hz(250), host_hz: Hz(250), in_turns: 1, load };
//! let time = Nanos::SECOND;
//! let stopping = predict(TickModel::TicklessStop, &[vm], time, Estimate::Likely);
//! let ticks = predict(TickModel::ParatickTicks, &[vm], time, Estimate::Likely);
//! assert!(ticks.timer() < stopping.timer() / 10.0);
//! # Ok::<(), BadLoad>(())
//! ```
//!
//! For a measured cell, [`measured::observe_cell`] gives the loads that its samples had, and
//! [`measured::predict_all`] what the model of a mode makes of them.  docs/model.md has the
//! formulas.

mod crossover;
mod exits;
pub mod file;
mod kernel;
mod load;
pub mod measured;
mod paper;
pub mod table1;
mod vm;

pub use crossover::{crossover, CrossOver, Period};
pub use exits::Exits;
pub use load::{BadLoad, Load, Wakes, WokenBy};
pub use vm::{Estimate, Range, Vm};

use crate::{
    mode::{Mode, Polling, TickMode},
    units::Nanos,
};
use serde::{Deserialize, Serialize};
use strum::Display;

/// A way of keeping the scheduler tick, as one of the two families counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum TickModel {
    /// The formula of section 3.1.
    FormulaPeriodic,
    /// The formula of section 3.2.
    FormulaTickless,
    /// What section 4 promises of virtual ticks.
    FormulaParatick,
    /// `nohz=off`: the tick goes on, idle or not.
    Periodic,
    /// The tick is stopped at every idle entry and programmed anew at idle exit: what the paper
    /// calls tickless, and what kernels did until early 2026.
    TicklessStop,
    /// Linux 6.12 as it is now: the tick is kept at idle entry unless the last wake-up was the
    /// tick.
    Tickless,
    /// Virtual ticks, as this project's series does them.
    ParatickTicks,
    /// Virtual ticks and halt-until: the deadline travels with the halt, so that no timer costs an
    /// exit to arm.
    Paratick,
}

impl TickModel {
    pub const FORMULAS: [TickModel; 3] =
        [TickModel::FormulaPeriodic, TickModel::FormulaTickless, TickModel::FormulaParatick];

    pub const KERNELS: [TickModel; 5] =
        [Self::Periodic, Self::TicklessStop, Self::Tickless, Self::ParatickTicks, Self::Paratick];

    /// The model of a mode that can be measured.
    ///
    /// With guest halt polling there is a cpuidle driver, whose governor stops the tick whenever it
    /// lets the vCPU halt: `tickless+poll` is [`TickModel::TicklessStop`] at fewer idle periods.
    /// Where it learns, it keeps the tick as is done without a driver.
    pub fn of(mode: Mode) -> TickModel {
        match (mode.tick, mode.poll) {
            (TickMode::Periodic, _) => TickModel::Periodic,
            (TickMode::TicklessStop, _) | (TickMode::Tickless, Polling::Stock | Polling::By(_)) => {
                TickModel::TicklessStop
            }
            (TickMode::Tickless, Polling::Off | Polling::Learned) => TickModel::Tickless,
            // The same timers are armed and expire; which entries carry ticks costs no exit.
            (TickMode::ParatickPaper | TickMode::ParatickTicks, _) => TickModel::ParatickTicks,
            (TickMode::Paratick | TickMode::ParatickCoalesce, _) => TickModel::Paratick,
        }
    }
}

/// The exits of `vms` together over `time`, by cause.
pub fn predict(model: TickModel, vms: &[Vm], time: Nanos, estimate: Estimate) -> Exits {
    vms.iter().fold(Exits::default(), |sum, vm| {
        let vcpu_seconds = f64::from(vm.count) * f64::from(vm.vcpus) * time.seconds();
        sum + per_vcpu_second(model, vm, estimate) * vcpu_seconds
    })
}

/// The exits of one vCPU in a second, by cause.
pub fn per_vcpu_second(model: TickModel, vm: &Vm, estimate: Estimate) -> Exits {
    match model {
        TickModel::FormulaPeriodic => paper::periodic(vm.hz),
        TickModel::FormulaTickless => paper::tickless(vm.hz, &vm.load),
        TickModel::FormulaParatick => paper::paratick(&vm.load, estimate),
        TickModel::Periodic => kernel::periodic(vm),
        TickModel::TicklessStop => kernel::tickless_stop(vm, estimate),
        TickModel::Tickless => kernel::tickless(vm, estimate),
        TickModel::ParatickTicks => kernel::paratick_ticks(vm, estimate),
        TickModel::Paratick => kernel::paratick(vm),
    }
}

#[cfg(test)]
mod tests;
