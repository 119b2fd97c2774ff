// SPDX-License-Identifier: GPL-2.0-only
//! Threads that synchronize at a given rate by blocking, one on each vCPU: the workload W3 of the
//! paper's section 3.3.
//!
//! At each synchronization one thread, another every time, has computed until the moment has come,
//! while all others sleep in the kernel; it wakes them and goes to sleep itself.  No thread sets a
//! timer: what timers there are, the guest's kernel made.

use super::{
    futex::{self, wake_all},
    measure::led,
    options::Options,
};
use anyhow::Result;
use paratick_core::workload::Report;
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

pub fn run(options: &Options) -> Result<Report> {
    let threads = options.threads as u32;
    let period = Duration::from_secs(1) / options.rate;
    // So that thread 0 leads the first measured one: all others sleep while it opens the window.
    let warm_up = 2 * threads;
    let last = warm_up.saturating_add(options.work as u32);
    let meeting = Meeting::new(threads, period);
    let measured = || {
        meeting.begin_again();
        meeting.attend(0, warm_up, last);
    };
    let help = |nth| meeting.attend(nth as u32, 0, last);
    led(options, help, || meeting.attend(0, 0, warm_up), measured)
}

struct Meeting {
    threads: u32,
    period: Duration,
    held: AtomicU32,
    begun: std::sync::Mutex<(u32, Instant)>,
}

impl Meeting {
    fn new(threads: u32, period: Duration) -> Meeting {
        Meeting {
            threads,
            period,
            held: AtomicU32::new(0),
            begun: std::sync::Mutex::new((0, Instant::now())),
        }
    }

    /// Counts moments from now on: the next synchronization is one period away.
    fn begin_again(&self) {
        let held = self.held.load(Ordering::Acquire);
        *self.begun.lock().expect("no holder panics") = (held, Instant::now());
    }

    /// Takes part, as thread `nth`, in the synchronizations `from` up to `to`.
    fn attend(&self, nth: u32, from: u32, to: u32) {
        for number in from..to {
            if number % self.threads == nth {
                self.lead(number);
            } else {
                self.wait(number);
            }
        }
    }

    /// Computes until its moment, then wakes all others.
    fn lead(&self, number: u32) {
        let (first, begun) = *self.begun.lock().expect("no holder panics");
        let moment = begun + self.period * (number - first + 1);
        while Instant::now() < moment {
            std::hint::black_box((0..100u64).sum::<u64>());
        }
        self.held.store(number + 1, Ordering::Release);
        wake_all(&self.held);
    }

    /// Sleeps until synchronization `number` has been held.
    fn wait(&self, number: u32) {
        loop {
            let held = self.held.load(Ordering::Acquire);
            if held > number {
                return;
            }
            futex::wait(&self.held, held);
        }
    }
}
