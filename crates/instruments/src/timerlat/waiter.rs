// SPDX-License-Identifier: GPL-2.0-only
//! Does what the kernel's timerlat does where there is none: on each CPU, a thread of ours sleeps
//! until a deadline, and says when it ran.  The interrupt is told by the tracepoints that every
//! kernel has; bpf/timerlat.bpf.c makes one record of both.

use super::{
    gather::told,
    program,
    raw::{Expiry, TIMERLAT_LOST},
};
use crate::{
    bpf::{self, Records},
    clock,
    pinned::{callable, cpus, run_program, Threads},
    tracefs::Tracefs,
    Instrument,
};
use anyhow::{bail, Context, Result};
use aya::Ebpf;
use paratick_core::{
    latency::{Activation, GuestLatency, Sampler},
    noise::{Clock, Instant},
};
use rustix::{
    io::Errno,
    thread::clock_nanosleep_absolute,
    time::{ClockId, Timespec},
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

/// As timerlat has them by default (kernel/trace/trace_osnoise.c).
const PERIOD_NS: u64 = 1_000_000;
const PRIORITY: i32 = 95;

pub struct WaiterRecorder {
    // In this order: who waits ends first.
    threads: Threads<()>,
    ebpf: Ebpf,
    begun: Instant,
    records: Records<Expiry>,
}

impl Instrument for WaiterRecorder {
    const NAME: &'static str = "waiter";
    type Reading = GuestLatency;

    fn start() -> Result<WaiterRecorder> {
        let tracefs = Tracefs::open().context(program::WHAT)?;
        let mut ebpf = program::for_program(&tracefs)?;
        let records = Records::of(&mut ebpf)?;
        let (waits, ran) = (callable(&mut ebpf, "waits")?, callable(&mut ebpf, "ran")?);
        let begun = clock::with_tsc();
        let mut threads = Threads::default();
        for cpu in cpus()? {
            let waiter = Waiter { waits: waits.try_clone()?, ran: ran.try_clone()? };
            let started = threads
                .start(cpu, format!("timerlat/{cpu}"), move |stop, ready| waiter.run(stop, ready));
            started.context(program::WHAT)?;
        }
        Ok(WaiterRecorder { threads, ebpf, begun, records })
    }

    fn drain(&mut self) -> Result<()> {
        self.records.drain()
    }

    /// All activations that have ended since the start.  Nobody waits any more then.
    ///
    /// Fails if one could not be recorded.
    fn read(&mut self) -> Result<GuestLatency> {
        self.threads.end()?;
        self.drain()?;
        bpf::check_lost(&self.ebpf, TIMERLAT_LOST, "wake-ups", "record for a shorter time")?;
        let clock = Clock { begin: self.begun, end: clock::with_tsc() };
        let (activations, unseen) = activations(self.records.taken())?;
        Ok(GuestLatency {
            sampler: Sampler::User,
            clock,
            begin_ns: self.begun.ns,
            end_ns: clock.end.ns,
            activations,
            unseen,
        })
    }
}

/// The thread of one CPU.
struct Waiter {
    /// The BPF programs that know it as the one that waits, and that it tells when it ran.
    waits: OwnedFd,
    ran: OwnedFd,
}

impl Waiter {
    fn run(&self, stop: &AtomicBool, ready: &dyn Fn()) -> Result<()> {
        be_realtime()?;
        // The kernel runs no program without an argument.
        run_program(self.waits.as_fd(), &[0])?;
        ready();
        let mut deadline = clock::now_ns() + PERIOD_NS;
        while !stop.load(Ordering::Relaxed) {
            sleep_until(deadline)?;
            let now = clock::now_ns();
            tell(self.ran.as_fd(), deadline, now)?;
            deadline = next(deadline, clock::now_ns());
        }
        Ok(())
    }
}

/// The first deadline after `now`: as timerlat does, it leaves out those that have passed.
fn next(deadline: u64, now: u64) -> u64 {
    deadline + PERIOD_NS * (now.saturating_sub(deadline) / PERIOD_NS + 1)
}

fn tell(program: BorrowedFd, deadline: u64, now: u64) -> Result<()> {
    run_program(program, &[deadline, now]).context("a wake-up cannot be told")
}

fn be_realtime() -> Result<()> {
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: it is alive until it returns.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) } < 0 {
        return Err(io::Error::last_os_error()).context(
            "a thread cannot have a real-time priority\n\
             hint: be root, or have CAP_SYS_NICE, in a cgroup that may have such threads",
        );
    }
    Ok(())
}

