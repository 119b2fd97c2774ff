// SPDX-License-Identifier: GPL-2.0-only
//! How fast a guest's tick is, by the exits of its busy vCPUs, and what a slower one would spare.
//!
//! A busy vCPU of a Linux guest arms its timer for each tick of its busy time, and makes an exit
//! for each tick that finds it in the guest (`model/kernel.rs`).  A count of such exits is a rate
//! only where two clocks agree on the time: the exits' own times, and the host's ticks.

use super::{sum, Exits, Kind, Vm};
use crate::{
    cause::Cause,
    units::{Hz, Nanos},
};
use serde::Serialize;

/// Of local APICs.
const ARMED: [&str; 3] = ["TSC_DEADLINE", "X2APIC_TMICT", "APIC, TMICT"];
const EXPIRED: &str = "apic_timer_fn";
/// Of Linux (kernel/Kconfig.hz), without 300: a guest of 250 Hz with a few timers of programs looks
/// like that.
const RATES: [Hz; 3] = [Hz(100), Hz(250), Hz(1000)];
/// To these a guest can be set: what distributions have.
const SLOWER: [Hz; 2] = [Hz(250), Hz(100)];
/// Where there are fewer expiries, chance is too large a part of them.
const FEWEST: u64 = 200;
/// A busy vCPU sleeps for less than this share of the time …
const SLEEPS: f64 = 0.1;
/// … and is in the guest for more than this one.
const IN_GUEST: f64 = 0.5;
/// Rates are the same up to this share: by the vCPU's own time, and by the host's ticks.
const OFF: f64 = 0.03;
const OFF_BY_TICKS: f64 = 0.05;
const OFF_BY_ARMS: f64 = 0.1;
/// Arms for each halt, at most: before it, and to start the tick again.
const OF_HALT: f64 = 4.0;

/// Whether what arms, stops or expires is the APIC's timer.
pub fn is_of_apic(Kind { cause, about, .. }: &Kind) -> bool {
    let about = about.as_deref();
    match cause {
        Cause::Arm | Cause::Stop => about.is_some_and(|about| ARMED.contains(&about)),
        // The preemption timer's own exit is about nothing else.
        Cause::Expiry => about.is_none_or(|about| about == EXPIRED),
        _ => false,
    }
}

/// A guest's tick as it seems to be, and another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Ticks {
    pub guest_hz: Hz,
    pub to_hz: Hz,
}

/// What a slower tick would spare a VM.
pub struct Slower {
    pub ticks: Ticks,
    pub spares: u64,
}

/// The timer's exits of one vCPU, and its time.
struct Vcpu {
    arms: f64,
    expiries: f64,
    host_ticks: f64,
    halts: f64,
    seconds: f64,
    in_guest: f64,
    asleep: f64,
}

impl Vcpu {
    fn of(vm: &Vm, exits: &[&Exits]) -> Vcpu {
        let count = |is: &dyn Fn(&Kind) -> bool| {
            sum(exits.iter().copied().filter(|one| is(&one.kind))).count as f64
        };
        let spent = sum(exits.iter().copied());
        let seconds = |ns| Nanos(ns).seconds();
        Vcpu {
            arms: count(&|kind| kind.cause == Cause::Arm && is_of_apic(kind)),
            expiries: count(&|kind| kind.cause == Cause::Expiry && is_of_apic(kind)),
            host_ticks: count(&|kind| kind.cause == Cause::HostTick),
            halts: count(&|kind| kind.cause == Cause::Halt),
            seconds: seconds(vm.ns),
            in_guest: seconds(vm.ns.saturating_sub(spent.ns())),
            asleep: seconds(spent.blocked_ns),
        }
    }

    fn is_busy(&self) -> bool {
        self.asleep <= SLEEPS * self.seconds && self.in_guest >= IN_GUEST * self.seconds
    }

    /// None where it is not busy, or its timer is none of a tick alone.
    fn rate(&self, host: Hz) -> Option<Hz> {
        if !self.is_busy() || self.expiries < FEWEST as f64 || self.host_ticks == 0.0 {
            return None;
        }
        let own = self.expiries / self.in_guest;
        // What a vCPU did before its first exit is not known: it may have slept all that time.
        let by_ticks = f64::from(host.0) * self.expiries / self.host_ticks;
        let is = |rate: &Hz| {
            let rate = f64::from(rate.0);
            let near = |seen: f64, off: f64| (seen / rate - 1.0).abs() <= off;
            near(own, OFF) && near(by_ticks, OFF_BY_TICKS) && self.arms_are_of(rate)
        };
        RATES.into_iter().find(is)
    }

