// SPDX-License-Identifier: GPL-2.0-only
//! Percentile bootstrap in two levels: rounds, then samples within each drawn round.

use super::{median::median_in_place, random::Random};

/// Resamples behind each bootstrap interval.
pub const RESAMPLES: usize = 2000;
/// The probability with which a bootstrap interval should hold the true value.
pub const CONFIDENCE: f64 = 0.95;
/// Any number will do; that it never changes makes intervals repeatable.
const SEED: u64 = 0x7061_7261_7469_636b;

/// No round is empty, and there is one at least.
pub fn median_interval(rounds: &[Vec<f64>]) -> (f64, f64) {
    let mut random = Random::new(SEED);
    let mut drawn = Vec::new();
    percentiles(|| {
        draw_rounds(rounds, &mut random, &mut drawn);
        median_in_place(&mut drawn)
    })
}

/// Each side's rounds are drawn for themselves.
pub fn ratio_interval(above: &[Vec<f64>], below: &[Vec<f64>]) -> (f64, f64) {
    let mut random = Random::new(SEED);
    let (mut top, mut bottom) = (Vec::new(), Vec::new());
    percentiles(|| {
        draw_rounds(above, &mut random, &mut top);
        draw_rounds(below, &mut random, &mut bottom);
        Some(median_in_place(&mut top)? / median_in_place(&mut bottom)?)
    })
}

/// As many rounds as there are, each with as many samples as it has.
fn draw_rounds(rounds: &[Vec<f64>], random: &mut Random, into: &mut Vec<f64>) {
    into.clear();
    for _ in rounds {
        draw(&rounds[random.below(rounds.len())], random, into);
    }
}

fn draw(samples: &[f64], random: &mut Random, into: &mut Vec<f64>) {
    for _ in samples {
        into.push(samples[random.below(samples.len())]);
    }
}

fn percentiles(mut resample: impl FnMut() -> Option<f64>) -> (f64, f64) {
    let mut found: Vec<f64> = (0..RESAMPLES).filter_map(|_| resample()).collect();
    found.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let last = (found.len() - 1) as f64;
    // Outward, so that rounding never narrows the interval.
    let low = (tail * last).floor() as usize;
    let high = ((1.0 - tail) * last).ceil() as usize;
    (found[low], found[high])
}
