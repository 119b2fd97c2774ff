// SPDX-License-Identifier: GPL-2.0-only
//! From which idle period on a tick that is stopped costs less than one that goes on.

use super::{per_vcpu_second, Estimate, Load, TickModel, Vm, Wakes};
use serde::Serialize;

/// A mean idle period in seconds.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Period(pub f64);

/// Where periodic and tickless cost the same: below, periodic costs less, above, tickless does.
/// `null` where they never do (a vCPU that is never idle).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CrossOver {
    /// By the formulas of sections 3.1 and 3.2.  One tick period: L and the number of vCPUs cancel
    /// out, and so does how many of them share a pCPU.
    pub formulas: Option<Period>,
    /// As section 3.3 has it in words: the tick period divided by the number of vCPUs that share a
    /// pCPU.  The same where each has its own.  With k sharing one, it holds if the idle period is
    /// measured on the pCPU, where k vCPUs' idle periods of T follow each other every T / k.
    pub statement: Option<Period>,
    /// By the models `periodic` and `tickless-stop`: the least and the most.  Longer than a tick:
    /// the tick of a halted vCPU costs one exit of arming and no expiry, and an idle period costs
    /// the other side two to three.
    pub kernels: Option<(Period, Period)>,
}

/// For vCPUs with `vm`'s tick, load and way of waking up, `sharing` of them on each pCPU.
pub fn crossover(vm: &Vm, sharing: u32) -> CrossOver {
    use TickModel::{FormulaPeriodic, FormulaTickless, Periodic, TicklessStop};
    let formulas = equal(FormulaPeriodic, FormulaTickless, vm, Estimate::Likely);
    let kernels = |estimate| equal(Periodic, TicklessStop, vm, estimate);
    let period = vm.hz.period().filter(|_| vm.load.busy < 1.0);
    CrossOver {
        formulas,
        statement: period.map(|tick| Period(tick.seconds() / f64::from(sharing.max(1)))),
        kernels: kernels(Estimate::Least).zip(kernels(Estimate::Most)),
    }
}

/// The idle period at which two models cost the same in managing timers, at the load that `vm` has.
/// `keeps` costs less below it.
fn equal(keeps: TickModel, stops: TickModel, vm: &Vm, estimate: Estimate) -> Option<Period> {
    let cheaper = |period: f64| {
        let vm = with_idle_period(vm, period);
        let [keeps, stops] = [keeps, stops].map(|model| per_vcpu_second(model, &vm, estimate));
        keeps.managing() < stops.managing()
    };
    // From a nanosecond to a day: far beyond what any tick rate needs.
    let (mut low, mut high) = (1e-9, 86_400.0);
    if !cheaper(low) || cheaper(high) {
        return None;
    }
    // Halves the logarithm until doubles have no more digits.
    for _ in 0..120 {
        let middle = f64::sqrt(low * high);
        match cheaper(middle) {
            true => low = middle,
            false => high = middle,
        }
    }
    Some(Period(high))
}

/// The same load, idle for so many seconds at a time, and woken by the same.
fn with_idle_period(vm: &Vm, period: f64) -> Vm {
    let (load, rate) = (vm.load, (1.0 - vm.load.busy) / period);
    let wakes = match load.idle_periods() {
        0.0 => Wakes { ipi: rate, ..Wakes::default() },
        all => load.wakes.scaled(rate / all),
    };
    Vm { load: Load { wakes, ..load }, ..*vm }
}
