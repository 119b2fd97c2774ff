// SPDX-License-Identifier: GPL-2.0-only
//! The time between exits, told by the record and by an emulator that knows nothing of it.

use super::{Absence, HostNoise};
use std::collections::BTreeMap;

/// The same time in guests, by two who know nothing of each other (paper: thesis 4.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InGuests {
    /// From an entry to the next exit, by the record.
    pub ns: u64,
    /// The emulator's: each takes 1 ns.
    pub instructions: u64,
    pub exits: u64,
}

impl InGuests {
    /// For each exit, the time between its world switches and the record's times.
    pub fn apart_ns(&self) -> f64 {
        (self.ns as f64 - self.instructions as f64) / self.exits as f64
    }
}

impl HostNoise {
    /// None where that is not known: no emulator, exits without a record, an exit that had not
    /// ended, a vCPU that was not alone on its pCPU, or several of which some were not seen before:
    /// they may have slept, and their first entry ends no absence.
    pub fn in_guests(&self) -> Option<InGuests> {
        let audit = self.audit.as_ref()?;
        let exits = self.absences.iter().filter(|one| one.audited).count() as u64;
        if exits == 0 || exits != audit.exits || !self.lost.is_empty() {
            return None;
        }
        let mut vcpus: BTreeMap<u32, Vec<&Absence>> = BTreeMap::new();
        for one in &self.absences {
            let of_pcpu = vcpus.entry(one.exit_cpu).or_default();
            let other = of_pcpu.first().is_some_and(|first| first.vcpu != one.vcpu);
            if other || one.entry_cpu != one.exit_cpu {
                return None;
            }
            of_pcpu.push(one);
        }
        let was_seen = |of: &Vec<&Absence>| of.iter().any(|one| one.begin_ns <= audit.begin_ns);
        if vcpus.len() > 1 && !vcpus.values().all(was_seen) {
            return None;
        }
        let away = |one: &Absence| {
            let ends = (one.begin_ns + one.ns).min(audit.end_ns);
            ends.saturating_sub(one.begin_ns.max(audit.begin_ns))
        };
        let part = audit.end_ns.checked_sub(audit.begin_ns)?;
        let mut seen = InGuests { ns: 0, instructions: 0, exits };
        for (pcpu, absences) in &vcpus {
            let out = absences.iter().try_fold(0u64, |sum, one| sum.checked_add(away(one)))?;
            seen.ns += part.checked_sub(out)?;
            seen.instructions += audit.guest_instructions.get(*pcpu as usize)?;
        }
        Some(seen)
    }
}
