// SPDX-License-Identifier: GPL-2.0-only
//! What one recording of noise came to, of the guest's CPUs that sampled.

use super::{
    join::absences,
    ledger::{ledger, Entry, Ledger},
    parts::Parts,
    rank::Source,
    recording::{is_tick, Absence, Class, GuestNoise, HostNoise, Kind},
};
use crate::cause::Cause;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// So many moments of a sample's window are kept, each as long as the others.
pub const MOMENTS: u64 = 50;

/// A recording of noise, of the CPUs that sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NoiseSample {
    /// How many CPUs of the guest sampled.
    pub cpus: u32,
    /// For how long.
    pub window_ns: u64,
    /// Gaps that osnoise found.
    pub gaps: u64,
    /// The time of all gaps.
    pub noise_ns: u64,
    /// Its parts, which add up to it.
    pub parts: Parts,
    /// The longest gap.
    pub longest_ns: u64,
    /// Gaps that osnoise calls hardware noise.
    pub unknown_to_guest: u64,
    /// Gaps that neither side explains.
    pub unexplained: u64,
    /// How much of them.
    pub unexplained_ns: u64,
    /// Exits of these CPUs that KVM alone dealt with.
    pub light: u64,
    /// Those that left KVM_RUN.
    pub heavy: u64,
    /// Those in which the vCPU had nothing to do.
    pub halts: u64,
    /// All of them, by cause.
    pub by_cause: BTreeMap<Cause, u64>,
    /// The guest's own timer interrupts in the gaps.
    pub guest_ticks: u64,
    /// By name: how often the host ran it instead.
    pub preemptions: BTreeMap<String, u64>,
    /// Of all vCPUs.
    pub audit: Audited,
    /// Equal parts of the window, in their order.
    pub moments: Vec<Moment>,
}

/// Exits in a part of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Audited {
    /// All exits.
    pub exits: u64,
    /// The emulator's; `null`: it did not count.
    pub world_switches: Option<u64>,
    /// Exits that KVM alone dealt with.
    pub light: u64,
    /// Those that left KVM_RUN.
    pub heavy: u64,
    /// Those in which the vCPU had nothing to do.
    pub halts: u64,
    /// Those that went on at the end.
    pub open: u64,
}

/// A part of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Moment {
    /// Another task of the host ran.
    pub steal_ns: u64,
    /// KVM, the VMM and the host's interrupts.
    pub hypervisor_ns: u64,
}

/// Counts or times that do not add up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unbalanced {
    #[error("a gap of {ns} ns on CPU {cpu} has parts of {parts} ns")]
    Gap { cpu: u32, ns: u64, parts: u128 },
    #[error("an exit of {ns} ns on vCPU {vcpu} has parts of {parts} ns")]
    Exit { vcpu: u32, ns: u64, parts: u128 },
    #[error(
        "{exits} exits, but {ended} light, heavy and halts, and {open} vCPUs out of the guest"
    )]
    Classes { exits: u64, ended: u64, open: u64 },
    #[error("{exits} exits, but the emulator counted {world_switches} world switches")]
    Switches { exits: u64, world_switches: u64 },
}

impl NoiseSample {
    /// `process` is the guest's VMM, and `cpus` are those that sampled.
    pub fn of(guest: &GuestNoise, host: &HostNoise, process: u32, cpus: &[u32]) -> NoiseSample {
        let book = ledger(guest, Some((host, process)));
        let mut sample = NoiseSample {
            cpus: cpus.len() as u32,
            window_ns: book.window_ns,
            noise_ns: book.noise_ns(),
            gaps: book.entries.len() as u64,
            parts: book.parts(),
            longest_ns: book.entries.iter().map(|gap| gap.ns).max().unwrap_or(0),
            unexplained: book.unexplained() as u64,
            audit: Audited::of(host),
            moments: moments(&book, guest.begin_ns),
            ..NoiseSample::default()
        };
        book.entries.iter().for_each(|entry| sample.count(entry));
        let window = guest.begin_ns as i64..guest.end_ns as i64;
        for cpu in cpus {
            let away = absences(&guest.clock, host, process, *cpu);
            let within = away.iter().filter(|away| window.contains(&away.begin));
            within.for_each(|away| sample.exit(away.absence));
        }
        sample
    }

    fn count(&mut self, entry: &Entry) {
        self.unknown_to_guest += u64::from(entry.unknown_to_guest);
        for event in &entry.events {
            match &event.source {
                Source::Unexplained => self.unexplained_ns += event.ns,
                Source::Guest { kind: Kind::Irq, name } if is_tick(name) => self.guest_ticks += 1,
                Source::Preempted { by } => {
                    *self.preemptions.entry(by.clone()).or_default() += 1;
                }
                _ => {}
            }
        }
    }

