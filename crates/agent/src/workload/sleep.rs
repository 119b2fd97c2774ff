// SPDX-License-Identifier: GPL-2.0-only
//! Short sleeps with a little work between them: the worst a timer-driven program does.

use super::{
    measure::{measure, pin},
    options::Options,
};
use anyhow::Result;
use paratick_core::workload::Report;
use std::{arch::asm, thread, time::Duration};

const SLEEP: Duration = Duration::from_micros(100);
/// Some 10 us at one instruction per nanosecond.
const LOOPS: u64 = 5_000;
const WARM_UP: u64 = 20;

pub fn run(options: &Options) -> Result<Report> {
    thread::scope(|scope| {
        // Further threads sleep on further vCPUs; each does all the work.
        for nth in 1..options.threads {
            scope.spawn(move || pin(nth).map(|()| sleeps(WARM_UP + options.work)));
        }
        pin(0)?;
        sleeps(WARM_UP);
        measure(options, || Ok(sleeps(options.work)))
    })
}

fn sleeps(count: u64) -> u64 {
    for _ in 0..count {
        thread::sleep(SLEEP);
        work();
    }
    count
}

pub(super) fn work() {
    // SAFETY: works on one register only.
    unsafe {
        asm!("2:", "dec {n}", "jnz 2b", n = inout(reg) LOOPS => _, options(nomem, nostack));
    }
}
