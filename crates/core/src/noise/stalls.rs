// SPDX-License-Identifier: GPL-2.0-only
//! Stalls that the lab's emulator takes from a pCPU, as an SMI would, and what was found of them.

use super::{
    clock::Clock,
    join::absences,
    ledger::{Entry, Ledger},
    rank::Source,
    recording::{GuestNoise, HostNoise},
};
use crate::units::Nanos;
use serde::Serialize;
use std::{fmt, str::FromStr};

/// Whenever the host's TSC, which counts nanoseconds in the lab, is a multiple of `every_ns`, the
/// pCPU of the guest's CPU 0 executes nothing for `ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalls {
    pub ns: u64,
    pub every_ns: u64,
}

/// At most (softmmu/icount.c of the emulator).
const LONGEST_NS: u64 = 1_000_000_000;

#[derive(Debug, PartialEq, Eq)]
pub struct BadStalls(String);

impl fmt::Display for BadStalls {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "{:?} is no LENGTH@PERIOD of stalls\n\
             hint: give two times, the longer one at most 1s, such as 30us@10ms",
            self.0
        )
    }
}

impl std::error::Error for BadStalls {}

impl FromStr for Stalls {
    type Err = BadStalls;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let times = text.split_once('@').and_then(|(length, period)| {
            Some((length.parse::<Nanos>().ok()?.0, period.parse::<Nanos>().ok()?.0))
        });
        match times {
            Some((ns, every_ns)) if ns > 0 && ns < every_ns && every_ns <= LONGEST_NS => {
                Ok(Stalls { ns, every_ns })
            }
            _ => Err(BadStalls(text.to_string())),
        }
    }
}

impl fmt::Display for Stalls {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}ns@{}ns", self.ns, self.every_ns)
    }
}

crate::serde_as_text!(Stalls);

/// What was found of the stalls that were due while the guest's CPU 0 was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    pub due: usize,
    /// What nobody knows of, in ns, of each gap that a stall falls into.
    pub lengths_ns: Vec<u64>,
    /// Part of what was going on: an exit, a halt, or an interrupt or thread of the guest.
    pub hidden: usize,
    /// Neither.
    pub missed: usize,
    /// Gaps that are unexplained, and no stall was due.
    pub others: usize,
}

/// Where osnoise tells a gap, and when the emulator could stall: no farther apart than this.
const NEAR_NS: i64 = 1_500;

impl Stalls {
    pub fn found(
        &self,
        ledger: &Ledger,
        guest: &GuestNoise,
        host: &HostNoise,
        process: u32,
    ) -> Option<Found> {
        let away = absences(&guest.clock, host, process, 0);
        let gaps: Vec<&Entry> = ledger.entries.iter().filter(|entry| entry.cpu == 0).collect();
        let of_cpu = guest.gaps.iter().filter(|gap| gap.cpu == 0);
        let busy: Vec<_> = of_cpu.flat_map(|gap| &gap.disturbances).collect();
        let mut found = Found::default();
        let mut explained = Vec::new();
        for moment in self.moments(guest, host, process)? {
            found.due += 1;
            // The latest that began before it.
            let place = gaps.partition_point(|gap| gap.begin_ns as i64 <= moment + NEAR_NS);
            let gap = place.checked_sub(1).map(|place| gaps[place]);
            let gap = gap.filter(|gap| (gap.begin_ns + gap.ns) as i64 >= moment - NEAR_NS);
            let unknown = gap.and_then(|gap| Some((gap, unexplained(gap)?)));
            // As long as the stall lasts, and it begins at the next chance after its moment.
            let covers = |begin: i64, end: i64| {
                begin - NEAR_NS <= moment && moment + self.ns as i64 <= end + NEAR_NS
            };
            let is_hidden = away.iter().any(|away| covers(away.begin, away.end))
                || busy.iter().any(|one| covers(one.begin_ns as i64, one.end_ns as i64));
            match unknown {
                Some((gap, ns)) => {
                    found.lengths_ns.push(ns);
                    explained.push(gap.begin_ns);
                }
                None if is_hidden => found.hidden += 1,
                None => found.missed += 1,
            }
        }
        let unknown = gaps.iter().filter(|gap| unexplained(gap).is_some());
        found.others = unknown.filter(|gap| !explained.contains(&gap.begin_ns)).count();
        Some(found)
    }

    /// When they were due in the recording, on the guest's CLOCK_MONOTONIC.
    fn moments(&self, guest: &GuestNoise, host: &HostNoise, process: u32) -> Option<Vec<i64>> {
        let offsets = host.tsc_offsets.iter();
        let offset = offsets.clone().find(|one| one.process == process && one.vcpu == 0)?.offset;
        let Clock { begin, end } = host.clock;
        let first = begin.tsc.div_ceil(self.every_ns);
        let due = (first..=end.tsc / self.every_ns).filter_map(|number| {
            let at = host.clock.at(number * self.every_ns)?;
            let ahead = host.clock.ahead(&guest.clock, offset.wrapping_neg(), at)?;
            Some(at as i64 + ahead)
        });
        let window = guest.begin_ns as i64..guest.end_ns as i64;
        Some(due.filter(|moment| window.contains(moment)).collect())
    }
}

fn unexplained(entry: &Entry) -> Option<u64> {
    let mut events = entry.events.iter();
    events.find(|event| event.source == Source::Unexplained).map(|event| event.ns)
}

#[cfg(test)]
#[path = "stalls_tests.rs"]
mod tests;
