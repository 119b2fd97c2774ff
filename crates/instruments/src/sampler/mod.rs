// SPDX-License-Identifier: GPL-2.0-only
//! Lets a program of ours sample on all CPUs of this system, and records every gap that it finds,
//! with what the tracepoints that every kernel has know of it: as [`crate::osnoise`] does where the
//! kernel has that tracer.
//!
//! bpf/sampler.bpf.c makes a record of each; the same code puts them together.

mod program;
mod reader;

use crate::{
    bpf::{self, Records},
    clock,
    osnoise::{
        gather::gather_at,
        raw::{Noise, OSNOISE_GAP, OSNOISE_LOST},
        LEAD,
    },
    pinned::{callable, cpus, Threads},
    Instrument,
};
use anyhow::{Context, Result};
use aya::Ebpf;
use paratick_core::noise::{
    Clock, Gap, GuestNoise, Instant, Kind, SamplingProgram, OSNOISE_THRESHOLD,
};
use reader::{Reader, Seen};
use std::{os::fd::AsFd, thread, time::Duration};

/// For so long the TSC's rate is looked at before.
const RATE: Duration = Duration::from_millis(20);

pub struct ProgramRecorder {
    // In this order: who samples ends first.
    threads: Threads<Seen>,
    ebpf: Ebpf,
    begun: Instant,
    records: Records<Noise>,
    seen: Vec<Seen>,
}

impl Instrument for ProgramRecorder {
    const NAME: &'static str = "sampler";
    type Reading = GuestNoise;

    fn start() -> Result<ProgramRecorder> {
        let mut ebpf = program::load()?;
        let records = Records::of(&mut ebpf)?;
        let telling = callable(&mut ebpf, "sampled")?;
        let before = clock::with_tsc();
        thread::sleep(RATE);
        let begun = clock::with_tsc();
        let threshold = ticks(before, begun, OSNOISE_THRESHOLD);
        let mut threads = Threads::default();
        for cpu in cpus()? {
            let telling = telling.try_clone()?;
            // bpf/sampler.bpf.c knows it by this name.
            let started = threads.start(cpu, format!("sampler/{cpu}"), move |stop, ready| {
                Reader { threshold, program: telling.as_fd(), stop }.run(ready)
            });
            started.context(program::WHAT)?;
        }
        Ok(ProgramRecorder { threads, ebpf, begun, records, seen: Vec::new() })
    }

    fn drain(&mut self) -> Result<()> {
        self.records.drain()
    }

    /// All gaps from [`LEAD`] after the start on.  Nobody samples any more then.
    ///
    /// Fails if one could not be recorded.
    fn read(&mut self) -> Result<GuestNoise> {
        self.seen.extend(self.threads.end()?);
        self.drain()?;
        bpf::check_lost(&self.ebpf, OSNOISE_LOST, "disturbances", "record for a shorter time")?;
        let clock = Clock { begin: self.begun, end: clock::with_tsc() };
        let noise = GuestNoise {
            clock,
            begin_ns: self.begun.ns + LEAD.as_nanos() as u64,
            end_ns: clock.end.ns,
            program: Some(of_itself(&self.seen, &clock)),
            gaps: gaps(self.records.taken(), &clock),
        };
        Ok(noise.cut(0, u64::MAX))
    }
}

/// How many ticks of the TSC take so long.
fn ticks(begin: Instant, end: Instant, ns: u64) -> u64 {
    let ticks = u128::from(end.tsc.wrapping_sub(begin.tsc)) * u128::from(ns);
    (ticks / u128::from(end.ns.saturating_sub(begin.ns).max(1))) as u64
}

/// Gaps are told by the TSC, and all else by CLOCK_MONOTONIC.
fn gaps(records: &[Noise], clock: &Clock) -> Vec<Gap> {
    let at = |tsc: u64| clock.at(tsc).unwrap_or(0);
    let by_clock = |record: &Noise| {
        if record.kind != OSNOISE_GAP {
            return *record;
        }
        let (begin, end) = (record.start_ns, record.start_ns.wrapping_add(record.ns));
        let told = at(begin).saturating_sub(at(begin.wrapping_sub(record.name_high)));
        let ns = at(end).saturating_sub(at(begin));
        Noise { start_ns: at(begin), ns, name_high: told, ..*record }
    };
    let records: Vec<Noise> = records.iter().map(by_clock).collect();
    let mut gaps = gather_at(&records, &[], 0);
    for gap in &mut gaps {
        let known = gap.disturbances.iter().filter(|one| one.kind != Kind::Scheduler);
        gap.interference = known.count() as u32;
    }
    // It was telling of another: that it took longer says nothing by itself.
    gaps.retain(|gap| {
        gap.written_ns == 0 || !gap.disturbances.is_empty() || gap.stolen_ns.unwrap_or(0) > 0
    });
    gaps
}

fn of_itself(seen: &[Seen], clock: &Clock) -> SamplingProgram {
    let sum = |of: fn(&Seen) -> u64| seen.iter().map(of).sum::<u64>();
    let whole = sum(|one| one.whole).max(1);
    let ns = |ticks: u64| {
        let Clock { begin, end } = clock;
        let all = u128::from(end.tsc.wrapping_sub(begin.tsc)).max(1);
        (u128::from(ticks) * u128::from(end.ns.saturating_sub(begin.ns)) / all) as u64
    };
    SamplingProgram {
        reading_ns: ns((whole - sum(|one| one.telling)) / sum(|one| one.readings).max(1)),
        telling_ns: ns(seen.iter().map(|one| one.least).max().unwrap_or(0)),
        telling_ppm: (u128::from(sum(|one| one.telling)) * 1_000_000 / u128::from(whole)) as u64,
        page_faults: sum(|one| one.page_faults),
    }
}

#[cfg(test)]
mod tests;
