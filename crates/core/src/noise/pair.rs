// SPDX-License-Identifier: GPL-2.0-only
//! Which of a host's VMs a guest is, where each side was recorded by itself.

use super::{
    join::absences,
    recording::{Gap, GuestNoise, HostNoise, OSNOISE_THRESHOLD},
};
use std::collections::{BTreeMap, BTreeSet};

/// An absence of this length is in a gap of a CPU that samples.
const LONG: i64 = 3 * OSNOISE_THRESHOLD as i64;
/// It may stick out by so much: clocks drift.
const OFF: i64 = 5_000;
/// At the host's ends, where an absence may have begun before or end later, in ns.
const EDGE: u64 = 10_000_000;
/// Fewer of them tell no VM from another one.
const FEWEST: usize = 5;
/// So many of them, the others being off by what a clock drifts, or lost.
const FITS: f64 = 0.9;

/// Why it is not known which.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unpaired {
    #[error(
        "the clocks of guest and host cannot be joined: the host's recording has no TSC offset\n\
         hint: mount debugfs at /sys/kernel/debug on the host, and record again while the VM runs"
    )]
    NoOffsets,
    #[error(
        "process {vm} was no VM on the host at the end of its recording\n\
         hint: those were {}",
        of(known)
    )]
    NoSuchVm { vm: u32, known: Vec<u32> },
    #[error(
        "no VM of the host's recording ran while the guest's was made\n\
         hint: record both sides at the same time, on the machine that has the VM"
    )]
    NotAtOnce,
    #[error(
        "the guest's gaps are where no VM of the host was away\n\
         hint: give the recordings of a VM and of the machine that it runs on; of a VM whose APIC \
         ids leave some out, sides cannot be joined"
    )]
    NoneFits,
    #[error(
        "the guest may be any of these processes: {}; too little happened to tell\n\
         hint: record for longer, or give --vm with the number of its process",
        of(processes)
    )]
    Several { processes: Vec<u32> },
}

fn of(processes: &[u32]) -> String {
    processes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// The guest's noise while both were recorded, and the process on the host that is its VM: where
/// this VM was away for long, the guest has a gap.  `vm` looks at this process alone.
pub fn pair(
    guest: &GuestNoise,
    host: &HostNoise,
    vm: Option<u32>,
) -> Result<(GuestNoise, u32), Unpaired> {
    let processes: BTreeSet<u32> = host.tsc_offsets.iter().map(|one| one.process).collect();
    if processes.is_empty() {
        return Err(Unpaired::NoOffsets);
    }
    if let Some(vm) = vm.filter(|vm| !processes.contains(vm)) {
        return Err(Unpaired::NoSuchVm { vm, known: processes.into_iter().collect() });
    }
    let chosen = processes.into_iter().filter(|process| vm.is_none_or(|vm| vm == *process));
    let at_once: Vec<(u32, GuestNoise, Fit)> = chosen
        .filter_map(|process| {
            let guest = while_both(guest, host, process)?;
            let fit = Fit::of(&guest, host, process);
            Some((process, guest, fit))
        })
        .collect();
    if at_once.is_empty() {
        return Err(Unpaired::NotAtOnce);
    }
    let (good, unknown): (Vec<_>, Vec<_>) = at_once
        .into_iter()
        .filter(|(_, _, fit)| fit.is_good() || fit.is_unknown())
        .partition(|(_, _, fit)| fit.is_good());
    let mut may_be = if good.is_empty() { unknown } else { good };
    match may_be.pop() {
        None => Err(Unpaired::NoneFits),
        Some((process, guest, fit)) if may_be.is_empty() && (fit.is_good() || vm.is_some()) => {
            Ok((guest, process))
        }
        Some(last) => {
            may_be.push(last);
            let processes = may_be.iter().map(|(process, ..)| *process).collect();
            Err(Unpaired::Several { processes })
        }
    }
}

/// None where the guest was not recorded while its host was.
fn while_both(guest: &GuestNoise, host: &HostNoise, process: u32) -> Option<GuestNoise> {
    let offset = host.tsc_offsets.iter().find(|known| known.process == process)?.offset;
    let in_guest = |ns: u64| {
        let ahead = host.clock.ahead(&guest.clock, offset.wrapping_neg(), ns)?;
        Some((ns as i64 + ahead).max(0) as u64)
    };
    let begin = in_guest(host.clock.begin.ns.saturating_add(EDGE))?.max(guest.begin_ns);
    let end = in_guest(host.clock.end.ns.saturating_sub(EDGE))?.min(guest.end_ns);
    let ns = end.checked_sub(begin).filter(|ns| *ns > 0)?;
    Some(guest.clone().cut(begin - guest.begin_ns, ns))
}

/// Of the long absences of a VM those that a gap holds: of a VM that sleeps they are longer.
struct Fit {
    long: usize,
    in_gaps: usize,
    /// The guest samples on a CPU that the VM has not.
    has_others: bool,
}

impl Fit {
    fn of(guest: &GuestNoise, host: &HostNoise, process: u32) -> Fit {
        let mut gaps: BTreeMap<u32, Vec<&Gap>> = BTreeMap::new();
        for gap in &guest.gaps {
            gaps.entry(gap.cpu).or_default().push(gap);
        }
        let during = guest.begin_ns as i64..guest.end_ns as i64;
        let has = |cpu: &u32| {
            host.tsc_offsets.iter().any(|one| one.process == process && one.vcpu == *cpu)
        };
        let mut fit = Fit { long: 0, in_gaps: 0, has_others: !gaps.keys().all(has) };
        // A CPU without a gap does not sample.
        for (cpu, mut gaps) in gaps {
            gaps.sort_by_key(|gap| gap.begin_ns);
            let away = absences(&guest.clock, host, process, cpu).into_iter();
            for away in away.filter(|one| one.end - one.begin >= LONG) {
                if !during.contains(&away.begin) || !during.contains(&away.end) {
                    continue;
                }
                let before = gaps.partition_point(|gap| (gap.begin_ns as i64) < away.end);
                let last = before.checked_sub(1).map(|last| gaps[last]);
                fit.long += 1;
                let holds = |gap: &&Gap| {
                    let (begin, end) = (gap.begin_ns as i64, (gap.begin_ns + gap.ns) as i64);
                    begin - OFF <= away.begin && away.end <= end + OFF
                };
                fit.in_gaps += usize::from(last.is_some_and(|gap| holds(&gap)));
            }
        }
        fit
    }

    fn is_unknown(&self) -> bool {
        !self.has_others && self.long < FEWEST
    }

    fn is_good(&self) -> bool {
        !self.has_others && !self.is_unknown() && self.in_gaps as f64 >= FITS * self.long as f64
    }
}

#[cfg(test)]
#[path = "pair_tests.rs"]
mod tests;
