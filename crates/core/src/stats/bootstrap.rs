// SPDX-License-Identifier: GPL-2.0-only
//! Percentile bootstrap in two levels: rounds, then samples within each drawn round.

use super::{median::mean, random::Random};

/// Resamples behind each bootstrap interval.
pub const RESAMPLES: usize = 2000;
/// The probability with which a bootstrap interval should hold the true value.
pub const CONFIDENCE: f64 = 0.95;
/// Any number will do; that it never changes makes intervals repeatable.
const SEED: u64 = 0x7061_7261_7469_636b;

/// No round is empty, and there is one at least.
pub fn median_interval(rounds: &[Vec<f64>]) -> (f64, f64) {
    let mut random = Random::new(SEED);
    let mut pool = Pool::of(rounds);
    percentiles(|| pool.median(&mut random))
}

/// Each side's rounds are drawn for themselves.
pub fn ratio_interval(above: &[Vec<f64>], below: &[Vec<f64>]) -> (f64, f64) {
    let mut random = Random::new(SEED);
    let (mut top, mut bottom) = (Pool::of(above), Pool::of(below));
    percentiles(|| top.median(&mut random) / bottom.median(&mut random))
}

/// What is drawn from: sorted once, so that no draw is.
struct Pool {
    sorted: Vec<f64>,
    /// Of each round the places of its samples.
    rounds: Vec<Vec<usize>>,
    /// How often each place was drawn.
    drawn: Vec<usize>,
}

impl Pool {
    fn of(rounds: &[Vec<f64>]) -> Pool {
        let mut sorted = rounds.concat();
        sorted.sort_unstable_by(f64::total_cmp);
        let place = |value: &f64| sorted.partition_point(|one| one.total_cmp(value).is_lt());
        let rounds = rounds.iter().map(|round| round.iter().map(place).collect()).collect();
        Pool { rounds, drawn: vec![0; sorted.len()], sorted }
    }

    /// Of as many rounds as there are, each with as many samples as it has.
    fn median(&mut self, random: &mut Random) -> f64 {
        self.drawn.fill(0);
        let mut number = 0;
        for _ in &self.rounds {
            let round = &self.rounds[random.below(self.rounds.len())];
            for _ in round {
                self.drawn[round[random.below(round.len())]] += 1;
            }
            number += round.len();
        }
        let (mut place, mut up_to) = (0, self.drawn[0]);
        let mut nth = |n: usize| {
            while up_to <= n {
                place += 1;
                up_to += self.drawn[place];
            }
            self.sorted[place]
        };
        let (low, high) = (nth((number - 1) / 2), nth(number / 2));
        if number % 2 == 1 {
            high
        } else {
            mean(low, high)
        }
    }
}

fn percentiles(mut resample: impl FnMut() -> f64) -> (f64, f64) {
    let mut found: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
    found.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let last = (found.len() - 1) as f64;
    // Outward, so that rounding never narrows the interval.
    let low = (tail * last).floor() as usize;
    let high = ((1.0 - tail) * last).ceil() as usize;
    (found[low], found[high])
}
