// SPDX-License-Identifier: GPL-2.0-only
//! How many exits a VM would be spared, by the exits that it has.  docs/exits.md has the errors.

use super::{
    sum,
    ticks::{is_of_apic, slower, Ticks},
    Exits, Kind, Observed, Vm,
};
use crate::{cause::Cause, reason::is_msr_write, units::Hz};
use serde::Serialize;

/// Less than this share of all exits is not worth a word.
const LEAST: f64 = 0.01;
/// A VM with one of these has the series.
const OF_SERIES: [&str; 2] = ["KVM's HALT_UNTIL", "kvm_pv_tick_timer_fn"];
const ENDED: [&str; 2] = ["X2APIC_EOI", "APIC, EOI"];
/// A guest that looks after its TSC reads another clock less often than this, per second.
pub const WATCHED: f64 = 20.0;
/// They are read to be armed, as devices are that the VM arms; and an idle CPU checks once a second
/// whether somebody adjusted its TSC (`tsc_verify_tsc_adjust()`), whichever clock it has.
pub const NO_CLOCKS: [&str; 3] = ["X2APIC_TMCCT", "APIC, TMCCT", "TSC_ADJUST"];

/// What could be changed, so that a VM makes fewer exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spares {
    /// Virtual ticks, and deadlines that go with halts: of a Linux guest, with the kernel series on
    /// both sides.  Other timers than the APIC's stay.
    Series,
    /// A slower tick of the guest's.
    TickRate,
    /// A clock that the guest reads without an exit.
    Clock,
    /// Ends of interrupts that need no exit: paravirtual, or by the processor.
    Eoi,
}

impl Spares {
    fn spares(self, vm: &Vm, kind: &Kind) -> bool {
        let Kind { cause, about, reason } = kind;
        let about = about.as_deref();
        let is = |words: &[&str]| about.is_some_and(|about| words.contains(&about));
        match (self, cause) {
            (Spares::Series, _) => is_of_apic(kind),
            (Spares::Clock, Cause::Clock) => {
                // Only a program reads the RTC again and again.
                let stays = |about: &str| {
                    ["KVM's ", "RTC, "].iter().any(|one| about.starts_with(one))
                        || vm.arms_what_has(about)
                };
                !is_msr_write(reason) && !is(&NO_CLOCKS) && !about.is_some_and(stays)
            }
            // Of AVIC's, no other processor would spare one.
            (Spares::Eoi, Cause::Eoi) => is(&ENDED) && !reason.starts_with("avic"),
            _ => false,
        }
    }
}

/// What a change would do to a VM.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Would<'a> {
    pub vm: &'a str,
    pub process: u32,
    pub by: Spares,
    /// Of a slower tick, which one.
    #[serde(flatten)]
    pub ticks: Option<Ticks>,
    /// Exits that it would not make, a second.
    pub spares_per_second: f64,
    /// Of all its exits.
    pub share: f64,
}

impl Observed {
    /// For each VM the changes that would spare it one exit of 100 or more.  None of a recording
    /// that does not tell timers apart.
    pub fn would(&self) -> Vec<Would<'_>> {
        let known = self.lacks.is_empty();
        let each = self.vms.iter().filter(|_| known).flat_map(|vm| vm.would(self.host_hz));
        each.filter(|would| would.share >= LEAST).collect()
    }
}

impl Vm {
    /// Of a register of a device, whether the VM arms that device: `HPET, 0xfed000f0`.
    fn arms_what_has(&self, register: &str) -> bool {
        let Some((device, _)) = register.split_once(", ") else { return false };
        let is_its = |about: &str| about.split_once(", ").is_some_and(|(its, _)| its == device);
        let arms = |exits: &Exits| exits.kind.cause == Cause::Arm;
        let about = |exits: &Exits| exits.kind.about.as_deref().is_some_and(is_its);
        self.exits.iter().any(|exits| arms(exits) && about(exits))
    }

