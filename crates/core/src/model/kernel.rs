// SPDX-License-Identifier: GPL-2.0-only
//! What Linux 6.12 does in each tick mode, per vCPU and second, counted by the causes that
//! `paratick` measures.
//!
//! Three facts of KVM and Linux make these differ from the paper's formulas:
//!
//! * A timer that expires while the vCPU is halted costs no exit: the host's own timer wakes the
//!   vCPU's thread.  The halt was an exit, and is counted as one.
//! * `hrtimer_interrupt()` programs the event device for what comes next after every expiry.
//! * With high resolution timers "stopping" the tick means programming the event device for
//!   whatever timer comes next.  Since the soft lockup detector has one on every CPU there always is
//!   one: the write is an `arm`, and `stop` (a write of 0) is 0 in all these models.
//!
//! Housekeeping that any kernel does in any mode is part of the load, not of the models.

use super::{Estimate, Exits, Load, Vm};
use crate::cause::Cause;

/// The series asks every 4 s of a running vCPU whether its ticks still come (VIRTUAL_TICK_CHECK).
const CHECKS_PER_SECOND: f64 = 0.25;

/// Writes of `tick_nohz_restart()` as 6.12 has it: `hrtimer_cancel()` programs the device if the
/// tick's timer was the next to expire, and `hrtimer_start()` programs it again.
fn restart(estimate: Estimate) -> f64 {
    estimate.pick(1.0, 1.5, 2.0)
}

/// After a timer of the kernel's own has ended an idle period, `hrtimer_cancel()` finds nothing
/// queued: one write, or none if no task had to run and the vCPU halts again at once.
fn restart_after_expiry(estimate: Estimate) -> f64 {
    estimate.pick(0.0, 0.25, 1.0)
}

/// The tick goes on at all times.  In an idle vCPU it ends a halt instead of interrupting a run.
pub fn periodic(vm: &Vm) -> Exits {
    let (hz, load) = (f64::from(vm.hz.0), &vm.load);
    let ticks = common(vm, hz, hz * load.in_guest, hz * (1.0 - load.busy));
    ticks + arms(sleeping(load))
}

/// Idle entry: the tick's timer is moved to the next event (1 write; none before a sleep, whose own
/// timer is earlier).  Idle exit: it is moved back (1 or 2).
pub fn tickless_stop(vm: &Vm, estimate: Estimate) -> Exits {
    let (hz, load) = (f64::from(vm.hz.0), &vm.load);
    let wakes = &load.wakes;
    let idle = (wakes.ipi + wakes.device) * (1.0 + restart(estimate))
        + wakes.sleep * restart(estimate)
        + wakes.kernel * (2.0 + restart_after_expiry(estimate));
    common(vm, hz * load.busy, hz * load.in_guest, 0.0) + arms(idle + sleeping(load))
}

/// `idle_call_stop_or_retain_tick()` without a cpuidle driver: an idle entry keeps the tick, so a
/// short idle period costs nothing.  Where the tick falls into the period it ends a halt, is armed
/// again, and is now stopped as [`tickless_stop`] does, for one more halt.
pub fn tickless(vm: &Vm, estimate: Estimate) -> Exits {
    let (hz, load) = (f64::from(vm.hz.0), &vm.load);
    let wakes = &load.wakes;
    let hit = hit_by_tick(vm);
    // It is not always stopped then: RCU or a timer may need the very next tick.  In recorded runs
    // it was in three of ten idle periods far shorter than a tick, and always in long ones.
    let stop = estimate.pick(0.0, 0.3 + 0.7 * hit, 1.0);
    let restart = stop * restart(estimate);
    let per_hit = (wakes.ipi + wakes.device) * (1.0 + stop + restart)
        + wakes.sleep * (1.0 + restart)
        + wakes.kernel * (3.0 + restart_after_expiry(estimate));
    let halts = hit * load.idle_periods();
    common(vm, hz * load.busy, hz * load.in_guest, halts) + arms(hit * per_hit + sleeping(load))
}

/// Ticks ride on the host's.  Idle entry arms a timer if something new has to wake the vCPU before
/// what is armed already does; idle exit stops nothing.
pub fn paratick(vm: &Vm, estimate: Estimate) -> Exits {
    let load = &vm.load;
    let wakes = &load.wakes;
    // The timer wheel is no finer than a tick: what comes sooner brings no new deadline.
    let new_deadline = estimate.pick(0.0, if is_long(vm) { 1.0 } else { 0.0 }, 1.0);
    // A kernel's timer that has expired leaves none armed: one write after its expiry, one at the
    // next idle entry.  Idle exit arms the check, 4 s away, which the lockup detector's timer precedes.
    let idle = (wakes.ipi + wakes.device) * new_deadline
        + wakes.sleep * estimate.pick(0.0, 0.0, 1.0)
        + wakes.kernel * estimate.pick(2.0, 2.0, 3.0);
    let checks = CHECKS_PER_SECOND * load.busy;
    common(vm, checks, CHECKS_PER_SECOND * load.in_guest, 0.0) + arms(idle + sleeping(load))
}

/// No timer costs an exit to arm, and none expires by an exit of its own while the vCPU runs: what
/// is left is the host's tick, the halts and the wake-ups.
pub fn posted_deadlines(vm: &Vm) -> Exits {
    common(vm, 0.0, 0.0, 0.0)
}

/// What every mode has, and the tick's own arms, expiries and halts.
fn common(vm: &Vm, arm: f64, expiry: f64, tick_halts: f64) -> Exits {
    Exits::of([
        (Cause::Arm, arm),
        (Cause::Stop, 0.0),
        (Cause::Expiry, expiry),
        (Cause::HostTick, f64::from(vm.host_hz.0) * vm.load.in_guest),
        (Cause::Halt, vm.load.idle_periods() + tick_halts),
        (Cause::Ipi, vm.load.wakes.ipi),
    ])
}

fn arms(count: f64) -> Exits {
    Exits::of([(Cause::Arm, count)])
}

/// A sleep's timer is armed when it begins, and the device is programmed for the next one when it
/// has expired.
fn sleeping(load: &Load) -> f64 {
    2.0 * load.wakes.sleep
}

/// The share of idle periods in which the tick falls, if they are all alike and the tick comes at
/// any time.
pub(super) fn hit_by_tick(vm: &Vm) -> f64 {
    match vm.load.idle_period() {
        Some(period) => (period * f64::from(vm.hz.0)).min(1.0),
        None => 0.0,
    }
}

/// Idle periods are at least a tick long.
fn is_long(vm: &Vm) -> bool {
    hit_by_tick(vm) >= 1.0
}
