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
    Instrument,
};
use anyhow::{bail, Context, Result};
use aya::Ebpf;
use paratick_core::noise::{
    Clock, Gap, GuestNoise, Instant, Kind, SamplingProgram, OSNOISE_THRESHOLD,
};
use reader::{Reader, Seen};
use std::{
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc, Arc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// If this file is there, only the CPUs of its list are sampled, as with `osnoise/cpus`.
pub const CPUS: &str = "/run/paratick-sampled-cpus";
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// For so long the TSC's rate is looked at before.
const RATE: Duration = Duration::from_millis(20);

pub struct ProgramRecorder {
    // In this order: who samples ends first.
    threads: Threads,
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
        let telling = program::telling(&mut ebpf)?;
        let before = clock::with_tsc();
        thread::sleep(RATE);
        let begun = clock::with_tsc();
        let threshold = ticks(before, begun, OSNOISE_THRESHOLD);
        let mut threads = Threads::default();
        for cpu in cpus()? {
            threads.start(cpu, threshold, telling.try_clone()?).context(program::WHAT)?;
        }
        Ok(ProgramRecorder { threads, ebpf, begun, records, seen: Vec::new() })
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

impl ProgramRecorder {
    /// As [`Records::drain`].
    pub fn drain(&mut self) -> Result<()> {
        self.records.drain()
    }
}

/// One for each CPU.
#[derive(Default)]
struct Threads {
    stop: Arc<AtomicBool>,
    running: Vec<JoinHandle<Result<Seen>>>,
}

impl Threads {
    /// Returns as soon as it samples.
    fn start(&mut self, cpu: u32, threshold: u64, telling: OwnedFd) -> Result<()> {
        let (tell, ready) = mpsc::channel();
        let stop = self.stop.clone();
        let sample = move || {
            let reader = Reader { threshold, program: telling.as_fd(), stop: &stop };
            reader.run(cpu, || _ = tell.send(()))
        };
        // bpf/sampler.bpf.c knows it by this name.
        let thread = thread::Builder::new().name(format!("sampler/{cpu}")).spawn(sample)?;
        self.running.push(thread);
        // Else it has ended, and says why.
        if ready.recv().is_err() {
            self.end()?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<Vec<Seen>> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.running.drain(..).map(|thread| match thread.join() {
            Ok(seen) => seen,
            Err(_) => bail!("a thread that samples has panicked"),
        });
        ended.collect()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.end().ok();
    }
}

fn cpus() -> Result<Vec<u32>> {
    let file = if Path::new(CPUS).exists() { CPUS } else { ONLINE };
    let list = fs_err::read_to_string(file)?;
    in_list(list.trim()).with_context(|| format!("{file} has no list of CPUs: {list:?}"))
}

/// The CPUs of a list such as `0-3,6`.
fn in_list(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
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
