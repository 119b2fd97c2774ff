// SPDX-License-Identifier: GPL-2.0-only
//! A small generator of random numbers (SplitMix64): what is drawn depends on the seed alone, on
//! every machine and in every version, so an interval can be recomputed from its samples.

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Above 0 and below 1.
    pub fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Below `bound`, which is not 0.  The bias of not rejecting is below `bound` / 2^64.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence_comes_out() {
        let mut random = Random::new(1234567);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(first, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn every_value_below_the_bound_is_drawn_about_as_often() {
        let mut random = Random::new(1);
        let mut drawn = [0; 7];
        for _ in 0..70_000 {
            drawn[random.below(7)] += 1;
        }
        assert!(drawn.iter().all(|n| (9_500..10_500).contains(n)), "{drawn:?}");
    }
}