    /// A guest arms once for each tick, also for those that find it elsewhere; or, where its timer
    /// is periodic, never.  For a timer of a program that expires it has armed twice.
    fn arms_are_of(&self, rate: f64) -> bool {
        let ticks = rate * (self.seconds - self.asleep);
        let most = ticks * (1.0 + OFF_BY_ARMS) + OF_HALT * self.halts;
        let least = self.expiries * (1.0 - OFF_BY_ARMS);
        (least..=most).contains(&self.arms) || self.arms <= OFF_BY_ARMS * self.expiries
    }

    /// Of its timer's exits, those that are for ticks: other timers make it more.
    fn of_ticks(&self, rate: Hz) -> f64 {
        let ticks = self.expiries.min(f64::from(rate.0) * self.in_guest);
        ticks + self.arms.min(ticks)
    }
}

/// What each slower tick would spare at least; nothing where the guest's own rate is not known.
pub fn slower(vm: &Vm, host: Option<Hz>) -> Vec<Slower> {
    let vcpus = vcpus(vm);
    // The time of an exit that was lost seems to be the guest's.
    let known = host.filter(|_| vm.lost == 0).and_then(|host| rate(&vcpus, host));
    let Some(guest_hz) = known else { return Vec::new() };
    let of_ticks: f64 = vcpus.iter().map(|vcpu| vcpu.of_ticks(guest_hz)).sum();
    let spares = |to: Hz| (of_ticks * (1.0 - f64::from(to.0) / f64::from(guest_hz.0))) as u64;
    let slower = SLOWER.into_iter().filter(|to| 2 * to.0 <= guest_hz.0);
    slower.map(|to_hz| Slower { ticks: Ticks { guest_hz, to_hz }, spares: spares(to_hz) }).collect()
}

/// Of all that are busy: they have one kernel.
fn rate(vcpus: &[Vcpu], host: Hz) -> Option<Hz> {
    let mut rates = vcpus.iter().filter_map(|vcpu| vcpu.rate(host));
    let first = rates.next()?;
    rates.all(|rate| rate == first).then_some(first)
}

