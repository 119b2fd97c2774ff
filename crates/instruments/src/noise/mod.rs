// SPDX-License-Identifier: GPL-2.0-only
//! Records every exit of every vCPU of this host: for how long the guest was away, and where that
//! time went.  Stock kernels can be recorded.
//!
//! bpf/noise.bpf.c makes a record of each; [`gather`] makes absences of the records.

mod gather;
pub(crate) mod raw;

use crate::{
    away::Programs,
    bpf::{self, Records},
    clock, tsc_offsets, untold, Instrument,
};
use anyhow::Result;
use gather::gather;
use paratick_core::noise::{mark_ticks, Audit, Clock, HostNoise, Instant};
use raw::{
    Absence, AUDIT_CLOSE, AUDIT_LEAVE, AUDIT_OPEN, NOISE_AUDITED, NOISE_CLOSED, NOISE_EXITS,
    NOISE_LEAST, NOISE_OPEN, NOISE_OPENED, NOISE_WANTED,
};
use std::{collections::BTreeMap, thread::sleep, time::Duration};

const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/noise.bpf.o"));

/// So many steps an exit is awaited that closes the audited window: an idle guest makes few.
const PATIENCE: u32 = 5000;
const STEP: Duration = Duration::from_millis(1);

pub struct NoiseRecorder {
    programs: Programs,
    records: Records<Absence>,
    least_ns: u64,
    before: Before,
}

/// What there was at the start.
struct Before {
    at: Instant,
    exits: u64,
    /// As KVM counted them.
    exits_by_kvm: Option<u64>,
    lost: BTreeMap<u32, u64>,
}

impl Before {
    fn of(programs: &Programs) -> Result<Before> {
        Ok(Before {
            exits: bpf::state(&programs.ebpf, NOISE_EXITS)?,
            exits_by_kvm: untold::exits(),
            lost: programs.lost()?,
            at: clock::with_tsc(),
        })
    }
}

impl Instrument for NoiseRecorder {
    const NAME: &'static str = "noise";
    type Reading = HostNoise;

    fn start() -> Result<NoiseRecorder> {
        NoiseRecorder::start_above(0)
    }

    fn restart(mut self) -> Result<NoiseRecorder> {
        self.records.forget()?;
        if bpf::state(&self.programs.ebpf, NOISE_OPEN)? == 0 {
            bpf::set_state(&mut self.programs.ebpf, NOISE_AUDITED, 0)?;
            bpf::set_state(&mut self.programs.ebpf, NOISE_WANTED, AUDIT_OPEN.into())?;
        }
        self.before = Before::of(&self.programs)?;
        Ok(self)
    }

    fn drain(&mut self) -> Result<()> {
        self.records.drain()
    }

    /// All exits since the start after which the guest was entered again, but those that were lost.
    fn read(&mut self) -> Result<HostNoise> {
        let audit = self.audit()?;
        // In this order: what ends in between is one more record.
        let exits = bpf::state(&self.programs.ebpf, NOISE_EXITS)? - self.before.exits;
        // What comes later may have no record.
        let end = clock::with_tsc();
        self.drain()?;
        let mut absences: Vec<_> = self.records.taken().iter().map(gather).collect();
        // Some may have come before the number was set.
        absences.retain(|one| one.kept_ns() >= self.least_ns);
        if self.least_ns == 0 {
            // By the exits around it.
            mark_ticks(&mut absences);
        }
        let mut lost = self.programs.lost()?;
        lost.retain(|vm, exits| {
            *exits -= self.before.lost.get(vm).copied().unwrap_or(0).min(*exits);
            *exits > 0
        });
        let clock = Clock { begin: self.before.at, end };
        Ok(HostNoise {
            least_ns: self.least_ns,
            exits,
            lost,
            exits_by_kvm: untold::exits()
                .zip(self.before.exits_by_kvm)
                .map(|(now, before)| now.saturating_sub(before)),
            offload: untold::offload(),
            audit,
            vmm_end_unknown: !self.programs.sees_run,
            ..HostNoise::whole(clock, tsc_offsets::read(), absences)
        })
    }
}

impl NoiseRecorder {
    /// Keeps only absences that keep a vCPU from so many ns or more: it can go on for days.
    pub fn start_above(least_ns: u64) -> Result<NoiseRecorder> {
        let mut programs = Programs::load(OBJECT)?;
        let records = Records::of(&mut programs.ebpf)?;
        bpf::set_state(&mut programs.ebpf, NOISE_LEAST, least_ns)?;
        bpf::set_state(&mut programs.ebpf, NOISE_WANTED, AUDIT_OPEN.into())?;
        let before = Before::of(&programs)?;
        Ok(NoiseRecorder { programs, records, least_ns, before })
    }

    /// Ends the window in which an emulator counts the same exits.  None if no vCPU makes one now,
    /// or made one before.
    fn audit(&mut self) -> Result<Option<Audit>> {
        let was_open = bpf::state(&self.programs.ebpf, NOISE_OPEN)? != 0;
        let wanted = if was_open { AUDIT_CLOSE } else { AUDIT_LEAVE };
        bpf::set_state(&mut self.programs.ebpf, NOISE_WANTED, wanted.into())?;
        let is_open = |ebpf: &_| bpf::state(ebpf, NOISE_OPEN);
        for _ in 0..PATIENCE {
            if is_open(&self.programs.ebpf)? == 0 {
                break;
            }
            sleep(STEP);
        }
        bpf::set_state(&mut self.programs.ebpf, NOISE_WANTED, AUDIT_LEAVE.into())?;
        if !was_open || is_open(&self.programs.ebpf)? != 0 {
            return Ok(None);
        }
        // Exits of the window, whose guests are entered again soon.
        sleep(STEP * 20);
        let ebpf = &self.programs.ebpf;
        let exits = bpf::state(ebpf, NOISE_AUDITED)?;
        let [begin_ns, end_ns] = [NOISE_OPENED, NOISE_CLOSED].map(|slot| bpf::state(ebpf, slot));
        let (begin_ns, end_ns) = (begin_ns?, end_ns?);
        Ok(Some(Audit { exits, begin_ns, end_ns, ..Audit::default() }))
    }
}

#[cfg(test)]
mod tests;