    fn exit(&mut self, absence: &Absence) {
        match absence.class {
            Class::Light => self.light += 1,
            Class::Heavy => self.heavy += 1,
            Class::Halt => self.halts += 1,
        }
        *self.by_cause.entry(absence.cause).or_default() += 1;
    }

    pub fn cause(&self, cause: Cause) -> u64 {
        self.by_cause.get(&cause).copied().unwrap_or(0)
    }

    /// KVM, the VMM (also where it slept) and the host's interrupts: the thesis' virtualization
    /// noise, which is all but steal.
    pub fn hypervisor_ns(&self) -> u64 {
        let Parts { kvm, vmm, blocked, interrupted, .. } = self.parts;
        kvm + vmm + blocked + interrupted
    }

    /// The guest's own interrupts, softirqs, threads and NMIs.
    pub fn guest_ns(&self) -> u64 {
        let Parts { nmi, irq, softirq, thread, .. } = self.parts;
        nmi + irq + softirq + thread
    }

    /// What guest and host did because of a timer of the guest's.
    pub fn guest_timer_events(&self) -> u64 {
        let exits = [Cause::Arm, Cause::Stop, Cause::Expiry].map(|cause| self.cause(cause));
        exits.iter().sum::<u64>() + self.guest_ticks
    }

    /// Whose total it is.
    pub fn per_second(&self, total: u64) -> f64 {
        total as f64 * 1e9 / self.whole_ns()
    }

    /// The window, once for each CPU.
    fn whole_ns(&self) -> f64 {
        (self.window_ns as f64 * f64::from(self.cpus)).max(1.0)
    }

    /// How much of the CPUs was left for the work, in per cent.
    pub fn available(&self) -> f64 {
        100.0 * (1.0 - self.noise_ns as f64 / self.whole_ns())
    }
}

impl Audited {
    fn of(host: &HostNoise) -> Audited {
        let [light, heavy, halts] =
            [Class::Light, Class::Heavy, Class::Halt].map(|class| host.audited(class));
        let Some(audit) = &host.audit else { return Audited::default() };
        let open = audit.exits.saturating_sub(light + heavy + halts);
        let world_switches = audit.world_switches;
        Audited { exits: audit.exits, world_switches, light, heavy, halts, open }
    }
}

/// Everything that has to add up in a recording, and does not.
pub fn unbalanced(guest: &GuestNoise, host: &HostNoise, process: u32) -> Vec<Unbalanced> {
    let book = ledger(guest, Some((host, process)));
    let mut wrong: Vec<Unbalanced> = book.entries.iter().filter_map(unbalanced_gap).collect();
    wrong.extend(host.absences.iter().filter_map(unbalanced_exit));
    let Audited { exits, world_switches, light, heavy, halts, open } = Audited::of(host);
    let ended = light + heavy + halts;
    // A vCPU has at most one exit at a time.
    if ended + open != exits || open > host.tsc_offsets.len() as u64 {
        wrong.push(Unbalanced::Classes { exits, ended, open });
    }
    match world_switches {
        Some(world_switches) if world_switches != exits => {
            wrong.push(Unbalanced::Switches { exits, world_switches });
        }
        _ => {}
    }
    wrong
}

fn unbalanced_gap(entry: &Entry) -> Option<Unbalanced> {
    // A sum that wraps around would be right by accident.
    let parts: u128 = entry.parts.all().into_iter().map(u128::from).sum();
    let events: u128 = entry.events.iter().map(|event| u128::from(event.ns)).sum();
    let (cpu, ns) = (entry.cpu, entry.ns);
    let wrong = [parts, events].into_iter().find(|sum| *sum != u128::from(ns))?;
    Some(Unbalanced::Gap { cpu, ns, parts: wrong })
}

fn unbalanced_exit(one: &Absence) -> Option<Unbalanced> {
    let parts = [one.kvm_ns, one.vmm_ns, one.blocked_ns, one.waited_ns, one.interrupted_ns];
    let parts: u128 = parts.into_iter().map(u128::from).sum();
    let (vcpu, ns) = (one.vcpu, one.ns);
    (parts != u128::from(ns)).then_some(Unbalanced::Exit { vcpu, ns, parts })
}

/// What a ledger that begins then has in [`MOMENTS`] equal parts of its time.  A gap counts where
/// it begins.
pub fn moments(book: &Ledger, begin_ns: u64) -> Vec<Moment> {
    let each = (book.window_ns / MOMENTS).max(1);
    let mut moments = vec![Moment::default(); MOMENTS as usize];
    for entry in &book.entries {
        let place = entry.begin_ns.saturating_sub(begin_ns) / each;
        let moment = &mut moments[(place.min(MOMENTS - 1)) as usize];
        let Parts { kvm, vmm, blocked, waited, interrupted, .. } = entry.parts;
        moment.steal_ns += waited;
        moment.hypervisor_ns += kvm + vmm + blocked + interrupted;
    }
    moments
}

#[cfg(test)]
#[path = "sample_tests.rs"]
mod tests;