    fn would(&self, host_hz: Option<Hz>) -> Vec<Would<'_>> {
        let has_series = self.exits.iter().any(|exits| {
            exits.kind.about.as_deref().is_some_and(|about| OF_SERIES.contains(&about))
        });
        let by = |by: Spares| {
            let those = |exits: &&Exits| by.spares(self, &exits.kind);
            self.spared(by, sum(self.exits.iter().filter(those)).count)
        };
        let of_ticks = match has_series {
            true => Vec::new(),
            false => {
                let slower = slower(self, host_hz).into_iter().map(|slower| {
                    let would = self.spared(Spares::TickRate, slower.spares);
                    Would { ticks: Some(slower.ticks), ..would }
                });
                [by(Spares::Series)].into_iter().chain(slower).collect()
            }
        };
        let clock = by(Spares::Clock);
        let clock = Some(clock).filter(|clock| clock.spares_per_second >= WATCHED);
        of_ticks.into_iter().chain(clock).chain([by(Spares::Eoi)]).collect()
    }

    fn spared(&self, by: Spares, count: u64) -> Would<'_> {
        Would {
            vm: &self.name,
            process: self.process,
            by,
            ticks: None,
            spares_per_second: self.per_second(count),
            share: count as f64 / self.all().count.max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::tests::{exits, observed, vm};

    fn spared(exits: Vec<Exits>) -> Vec<(Spares, f64, f64)> {
        let seen = observed(vec![vm("web", 7, exits)]);
        let would = seen.would();
        assert!(would.iter().all(|would| (would.vm, would.process) == ("web", 7)));
        would.iter().map(|would| (would.by, would.spares_per_second, would.share)).collect()
    }

    #[test]
    fn the_series_spare_the_exits_of_the_apics_timer_alone() {
        let of = |cause, about: &str, count| exits(0, cause, about, count);
        let timers = vec![
            of(Cause::Arm, "TSC_DEADLINE", 20),
            of(Cause::Stop, "APIC, TMICT", 4),
            of(Cause::Expiry, "apic_timer_fn", 16),
            of(Cause::HostTick, "tick", 60),
        ];
        assert_eq!(spared(timers), [(Spares::Series, 20.0, 0.4)]);
        let mut preemption = of(Cause::Expiry, "", 10);
        preemption.kind.about = None;
        assert_eq!(spared(vec![preemption]), [(Spares::Series, 5.0, 1.0)]);
        // It has them, and arms for timers that are short.
        let has = vec![of(Cause::Arm, "TSC_DEADLINE", 20), of(Cause::Halt, "KVM's HALT_UNTIL", 2)];
        assert_eq!(spared(has), []);
        let others = vec![
            of(Cause::Arm, "PIT, port 0x40", 20),
            of(Cause::Arm, "HV_STIMER0_COUNT", 20),
            of(Cause::Expiry, "stimer_timer_callback", 20),
            of(Cause::Expiry, "vmx_preemption_timer_fn", 20),
        ];
        assert_eq!(spared(others), []);
    }

    #[test]
    fn a_clock_and_ends_of_interrupts_are_told_where_no_timer_asks_for_them() {
        let of = |cause, about: &str, count| exits(0, cause, about, count);
        let reads = |about: &str, count| {
            let mut exits = of(Cause::Clock, about, count);
            exits.kind.reason = "io".into();
            exits
        };
        let some = vec![
            reads("PM timer, port 0x608", 30),
            reads("HPET, 0xfed000f0", 10),
            of(Cause::Eoi, "X2APIC_EOI", 50),
            of(Cause::Eoi, "RTC, port 0x71", 10),
        ];
        assert_eq!(spared(some), [(Spares::Clock, 20.0, 0.4), (Spares::Eoi, 25.0, 0.5)]);
        let mut avic = of(Cause::Eoi, "APIC, EOI", 10);
        avic.kind.reason = "avic_unaccelerated_access".into();
        let timers = vec![
            reads("HPET, 0xfed000f0", 10),
            of(Cause::Arm, "HPET, 0xfed00108", 10),
            reads("APIC, TMCCT", 10),
            reads("TSC_ADJUST", 10),
            reads("RTC, port 0x71", 100),
            // By a watchdog: 15 a second.
            reads("PM timer, port 0x608", 30),
            of(Cause::Clock, "MSR_KVM_SYSTEM_TIME_NEW", 10),
            avic,
        ];
        assert_eq!(spared(timers), []);
    }

    #[test]
    fn less_than_one_of_100_is_not_told_nor_what_a_recording_does_not_tell() {
        let timers = |arms| {
            let arms = exits(0, Cause::Arm, "TSC_DEADLINE", arms);
            observed(vec![vm("web", 7, vec![arms, exits(0, Cause::Io, "port 0x3f8", 990)])])
        };
        assert!(timers(9).would().is_empty());
        assert_eq!(timers(10).would().len(), 1);
        let recorded = Observed { lacks: vec!["timers".into()], ..timers(10) };
        assert!(recorded.would().is_empty());
    }
}
