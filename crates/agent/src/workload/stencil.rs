// SPDX-License-Identifier: GPL-2.0-only
//! A numeric kernel with many barriers: threads relax a grid, each its band of rows, and wait for
//! each other after every sweep, sleeping in the kernel.  One thread on each vCPU.
//!
//! The grid is the same however many threads there are, so that with more threads each has less to
//! do between two barriers.  On one thread a sweep takes some 150 000 instructions.

use super::{barrier::FutexBarrier, measure::led, options::Options};
use anyhow::Result;
use paratick_core::workload::Report;
use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Columns of the grid, and its rows without the fixed ones above and below.
const WIDTH: usize = 128;
const HEIGHT: usize = 128;
const WARM_UP: u64 = 20;

pub fn run(options: &Options) -> Result<Report> {
    let grid = Grid::new(options.threads);
    let last = WARM_UP + options.work;
    let measured = || grid.relax(0, WARM_UP..last);
    let warm_up = || grid.relax(0, 0..WARM_UP);
    let mut report = led(options, |nth| grid.relax(nth, 0..last), warm_up, measured)?;
    let mean = grid.mean(last);
    report.more.insert("grid_mean".into(), mean.into());
    Ok(report)
}

/// Two copies of the grid: a sweep reads one and writes the other.
struct Grid {
    threads: usize,
    /// The bits of f64.  Bands meet only at barriers, which order the accesses.
    copies: [Vec<AtomicU64>; 2],
    barrier: FutexBarrier,
}

impl Grid {
    /// 1 along the upper edge, 0 elsewhere.
    fn new(threads: usize) -> Grid {
        let copy = || {
            let cell = |at: usize| if at < WIDTH { 1.0f64 } else { 0.0 };
            (0..WIDTH * (HEIGHT + 2)).map(|at| AtomicU64::new(cell(at).to_bits())).collect()
        };
        Grid { threads, copies: [copy(), copy()], barrier: FutexBarrier::new(threads as u32) }
    }

    /// The part of thread `nth` in these sweeps, each with the barrier after it.
    fn relax(&self, nth: usize, sweeps: Range<u64>) {
        for sweep in sweeps {
            let (from, to) = self.direction(sweep);
            self.rows(nth).for_each(|row| relax_row(from, to, row));
            self.barrier.wait();
        }
    }

    fn direction(&self, sweep: u64) -> (&[AtomicU64], &[AtomicU64]) {
        let [a, b] = &self.copies;
        match sweep % 2 {
            0 => (a, b),
            _ => (b, a),
        }
    }

    fn rows(&self, nth: usize) -> Range<usize> {
        let first = |nth: usize| 1 + HEIGHT * nth / self.threads;
        first(nth)..first(nth + 1)
    }

    /// Over the whole grid after so many sweeps: the same for any number of threads.
    fn mean(&self, sweeps: u64) -> f64 {
        let (newest, _) = self.direction(sweeps);
        newest.iter().map(get).sum::<f64>() / newest.len() as f64
    }
}

fn relax_row(from: &[AtomicU64], to: &[AtomicU64], row: usize) {
    let line = |row: usize| &from[row * WIDTH..(row + 1) * WIDTH];
    let (above, here, below) = (line(row - 1), line(row), line(row + 1));
    let out = &to[row * WIDTH..(row + 1) * WIDTH];
    for column in 1..WIDTH - 1 {
        let sum = get(&above[column])
            + get(&below[column])
            + get(&here[column - 1])
            + get(&here[column + 1]);
        out[column].store((sum * 0.25).to_bits(), Relaxed);
    }
}

fn get(cell: &AtomicU64) -> f64 {
    f64::from_bits(cell.load(Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(threads: &str) -> f64 {
        let args = ["stencil", "--work", "40", "--threads", threads].map(String::from);
        let measured = run(&Options::parse(&args, 1).unwrap()).unwrap();
        assert_eq!(measured.work, 40);
        measured.more["grid_mean"].as_f64().unwrap()
    }

    #[test]
    fn the_result_does_not_depend_on_how_many_threads_computed_it() {
        let one = mean("1");
        assert!(one > 1.0 / 130.0 && one < 1.0, "{one}");
        assert_eq!(mean("3"), one);
        assert_eq!(mean("150"), one);
    }
}
