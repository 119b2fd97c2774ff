// SPDX-License-Identifier: GPL-2.0-only
//! Sleeps of random length with a little work between them: halts of which many are longer than
//! anybody polls, and none tells how long the next will be.

use super::{
    measure::{measure, pin},
    options::Options,
    sleep::work,
};
use anyhow::Result;
use paratick_core::{stats::random::Random, workload::Report};
use std::{thread, time::Duration};

const MEAN: Duration = Duration::from_micros(300);
const WARM_UP: u64 = 20;

pub fn run(options: &Options) -> Result<Report> {
    pin(0)?;
    // The same lengths in every run and every mode.
    let mut random = Random::new(42);
    let mut sleeps = |count: u64| {
        for _ in 0..count {
            thread::sleep(exponential(&mut random));
            work();
        }
        count
    };
    sleeps(WARM_UP);
    measure(options, || Ok(sleeps(options.work)))
}

fn exponential(random: &mut Random) -> Duration {
    MEAN.mul_f64(-random.unit().ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_have_the_mean_and_the_spread_of_exponential_ones() {
        let mut random = Random::new(42);
        let drawn: Vec<f64> =
            (0..10_000).map(|_| exponential(&mut random).as_secs_f64() * 1e6).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!((290.0..310.0).contains(&mean), "{mean}");
        // exp(-2/3) of them.
        let long = drawn.iter().filter(|us| **us > 200.0).count();
        assert!((4934..5334).contains(&long), "{long}");
    }
}
