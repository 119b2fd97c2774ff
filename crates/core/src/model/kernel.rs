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
//!   whatever timer comes next.  Since the soft lockup detector has one on every CPU there always
//!   is one: the write is an `arm`, and `stop` (a write of 0) is 0 in all these models.
//!
//! Housekeeping that any kernel does in any mode is part of the load, not of the models.

use super::{Estimate, Exits, Load, Vm};
use crate::cause::Cause;

/// The series asks every 4 s of a running vCPU whether its ticks still come (VIRTUAL_TICK_CHECK).
const CHECKS_PER_SECOND: f64 = 0.25;

/// Writes of `tick_nohz_restart()` as 6.12 has it: `hrtimer_cancel()` programs the device if the
/// tick's timer was the next to expire, and `hrtimer_start()` programs it again.
///
/// While another vCPU of the guest runs, that one looks after the timer wheels of those that are
/// idle (timer_migration.c): nothing of the wheel is left for the stopped tick to be moved to, and
/// the soft lockup detector's timer is the next to expire.  One write.  When all are idle at once,
/// the last one has to wake up for everybody's timers, and where these come first it is two.
fn restart(vm: &Vm, estimate: Estimate) -> f64 {
    estimate.pick(1.0, 1.0 + TICK_IS_NEXT * nobody_runs(vm), 2.0)
}

/// The share of restarts that take a second write, of those for which no other vCPU ran.
/// Calibrated: in the recorded runs of short idle periods no vCPU ran in three quarters of the
/// time, and half of the restarts took two.
const TICK_IS_NEXT: f64 = 2.0 / 3.0;

/// The share of the time in which no vCPU of the guest executes, if as few of them as possible do
/// so at the same time: 0 where one always computes while the others wait for it.
fn nobody_runs(vm: &Vm) -> f64 {
    (1.0 - f64::from(vm.vcpus) * vm.load.in_guest).max(0.0)
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
    let idle = (wakes.ipi + wakes.device) * (1.0 + restart(vm, estimate))
        + wakes.sleep * restart(vm, estimate)
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
    // It is stopped only if nothing has woken the vCPU by the time that the tick is over: the idle
    // task goes round again.  RCU or a timer may need the very next tick even then.
    let stop = estimate.pick(0.0, outlasts_tick(vm), 1.0);
    let restart = stop * restart(vm, estimate);
    let per_hit = (wakes.ipi + wakes.device) * (1.0 + stop + restart)
        + wakes.sleep * (1.0 + restart)
        + wakes.kernel * (3.0 + restart_after_expiry(estimate));
    let halts = hit * load.idle_periods();
    common(vm, hz * load.busy, hz * load.in_guest, halts) + arms(hit * per_hit + sleeping(load))
}

/// Ticks ride on the host's.  Idle entry arms a timer if something new has to wake the vCPU before
/// what is armed already does; idle exit stops nothing.
pub fn paratick_ticks(vm: &Vm, estimate: Estimate) -> Exits {
    let load = &vm.load;
    let wakes = &load.wakes;
    // The timer wheel is no finer than a tick: what comes sooner brings no new deadline.
    let new_deadline = estimate.pick(0.0, if is_long(vm) { 1.0 } else { 0.0 }, 1.0);
    let woken = wakes.ipi + wakes.device;
    // After a kernel's timer one write, and at the next idle entry another if a timer is left that
    // is due before the lockup detector's.  Idle exit arms the check, 4 s away, which the lockup
    // detector's timer precedes.
    let idle = (woken * new_deadline).max(deferrals(woken, load.ticked, estimate))
        + wakes.sleep * estimate.pick(0.0, 0.0, 1.0)
        + wakes.kernel * estimate.pick(1.0, 1.7, 3.0);
    let checks = CHECKS_PER_SECOND * load.busy;
    let expiries = CHECKS_PER_SECOND * load.in_guest + own_timer(vm);
    common(vm, checks, expiries, 0.0) + arms(idle + sleeping(load))
}

/// The same, and no timer costs an exit: what is armed before a halt goes with it, and a running
/// vCPU leaves what is due after its next tick to that.  What is due sooner, such as a program's
/// own interval timer, is not modelled.
pub fn paratick(vm: &Vm) -> Exits {
    common(vm, 0.0, own_timer(vm), 0.0)
}

/// Expiries of KVM's timer for virtual ticks.
fn own_timer(vm: &Vm) -> f64 {
    if host_tick_carries(vm) {
        return 0.0;
    }
    f64::from(vm.hz.0) * vm.load.in_guest
}

/// Where the guest's period is no multiple of the host's, to a 64th of that, KVM raises ticks with
/// a timer of its own, which expires for each of a vCPU that runs (pv_tick.c,
/// `kvm_pv_tick_needs_timer()`).
pub(super) fn host_tick_carries(vm: &Vm) -> bool {
    let periods = f64::from(vm.host_hz.0) / f64::from(vm.hz.0);
    periods.round() >= 1.0 && (periods - periods.round()).abs() <= 1.0 / 64.0
}

/// The scheduler's deadline server for fair tasks (deadline.c) puts its timer off whenever such
/// tasks, or the idle task, have used up its runtime of 50 ms: `hrtimer_try_to_cancel()`, then
/// `hrtimer_start()`.  In the other modes the tick's timer is before it, and neither programs the
/// device.  Without one both do, unless the lockup detector's timer or the tick's check is before
/// it,
/// or a timer of the wheel: the vCPUs that ticks interrupt (`ticked`, their share) always have one.
fn deferrals(woken: f64, ticked: f64, estimate: Estimate) -> f64 {
    const RUNTIME: f64 = 0.05;
    const PERIOD: f64 = 1.0;
    const OTHERS_PERIOD: f64 = 4.0;
    // The server's is due in 0.95 s, each of the two others at any time in the next 4.
    let is_next = (1.0 - (PERIOD - RUNTIME) / OTHERS_PERIOD).powi(2);
    let is_next = (1.0 - ticked) * is_next;
    2.0 * woken.min(1.0 / RUNTIME) * estimate.pick(0.0, is_next, 1.0)
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

/// The share of the idle periods that the tick falls into which go on once it has been taken, if it
/// falls into them at any time.
fn outlasts_tick(vm: &Vm) -> f64 {
    let taken = TICK_TAKES * f64::from(vm.in_turns.max(1));
    match vm.load.idle_period() {
        Some(period) => (1.0 - taken / period).max(0.0),
        None => 1.0,
    }
}

/// Seconds from the expiry of a halted vCPU's tick to the end of its handler: the host's timer
/// interrupt, the wake-up of the vCPU's thread, the entry, the guest's interrupt.  Calibrated.
const TICK_TAKES: f64 = 12.5e-6;

/// Idle periods are at least a tick long.
fn is_long(vm: &Vm) -> bool {
    hit_by_tick(vm) >= 1.0
}
