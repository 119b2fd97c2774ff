// SPDX-License-Identifier: GPL-2.0-only
//! Lengths of halts to try rules on; the same on every run.

use super::recording::{Halt, Halts, Side, VcpuHalts};
use crate::stats::random::Random;

pub const HALTS: usize = 20_000;

pub struct Stream {
    random: Random,
}

impl Stream {
    pub fn new(seed: u64) -> Stream {
        Stream { random: Random::new(seed) }
    }

    pub fn exponential(&mut self, mean_us: f64) -> u64 {
        (-mean_us * 1000.0 * self.random.unit().ln()) as u64
    }

    /// Up to twice the mean.
    pub fn uniform(&mut self, mean_us: f64) -> u64 {
        (2000.0 * mean_us * self.random.unit()) as u64
    }

    pub fn chance(&mut self, part: f64) -> bool {
        self.random.unit() < part
    }
}

pub fn us(us: f64) -> u64 {
    (us * 1000.0) as u64
}

/// All halts from one function of the stream and the number of the halt.
pub fn lengths(mut next: impl FnMut(&mut Stream, usize) -> u64) -> Vec<u64> {
    let mut stream = Stream::new(42);
    (0..HALTS).map(|at| next(&mut stream, at)).collect()
}

pub fn constant(length: f64) -> Vec<u64> {
    lengths(|_, _| us(length))
}

pub fn exponential(mean: f64) -> Vec<u64> {
    lengths(|stream, _| stream.exponential(mean))
}

/// A part of them short, the others long, at random.
pub fn mixture(part: f64, short: f64, long: f64) -> Vec<u64> {
    lengths(|stream, _| us(if stream.chance(part) { short } else { long }))
}

/// So many short ones, as many long ones, and so on.
pub fn phases(of: usize, short: f64, long: f64) -> Vec<u64> {
    lengths(|_, at| us(if at / of % 2 == 0 { short } else { long }))
}

pub fn exponential_phases(of: usize, short: f64, long: f64) -> Vec<u64> {
    lengths(|stream, at| stream.exponential(if at / of % 2 == 0 { short } else { long }))
}

/// One after the other, blocked for.
pub fn halts(lengths: &[u64]) -> Vec<Halt> {
    let mut begin = 0;
    let halts = lengths.iter().map(|ns| {
        let halt = Halt::blocked(begin, *ns);
        begin += ns;
        halt
    });
    halts.collect()
}

pub fn vcpu(side: Side, halts: Vec<Halt>) -> VcpuHalts {
    VcpuHalts { side, halts, ..VcpuHalts::default() }
}

pub fn recording(side: Side, lengths: &[u64]) -> Halts {
    let window_ns = lengths.iter().sum();
    Halts { window_ns, vcpus: vec![vcpu(side, halts(lengths))], ..Halts::default() }
}
