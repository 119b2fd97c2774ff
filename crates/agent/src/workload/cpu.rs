// SPDX-License-Identifier: GPL-2.0-only
//! Arithmetic without system calls: what remains is the tick.  Also with an interval timer.

use super::{
    measure::{measure, pin, Measured},
    options::Options,
    ticks::Received,
};
use anyhow::{Context, Result};
use std::{
    arch::asm,
    sync::{
        atomic::{AtomicU64, Ordering},
        Barrier,
    },
    thread,
};

const MILLION: u64 = 1_000_000;

pub fn run(options: &Options) -> Result<Measured> {
    in_threads(options, || Ok(spin(options.work)))
}

/// The same while SIGALRM comes every period: an application's timer beside the tick.
pub fn run_with_timer(options: &Options) -> Result<Measured> {
    count_alarms()?;
    let mut received = Received::default();
    let mut measured = in_threads(options, || {
        set_timer(options.period_us)?;
        let done = received.during(|| spin(options.work));
        set_timer(0)?;
        done
    })?;
    received.report(&mut measured.more);
    let alarms = ALARMS.load(Ordering::Relaxed);
    measured.more.insert("alarms".into(), alarms.into());
    Ok(measured)
}

/// Loops `million` million times over four instructions.
fn spin(million: u64) -> u64 {
    if million > 0 {
        // SAFETY: works on registers only.
        unsafe {
            asm!(
                "2:",
                "imul {x}, {x}, 1664525",
                "add {x}, 1013904223",
                "dec {n}",
                "jnz 2b",
                x = inout(reg) 1u64 => _,
                n = inout(reg) million * MILLION => _,
                options(nomem, nostack),
            );
        }
    }
    million
}

/// Spins in threads that are pinned in turn, all of it inside the window; `first` is what the
/// first thread does.
fn in_threads(options: &Options, first: impl FnOnce() -> Result<u64>) -> Result<Measured> {
    let threads = options.threads;
    // Met once to start and once at the end: threads are made and ended outside the window.
    let meet = Barrier::new(threads);
    thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads)
            .map(|nth| {
                let meet = &meet;
                scope.spawn(move || {
                    let pinned = pin(nth);
                    meet.wait();
                    spin(options.work);
                    meet.wait();
                    pinned
                })
            })
            .collect();
        let pinned = pin(0);
        let measured = measure(options, || {
            meet.wait();
            let done = first();
            meet.wait();
            Ok(done? * threads as u64)
        });
        for helper in helpers {
            helper.join().expect("a thread of the workload panicked")?;
        }
        pinned.and(measured)
    })
}

static ALARMS: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_alarm(_: libc::c_int) {
    ALARMS.fetch_add(1, Ordering::Relaxed);
}

fn count_alarms() -> Result<()> {
    let handler = on_alarm as extern "C" fn(libc::c_int);
    // SAFETY: the handler only touches an atomic; the structure is zeroed but for the handler.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut())
    };
    check(result).context("cannot catch SIGALRM")
}

fn set_timer(period_us: u32) -> Result<()> {
    let period = libc::timeval {
        tv_sec: 0,
        tv_usec: period_us.into(),
    };
    let timer = libc::itimerval {
        it_interval: period,
        it_value: period,
    };
    // SAFETY: reads the structure given.
    let result = unsafe { libc::syscall(libc::SYS_setitimer, libc::ITIMER_REAL, &timer, 0) };
    check(result as libc::c_int)
        .with_context(|| format!("cannot set an interval timer of {period_us} us"))
}

fn check(result: libc::c_int) -> std::io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