fn vcpus(vm: &Vm) -> Vec<Vcpu> {
    let mut exits: Vec<&Exits> = vm.exits.iter().collect();
    exits.sort_by_key(|exits| exits.vcpu);
    exits.chunk_by(|one, next| one.vcpu == next.vcpu).map(|of| Vcpu::of(vm, of)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::{
        tests::{exits, observed, vm},
        Observed, Spares, Spent,
    };

    /// A vCPU of a guest with this tick, in two seconds: so many of 1000 it is in the guest, and
    /// asleep.  Each exit takes 1 us.
    fn ticking(vcpu: u32, hz: u64, in_guest: u64, asleep: u64) -> Vec<Exits> {
        let mut halts = exits(vcpu, Cause::Halt, "hlt", 20);
        let others = vec![
            exits(vcpu, Cause::Arm, "TSC_DEADLINE", 2 * hz * (1000 - asleep) / 1000),
            exits(vcpu, Cause::Expiry, "apic_timer_fn", 2 * hz * in_guest / 1000),
            exits(vcpu, Cause::HostTick, "tick", 500 * in_guest / 1000),
        ];
        let rest = (1000 - in_guest) * 2_000_000 - (sum(&others).ns() + halts.spent.ns());
        let steal_ns = rest - asleep * 2_000_000;
        halts.spent += &Spent { blocked_ns: asleep * 2_000_000, steal_ns, ..Spent::default() };
        [others, vec![halts]].concat()
    }

    fn told(seen: &Observed) -> Vec<(Ticks, f64)> {
        let would = seen.would();
        let slower = would.iter().filter(|would| would.by == Spares::TickRate);
        slower.map(|would| (would.ticks.unwrap(), would.spares_per_second)).collect()
    }

    fn of(exits: Vec<Exits>) -> Vec<(Ticks, f64)> {
        told(&observed(vec![vm("web", 7, exits)]))
    }

    fn ticks(guest: u32, to: u32) -> Ticks {
        Ticks { guest_hz: Hz(guest), to_hz: Hz(to) }
    }

    #[test]
    fn a_busy_vcpu_tells_its_tick_and_what_slower_ones_spare() {
        let seen = of(ticking(0, 1000, 990, 0));
        assert_eq!(seen, [(ticks(1000, 250), 1485.0), (ticks(1000, 100), 1782.0)]);
        // It is stolen from, and sleeps now and then.
        assert_eq!(of(ticking(0, 250, 600, 50)), [(ticks(250, 100), 180.0)]);
        assert_eq!(of(ticking(0, 100, 990, 0)), []);
    }

    #[test]
    fn what_ticks_in_idle_vcpus_is_spared_and_other_timers_are_not() {
        let busy = ticking(0, 250, 990, 0);
        let idle = ticking(1, 250, 100, 890);
        assert_eq!(of(idle.clone()), []);
        assert_eq!(of([busy.clone(), idle].concat()), [(ticks(250, 100), 327.0)]);
        // With timers of programs: as if it ticked whenever it is in the guest.
        let other = ticking(1, 1250, 100, 890);
        assert_eq!(of([busy, other].concat()), [(ticks(250, 100), 327.0)]);
    }

    #[test]
    fn a_rate_that_could_be_something_else_is_not_told() {
        // No kernel has it, or it may be 250 with timers of programs; two kernels cannot be.
        assert_eq!(of(ticking(0, 500, 990, 0)), []);
        assert_eq!(of(ticking(0, 300, 990, 0)), []);
        assert_eq!(of([ticking(0, 250, 990, 0), ticking(1, 1000, 990, 0)].concat()), []);
        // It sleeps too much, or is too seldom in the guest.
        assert_eq!(of(ticking(0, 250, 700, 250)), []);
        assert_eq!(of(ticking(0, 250, 400, 50)), []);
        // Each expiry has two arms, as those of sleeps have.
        let armed = exits(0, Cause::Arm, "TSC_DEADLINE", 500);
        assert_eq!(of([ticking(0, 250, 990, 0), vec![armed]].concat()), []);
        // The timer is another one.
        let mut hpet = ticking(0, 250, 990, 0);
        hpet.iter_mut().for_each(|one| one.kind.about = Some("HPET, 0xfed00108".into()));
        assert_eq!(of(hpet), []);
    }

    #[test]
    fn a_vcpu_that_may_have_slept_before_its_first_exit_is_held_to_the_host_s_ticks() {
        // Of a tick of 1000 Hz, a quarter of the time.
        let mut late = ticking(0, 250, 990, 0);
        let of_host = |one: &&mut Exits| one.kind.cause == Cause::HostTick;
        late.iter_mut().filter(of_host).for_each(|one| one.spent.count /= 4);
        assert_eq!(of(late.clone()), []);
        late.retain(|one| one.kind.cause != Cause::HostTick);
        assert_eq!(of(late), []);
        let seen = observed(vec![vm("web", 7, ticking(0, 250, 990, 0))]);
        assert_eq!(told(&seen).len(), 1);
        assert_eq!(told(&Observed { host_hz: None, ..seen.clone() }), []);
        assert_eq!(told(&Observed { host_hz: Some(Hz(1000)), ..seen.clone() }), []);
        let mut lost = seen;
        lost.vms[0].lost = 1;
        assert_eq!(told(&lost), []);
    }

    #[test]
    fn a_periodic_timer_is_never_armed() {
        let mut periodic = ticking(0, 250, 1000 - 2, 0);
        periodic.retain(|one| one.kind.cause != Cause::Arm);
        let seen = of(periodic);
        assert_eq!(seen.len(), 1);
        assert!((seen[0].1 - 150.0).abs() <= 1.0, "{seen:?}");
    }

    #[test]
    fn a_guest_that_has_the_series_is_left_alone() {
        let has = exits(0, Cause::Halt, "KVM's HALT_UNTIL", 2);
        assert_eq!(of([ticking(0, 250, 990, 0), vec![has]].concat()), []);
    }
}
