// SPDX-License-Identifier: GPL-2.0-only
//! Unbalanced load as a Java server has it, for SPECjbb2000, which may not be handed on: threads
//! serve transactions of uneven length, stop for a garbage collection until the last of them has
//! stopped, and go on.
//!
//! There are more threads than vCPUs, and the scheduler puts them where it likes.  A vCPU that runs
//! out of work has to take over a thread that waits for another vCPU, or the world stays stopped
//! for longer.  Each run has the same work in the same order.

use super::{barrier::FutexBarrier, compute::loops, measure::measure, options::Options};
use anyhow::Result;
use paratick_core::{stats::random::Random, workload::Report};
use std::thread;

/// What a thread computes before a collection, on average, in loops of four instructions.
#[derive(Clone, Copy)]
pub struct Work(u64);

/// Between collections of everything, and of what is young: 40 ms and 10 ms of the lab's time.
pub const FULL: Work = Work(10_000_000);
pub const MINOR: Work = Work(2_500_000);

pub fn run(options: &Options, work: Work) -> Result<Report> {
    let barrier = FutexBarrier::new(options.threads as u32);
    measure(options, || {
        thread::scope(|scope| {
            for nth in 0..options.threads {
                let barrier = &barrier;
                scope.spawn(move || {
                    for length in lengths(nth as u64, work).take(options.work as usize) {
                        loops(length);
                        barrier.wait();
                    }
                });
            }
        });
        Ok(options.work)
    })
}

/// Of a thread: from nothing to twice the average.
fn lengths(nth: u64, work: Work) -> impl Iterator<Item = u64> {
    let mut random = Random::new(nth);
    std::iter::repeat_with(move || (random.unit() * 2.0 * work.0 as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_uneven_work_and_the_same_in_every_run() {
        let of = |nth| lengths(nth, FULL).take(1000).collect::<Vec<_>>();
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
        let mean = of(3).iter().sum::<u64>() as f64 / 1000.0 / FULL.0 as f64;
        assert!((0.9..1.1).contains(&mean), "{mean}");
        assert!(of(3).iter().any(|length| *length > FULL.0 * 3 / 2));
    }
}
