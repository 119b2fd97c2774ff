// SPDX-License-Identifier: GPL-2.0-only
//! A vCPU's absences, as its host saw them, on the clock of its guest.

use super::{
    clock::Clock,
    recording::{Absence, HostNoise, TscOffset},
};

/// On the guest's CLOCK_MONOTONIC.
pub struct Away<'a> {
    pub begin: i64,
    pub end: i64,
    pub absence: &'a Absence,
}

/// Those of one vCPU of the VMM `process`, in order, one at a time.
pub fn absences<'a>(guest: &Clock, host: &'a HostNoise, process: u32, vcpu: u32) -> Vec<Away<'a>> {
    let is_its = |known: &&TscOffset| known.process == process && known.vcpu == vcpu;
    let Some(offset) = host.tsc_offsets.iter().find(is_its).map(|known| known.offset) else {
        return Vec::new();
    };
    let mut away: Vec<Away> = host
        .absences
        .iter()
        .filter(|absence| absence.process == process && absence.vcpu == vcpu)
        .filter_map(|absence| {
            // The host's time on the guest's clock: the TSCs' offset the other way round.
            let on_guest = |ns: u64| {
                let ahead = host.clock.ahead(guest, offset.wrapping_neg(), ns)?;
                Some(ns as i64 + ahead)
            };
            let begin = on_guest(absence.begin_ns)?;
            // Rounding must not make it longer than it was.
            let end = on_guest(absence.begin_ns + absence.ns)?.min(begin + absence.ns as i64);
            Some(Away { begin, end, absence })
        })
        .collect();
    away.sort_by_key(|away| away.begin);
    let mut free = i64::MIN;
    for away in &mut away {
        away.begin = away.begin.max(free);
        away.end = away.end.max(away.begin);
        free = away.end;
    }
    away
}
