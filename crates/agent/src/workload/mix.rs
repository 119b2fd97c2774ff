// SPDX-License-Identifier: GPL-2.0-only
//! Computing and sleeping in turn: does the scheduler tick see the CPU time that it should?

use super::{
    compute::microsecond,
    measure::{measure, pin},
    options::Options,
    ticks::{hz, Received},
};
use anyhow::Result;
use paratick_core::workload::Report;
use rustix::time::{clock_gettime, ClockId};
use std::{
    thread,
    time::{Duration, Instant},
};

pub fn run(options: &Options) -> Result<Report> {
    pin(0)?;
    let mut received = Received::default();
    let mut ran_ns = 0;
    // What is mapped and looked up at the first call is not measured.
    turns(options, Duration::from_millis(20));
    let mut measured = measure(options, || {
        let before = thread_ns();
        received.during(|| turns(options, Duration::from_millis(options.work)))?;
        ran_ns = thread_ns() - before;
        Ok(options.work)
    })?;
    received.report(&mut measured.more);
    measured.more.insert("ran_ns".into(), ran_ns.into());
    measured.more.insert("hz".into(), hz()?.into());
    Ok(measured)
}

fn turns(options: &Options, time: Duration) {
    let (busy, sleep) = (us(options.busy_us), us(options.sleep_us));
    let mut random = Random(1);
    let begin = Instant::now();
    while begin.elapsed() < time {
        let start = Instant::now();
        while start.elapsed() < busy {
            microsecond();
        }
        let away = f64::from(options.jitter_percent) / 100.0 * random.next();
        thread::sleep(sleep.mul_f64(1.0 + away));
    }
}

fn us(us: u32) -> Duration {
    Duration::from_micros(us.into())
}

/// CPU time of this thread, which the scheduler keeps exactly, whatever the ticks see.
fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The same numbers between -1 and 1 in every run (an xorshift generator).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_its_bounds_and_goes_both_ways() {
        let mut random = Random(1);
        let drawn: Vec<f64> = (0..1000).map(|_| random.next()).collect();
        assert!(drawn.iter().all(|one| (-1.0..=1.0).contains(one)));
        let mean = drawn.iter().sum::<f64>() / 1000.0;
        assert!(mean.abs() < 0.1, "{mean}");
    }
}
