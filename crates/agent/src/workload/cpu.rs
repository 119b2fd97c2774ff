// SPDX-License-Identifier: GPL-2.0-only
//! Arithmetic without system calls: what remains is the tick.  Also with an interval timer.

use super::{compute::loops, measure::busy_in_threads, options::Options, ticks::Received};
use anyhow::{Context, Result};
use paratick_core::workload::Report;
use std::sync::atomic::{AtomicU64, Ordering};

const MILLION: u64 = 1_000_000;

pub fn run(options: &Options) -> Result<Report> {
    in_threads(options, || Ok(spin(options.work)))
}

/// The same while SIGALRM comes every period: an application's timer beside the tick.
pub fn run_with_timer(options: &Options) -> Result<Report> {
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

fn spin(million: u64) -> u64 {
    loops(million * MILLION);
    million
}

/// Spins in all threads; `first` is what the first one does.
fn in_threads(options: &Options, first: impl FnOnce() -> Result<u64>) -> Result<Report> {
    let busy = || {
        spin(options.work);
    };
    busy_in_threads(options, busy, || Ok(first()? * options.threads as u64))
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
    let period = libc::timeval { tv_sec: 0, tv_usec: period_us.into() };
    let timer = libc::itimerval { it_interval: period, it_value: period };
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
