// SPDX-License-Identifier: GPL-2.0-only
//! What a system does beside its work: threads that wake up, do a little, and sleep again, wherever
//! the scheduler puts them.

use super::{measure::measure, options::Options};
use anyhow::Result;
use paratick_core::workload::Report;
use std::{
    thread,
    time::{Duration, Instant},
};

pub fn run(options: &Options) -> Result<Report> {
    measure(options, || {
        let end = Instant::now() + Duration::from_millis(options.work);
        thread::scope(|scope| {
            for nth in 0..options.threads {
                scope.spawn(move || chores(options, nth as u32, end));
            }
        });
        Ok(options.work)
    })
}

fn chores(options: &Options, nth: u32, end: Instant) {
    let busy = Duration::from_micros(options.busy_us.into());
    let sleep = Duration::from_micros(options.sleep_us.into());
    // Not in step with each other.
    thread::sleep(sleep * nth / options.threads as u32);
    while Instant::now() < end {
        let start = Instant::now();
        while start.elapsed() < busy {}
        // Each a little slower than the last, so that they meet now and then.
        thread::sleep(sleep + sleep * nth / 10);
    }
}
