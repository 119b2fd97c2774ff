// SPDX-License-Identifier: GPL-2.0-only
//! The paper's formulas, per vCPU and second.  They count what manages timers and nothing else.

use super::{Estimate, Exits, Load};
use crate::{cause::Cause, units::Hz};

/// Section 3.1: 2 × f_tick.  A tick is armed, and it expires.
pub fn periodic(hz: Hz) -> Exits {
    ticks(f64::from(hz.0))
}

/// Section 3.2: 2 × (L × f_tick + (1 − L) / T_idle).  The tick of a busy vCPU as above; each idle
/// period stops it once and arms it once.
pub fn tickless(hz: Hz, load: &Load) -> Exits {
    let idle = load.idle_periods();
    let restarts = Exits::of([(Cause::Arm, idle), (Cause::Stop, idle), (Cause::Expiry, 0.0)]);
    ticks(f64::from(hz.0) * load.busy) + restarts
}

/// Section 4: ticks cost nothing, because the host's own interrupt the vCPU anyway (4.1).  On idle
/// entry a timer is armed if something has to wake the vCPU and none is running that is early
/// enough, and it is left to expire: between nothing and two exits for each idle period.  The paper
/// calls their number "negligible" (4.2).
pub fn paratick(load: &Load, estimate: Estimate) -> Exits {
    let armed = estimate.pick(0.0, 0.0, load.idle_periods());
    Exits::of([(Cause::Arm, armed), (Cause::Stop, 0.0), (Cause::Expiry, armed)])
}

fn ticks(rate: f64) -> Exits {
    Exits::of([(Cause::Arm, rate), (Cause::Stop, 0.0), (Cause::Expiry, rate)])
}
