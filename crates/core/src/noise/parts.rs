// SPDX-License-Identifier: GPL-2.0-only
//! Where the time of noise went.

use crate::cause::Cause;
use serde::{Deserialize, Serialize};

/// The disjoint parts of some noise, each in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Parts {
    /// The guest's NMIs.
    pub nmi: u64,
    /// Its interrupts.
    pub irq: u64,
    /// Its softirqs.
    pub softirq: u64,
    /// Its threads.
    pub thread: u64,
    /// KVM.
    pub kvm: u64,
    /// The VMM.
    pub vmm: u64,
    /// The vCPU's thread slept.
    pub blocked: u64,
    /// Steal: it could run, and did not.
    pub waited: u64,
    /// The host's interrupts.
    pub interrupted: u64,
    /// What no tracepoint sees.
    pub rest: u64,
}

impl Parts {
    pub const NAMES: [&'static str; 10] = [
        "NMI",
        "IRQ",
        "softirq",
        "thread",
        "KVM",
        "VMM",
        "blocked",
        "steal",
        "host's interrupts",
        "rest",
    ];

    /// In the order of [`Parts::NAMES`].
    pub fn all(&self) -> [u64; 10] {
        let Parts { nmi, irq, softirq, thread, kvm, vmm, blocked, waited, interrupted, rest } =
            *self;
        [nmi, irq, softirq, thread, kvm, vmm, blocked, waited, interrupted, rest]
    }

    pub fn sum(&self) -> u64 {
        self.all().iter().sum()
    }

    pub fn add(&mut self, other: &Parts) {
        self.nmi += other.nmi;
        self.irq += other.irq;
        self.softirq += other.softirq;
        self.thread += other.thread;
        self.kvm += other.kvm;
        self.vmm += other.vmm;
        self.blocked += other.blocked;
        self.waited += other.waited;
        self.interrupted += other.interrupted;
        self.rest += other.rest;
    }
}

/// How often a vCPU left its guest, by how far it went, and how many of these were for a timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exits {
    pub light: u64,
    pub heavy: u64,
    pub halts: u64,
    pub arms: u64,
    pub stops: u64,
    pub expiries: u64,
    pub host_ticks: u64,
}

impl Exits {
    pub fn all(&self) -> u64 {
        self.light + self.heavy + self.halts
    }

    /// By cause, as far as they are told apart: those for timers, and the others.
    pub fn by_cause(&self) -> [(Cause, u64); 5] {
        let timers = [
            (Cause::Arm, self.arms),
            (Cause::Stop, self.stops),
            (Cause::Expiry, self.expiries),
            (Cause::HostTick, self.host_ticks),
        ];
        let others = self.all().saturating_sub(timers.iter().map(|(_, count)| count).sum());
        let [arm, stop, expiry, host_tick] = timers;
        [arm, stop, expiry, host_tick, (Cause::Other, others)]
    }

    pub fn add(&mut self, other: &Exits) {
        self.light += other.light;
        self.heavy += other.heavy;
        self.halts += other.halts;
        self.arms += other.arms;
        self.stops += other.stops;
        self.expiries += other.expiries;
        self.host_ticks += other.host_ticks;
    }
}

/// A gap, as the guest's kernel splits it if its host tells it of its exits (series `noise`).
///
/// The host's interrupts are part of KVM's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    pub exits: Exits,
    pub parts: Parts,
}
