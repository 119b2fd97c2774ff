// SPDX-License-Identifier: GPL-2.0-only
//! Fine-grained locks: threads update cells of a shared field, each cell with a lock of its own.
//! One thread on each vCPU.
//!
//! As in PARSEC's fluidanimate there are many locks, each held briefly, and a lock is what its
//! pthread mutexes are: one attempt, then sleep in the kernel until woken.  Fewer cells (`--locks`)
//! mean more contention.  The number of updates is that of all threads together.

use super::{barrier::FutexBarrier, futex, measure::led, options::Options};
use anyhow::Result;
use paratick_core::workload::Report;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The unit of `--work`.
const UPDATES: u64 = 1000;
/// Steps of computing in an update, of about 5 instructions: without the lock, and with it.
const OUTSIDE: u32 = 120;
const INSIDE: u32 = 35;

pub fn run(options: &Options) -> Result<Report> {
    let field = Field::new(options.locks, options.threads);
    let updates = options.work * UPDATES;
    let mut report =
        led(options, |nth| field.work(nth, updates), || (), || field.work(0, updates))?;
    for (name, value) in [("updates", field.total()), ("contended", field.contended.load(Relaxed))]
    {
        report.more.insert(name.into(), (value as f64).into());
    }
    Ok(report)
}

struct Field {
    threads: usize,
    cells: Vec<Cell>,
    /// How often a lock was not free.
    contended: AtomicU64,
    /// Before the first and after the last update.
    barrier: FutexBarrier,
}

/// On a cache line of its own, as a particle's cell would be.
#[repr(align(64))]
#[derive(Default)]
struct Cell {
    lock: Lock,
    updates: AtomicU64,
    value: AtomicU64,
}

impl Field {
    fn new(cells: usize, threads: usize) -> Field {
        Field {
            threads,
            cells: (0..cells).map(|_| Cell::default()).collect(),
            contended: AtomicU64::new(0),
            barrier: FutexBarrier::new(threads as u32),
        }
    }

    fn work(&self, nth: usize, updates: u64) {
        let (nth, threads) = (nth as u64, self.threads as u64);
        let share = updates * (nth + 1) / threads - updates * nth / threads;
        let mut random = Random(nth + 1);
        let mut contended = 0;
        self.barrier.wait();
        for _ in 0..share {
            let value = random.after(OUTSIDE);
            let cell = &self.cells[(value >> 33) as usize % self.cells.len()];
            contended += u64::from(cell.update(value));
        }
        self.contended.fetch_add(contended, Relaxed);
        self.barrier.wait();
    }

    fn total(&self) -> u64 {
        self.cells.iter().map(|cell| cell.updates.load(Relaxed)).sum()
    }
}

impl Cell {
    fn update(&self, value: u64) -> bool {
        let contended = self.lock.take();
        let value = Random(self.value.load(Relaxed) ^ value).after(INSIDE);
        self.value.store(value, Relaxed);
        // Not an atomic addition: a lock that does not hold would lose some, and the sum tells.
        self.updates.store(self.updates.load(Relaxed) + 1, Relaxed);
        self.lock.free();
        contended
    }
}

/// Knuth's MMIX generator: also what the updates "compute".
struct Random(u64);

impl Random {
    fn after(&mut self, steps: u32) -> u64 {
        for _ in 0..steps {
            self.0 = std::hint::black_box(
                self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407),
            );
        }
        self.0
    }
}

/// Never spins, as glibc's default mutex does not.
#[derive(Default)]
struct Lock(AtomicU32);

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and somebody may sleep.
const AWAITED: u32 = 2;

impl Lock {
    /// Says whether it was not free.
    fn take(&self) -> bool {
        if self.0.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_ok() {
            return false;
        }
        while self.0.swap(AWAITED, Acquire) != FREE {
            futex::wait(&self.0, AWAITED);
        }
        true
    }

    fn free(&self) {
        if self.0.swap(FREE, Release) == AWAITED {
            futex::wake_one(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_here(threads: &str, locks: &str) -> Report {
        let args = ["finelock", "--work", "20", "--threads", threads, "--locks", locks];
        run(&Options::parse(&args.map(String::from), 1).unwrap()).unwrap()
    }

    #[test]
    fn no_update_is_lost_even_where_all_threads_want_one_lock() {
        for locks in ["1", "64"] {
            let measured = run_here("7", locks);
            assert_eq!(measured.work, 20);
            assert_eq!(measured.more["updates"], 20_000.0);
        }
    }

    #[test]
    fn one_thread_never_waits() {
        assert_eq!(run_here("1", "4").more["contended"], 0.0);
    }
}
