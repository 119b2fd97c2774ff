// SPDX-License-Identifier: GPL-2.0-only
//! Threads that wait for each other again and again, sleeping in the kernel, one on each vCPU.

use super::{futex, measure::led, options::Options};
use anyhow::Result;
use paratick_core::workload::Report;
use std::sync::atomic::{AtomicU32, Ordering};

const WARM_UP: u64 = 20;

pub fn run(options: &Options) -> Result<Report> {
    let barrier = FutexBarrier::new(options.threads as u32);
    let rounds = WARM_UP + options.work;
    let last = || barrier.pass(options.work);
    led(options, |_| barrier.pass(rounds), || barrier.pass(WARM_UP), last)
}

/// Never spins: every thread but the last sleeps in futex(2).
pub(super) struct FutexBarrier {
    threads: u32,
    arrived: AtomicU32,
    generation: AtomicU32,
}

impl FutexBarrier {
    pub(super) fn new(threads: u32) -> FutexBarrier {
        FutexBarrier { threads, arrived: AtomicU32::new(0), generation: AtomicU32::new(0) }
    }

    fn pass(&self, times: u64) {
        for _ in 0..times {
            self.wait();
        }
    }

    pub(super) fn wait(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            self.generation.fetch_add(1, Ordering::Release);
            futex::wake_all(&self.generation);
            return;
        }
        while self.generation.load(Ordering::Acquire) == generation {
            futex::wait(&self.generation, generation);
        }
    }
}