/// By CLOCK_MONOTONIC.
fn sleep_until(ns: u64) -> Result<()> {
    let time =
        Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    loop {
        match clock_nanosleep_absolute(ClockId::Monotonic, &time) {
            Err(Errno::INTR) => {}
            slept => return slept.context("a thread cannot sleep"),
        }
    }
}

/// In the order of time; and the deadlines of those whose timer was not seen.
///
/// Fails if these are most: then timers are moved to other CPUs.
fn activations(records: &[Expiry]) -> Result<(Vec<Activation>, Vec<u64>)> {
    let (unseen, seen): (Vec<&Expiry>, Vec<&Expiry>) =
        records.iter().partition(|record| record.expire_ns == 0);
    if let Some(one) = unseen.first().filter(|_| unseen.len() > seen.len()) {
        bail!(
            "of {} wake-ups {} had a timer that did not expire on the CPU of its thread, one of \
             them CPU {}\n\
             hint: keep timers where they are started: echo 0 >/proc/sys/kernel/timer_migration",
            records.len(),
            unseen.len(),
            one.cpu
        );
    }
    let one = |record: &&Expiry| {
        let since = |ns: u64| ns.saturating_sub(record.deadline_ns);
        told(record, since(record.expire_ns), since(record.thread_ns))
    };
    let mut activations: Vec<Activation> = seen.iter().map(one).collect();
    activations.sort_by_key(|one| (one.deadline_ns, one.cpu));
    Ok((activations, unseen.iter().map(|record| record.deadline_ns).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timerlat::raw::{VIA_OTHER, VIA_TICK, VIA_TIMER};
    use paratick_core::latency::Via;

    fn woken(cpu: u32, number: u64, deadline_ns: u64) -> Expiry {
        Expiry {
            deadline_ns,
            irq_ns: deadline_ns + 4_000,
            expire_ns: deadline_ns + 5_000,
            thread_ns: deadline_ns + 9_000,
            cpu,
            via: VIA_TIMER,
            number,
        }
    }

    #[test]
    fn an_activation_is_from_its_deadline_on_and_in_the_order_of_time() {
        let tick = Expiry { via: VIA_TICK, ..woken(1, 3, 1_500_000) };
        let other = Expiry { via: VIA_OTHER, ..woken(0, 8, 2_000_000) };
        let (found, unseen) = activations(&[woken(0, 7, 1_000_000), other, tick]).unwrap();
        assert!(unseen.is_empty());
        let order: Vec<_> = found.iter().map(|one| (one.cpu, one.number, one.via)).collect();
        assert_eq!(order, [(0, 7, Via::LocalTimer), (1, 3, Via::VirtualTick), (0, 8, Via::Other)]);
        for one in &found {
            assert_eq!((one.irq_ns, one.thread_ns), (5_000, 9_000));
            assert_eq!(one.irq_began_ns, one.deadline_ns + 4_000);
        }
    }

    #[test]
    fn a_timer_that_was_not_seen_is_told_and_most_are_an_error() {
        let unseen = Expiry { expire_ns: 0, irq_ns: 0, ..woken(1, 0, 2_000_000) };
        let (found, left) = activations(&[woken(0, 7, 1_000_000), unseen]).unwrap();
        assert_eq!((found.len(), left), (1, vec![2_000_000]));
        let all = [woken(0, 7, 1_000_000), unseen, unseen];
        let error = activations(&all).unwrap_err().to_string();
        assert!(error.contains("of 3 wake-ups 2") && error.contains("CPU 1"), "{error}");
        assert!(error.contains("timer_migration"), "{error}");
    }

    /// What read the clocks in the wrong order would be negative.
    #[test]
    fn nothing_is_before_its_deadline() {
        let early = Expiry { expire_ns: 999_999, thread_ns: 999_999, ..woken(0, 7, 1_000_000) };
        let (found, _) = activations(&[early]).unwrap();
        assert_eq!((found[0].irq_ns, found[0].thread_ns), (0, 0));
    }

    #[test]
    fn deadlines_that_have_passed_are_left_out() {
        assert_eq!(next(5_000_000, 5_010_000), 6_000_000);
        assert_eq!(next(5_000_000, 5_999_999), 6_000_000);
        assert_eq!(next(5_000_000, 7_000_000), 8_000_000);
        assert_eq!(next(5_000_000, 7_400_000), 8_000_000);
    }
}
