// SPDX-License-Identifier: GPL-2.0-only
//! The window around the measured part, and what the guest itself can say about it.

use super::options::Options;
use anyhow::{Context, Result};
use paratick_core::{
    interrupts::{self, Interrupts},
    workload::Report,
};
use paratick_instruments::{cycle::DeadlineWrites, idle::IdleCounter, marker, Instrument};
use rustix::{
    mm::{mlockall, MlockAllFlags},
    thread::{sched_getaffinity, sched_setaffinity, CpuSet},
};
use std::{
    collections::BTreeMap,
    mem::MaybeUninit,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

/// Time in which the last wake-ups of the preparation die away before the window opens.
const SETTLE: Duration = Duration::from_millis(60);

/// Runs `work` inside the window that the options name; it returns the units that it did.
pub fn measure(options: &Options, work: impl FnOnce() -> Result<u64>) -> Result<Report> {
    let mut counter = options.idle_entries.then(IdleCounter::start).transpose()?;
    thread::sleep(SETTLE);
    let before = counter.as_mut().map(IdleCounter::read).transpose()?;
    let writes = options.deadline_writes.then(DeadlineWrites::start).transpose()?.flatten();
    let interrupts = options.interrupts.then(interrupts_now).transpose()?;
    let cpu = CpuTicks::now()?;
    let (user, system) = process_times();
    let opened = match options.all_guests {
        true => marker::open_all(options.window),
        false => marker::open(options.window),
    };
    let start = Instant::now();
    let done = work();
    let duration = start.elapsed();
    let closed = match options.all_guests {
        true => marker::close_all(options.window),
        false => marker::close(options.window),
    };
    let (user_after, system_after) = process_times();
    let cpu_after = CpuTicks::now()?;
    let interrupts = match interrupts {
        Some(before) => interrupts::since(&interrupts_now()?, &before),
        None => Interrupts::new(),
    };
    let after = counter.as_mut().map(IdleCounter::read).transpose()?;
    let [cpu_user_ticks, cpu_system_ticks, cpu_idle_ticks, cpu_steal_ticks] = cpu_after.since(cpu);
    Ok(Report {
        workload: options.workload.name.into(),
        work: done?,
        unit: options.workload.unit.into(),
        window: options.window,
        threads: options.threads as u32,
        duration_ns: duration.as_nanos() as u64,
        user_ns: user_after.saturating_sub(user),
        system_ns: system_after.saturating_sub(system),
        cpu_user_ticks,
        cpu_system_ticks,
        cpu_idle_ticks,
        cpu_steal_ticks,
        idle_entries: after.zip(before).map(|(after, before)| after.since(&before)),
        interrupts,
        deadline_writes: writes.map(|writes| writes.read((opened, closed))).transpose()?,
        more: BTreeMap::new(),
    })
}

/// Threads that are pinned in turn: the first does `lead`, which measures, the others `help`, which
/// gets a thread's number.
fn in_threads(
    threads: usize,
    help: impl Fn(usize) + Sync,
    lead: impl FnOnce() -> Result<Report>,
) -> Result<Report> {
    let help = |nth| {
        let pinned = pin(nth);
        help(nth);
        pinned
    };
    thread::scope(|scope| {
        let help = &help;
        let helpers: Vec<_> = (1..threads).map(|nth| scope.spawn(move || help(nth))).collect();
        let pinned = pin(0);
        let measured = lead();
        for helper in helpers {
            helper.join().expect("a thread of the workload panicked")?;
        }
        pinned.and(measured)
    })
}

/// The same where the first thread, once warm, does its share of the measured work.
pub fn led(
    options: &Options,
    help: impl Fn(usize) + Sync,
    warm_up: impl FnOnce(),
    work: impl FnOnce(),
) -> Result<Report> {
    in_threads(options.threads, help, || {
        warm_up();
        measure(options, || {
            work();
            Ok(options.work)
        })
    })
}

/// The same where all threads are busy for the whole window, in which the first does `first`:
/// threads are made and ended outside the window.
pub fn busy_in_threads(
    options: &Options,
    busy: impl Fn() + Sync,
    first: impl FnOnce() -> Result<u64>,
) -> Result<Report> {
    // Met once to start and once at the end.
    let meet = Barrier::new(options.threads);
    let help = |_| {
        meet.wait();
        busy();
        meet.wait();
    };
    in_threads(options.threads, help, || {
        measure(options, || {
            meet.wait();
            let done = first();
            meet.wait();
            done
        })
    })
}

fn interrupts_now() -> Result<Interrupts> {
    let [each, sum] = ["/proc/interrupts", "/proc/stat"].map(fs_err::read_to_string);
    interrupts::parse(&each?, &sum?).context("/proc/interrupts or /proc/stat is not one we know")
}

pub fn cpus() -> usize {
    sched_getaffinity(None).map_or(1, |set| set.count() as usize)
}

/// Pins this thread to the `nth` CPU of those it may use, going round.
pub fn pin(nth: usize) -> Result<()> {
    let allowed = sched_getaffinity(None).context("cannot read the CPU affinity")?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let mut one = CpuSet::new();
    one.set(cpus[nth % cpus.len()]);
    sched_setaffinity(None, &one)
        .with_context(|| format!("cannot pin a thread to CPU {}", cpus[nth % cpus.len()]))
}

/// Locks all memory, so that no page of the program is fetched inside a window.
pub fn keep_in_memory() {
    // Without the right to do so the workload only takes a few more page faults.
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).ok();
}

/// User and system time in ns of this process, with all its threads, and of the children that it
/// has waited for.
fn process_times() -> (u64, u64) {
    let (own, children) = (times(libc::RUSAGE_SELF), times(libc::RUSAGE_CHILDREN));
    (own.0 + children.0, own.1 + children.1)
}

fn times(who: libc::c_int) -> (u64, u64) {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills the structure; zeroes are valid where it should fail.
    let usage = unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    (ns(usage.ru_utime), ns(usage.ru_stime))
}

/// The guest's CPU time over all CPUs, in /proc/stat's hundredths of a second: user, system, idle,
/// steal.
#[derive(Debug, PartialEq, Eq)]
struct CpuTicks([u64; 4]);

impl CpuTicks {
    fn now() -> Result<CpuTicks> {
        let text = fs_err::read_to_string("/proc/stat")?;
        CpuTicks::parse(&text).context("/proc/stat does not begin with a line 'cpu …'")
    }

    fn parse(text: &str) -> Option<CpuTicks> {
        let mut words = text.lines().next()?.split_ascii_whitespace();
        (words.next()? == "cpu").then_some(())?;
        let fields: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let sum = |which: &[usize]| which.iter().filter_map(|n| fields.get(*n)).sum();
        Some(CpuTicks([sum(&[0, 1]), sum(&[2, 5, 6]), sum(&[3, 4]), sum(&[7])]))
    }

    fn since(self, before: CpuTicks) -> [u64; 4] {
        std::array::from_fn(|n| self.0[n].saturating_sub(before.0[n]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupt_time_is_system_time_and_waiting_is_idle_time() {
        let ticks = CpuTicks::parse("cpu  1 2 3 4 5 6 7 8 0 0\ncpu0 9\n").unwrap();
        assert_eq!(ticks, CpuTicks([3, 16, 9, 8]));
        assert_eq!(CpuTicks::parse("intr 5\n"), None);
    }
}
