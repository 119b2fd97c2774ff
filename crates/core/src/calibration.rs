// SPDX-License-Identifier: GPL-2.0-only
//! What exits cost on a machine, as a guest without an operating system measures it.
//! docs/exit-cost.md describes it.

use crate::stats::at_most;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What `paratick calibrate` measures and keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    pub schema: String,
    pub machine: Machine,
    pub meaning: Meaning,
    /// How often the guest's TSC counts in a second, in thousands; cycles are its.  Absent: KVM
    /// does not say.
    pub tsc_khz: Option<u32>,
    /// The first has nothing between its two readings of the TSC.  It is a part of every other,
    /// and was not taken off.
    pub rows: Vec<Row>,
    /// Instructions that the guests executed and a processor may exit for, of all rows, by the
    /// exit's reason, with those that prepare and warm up.
    pub executed: BTreeMap<String, u64>,
}

pub const SCHEMA: &str = "paratick-calibrate/1";

/// What the cycles are cycles of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Meaning {
    /// A processor's.
    Hardware,
    /// Of a processor and of this hypervisor below, by its name in CPUID.
    Nested(String),
    /// Of an emulator, whose TSC counts instructions: they are no cost, and are left out.
    Emulated,
}

/// What decides the numbers.  A setting that this machine does not have is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub vendor: Option<String>,
    pub cpu: Option<String>,
    pub kernel: String,
    /// Words of the kernel's command line that switch mitigations.
    pub command_line: Vec<String>,
    /// What the kernel does about each vulnerability.
    pub mitigations: BTreeMap<String, String>,
    /// KVM's, without that of another vendor.
    pub modules: Vec<String>,
    /// Of these modules: halt polling, PLE (AMD: pause filter), APICv (AMD: AVIC), nesting.
    pub parameters: BTreeMap<String, String>,
}

/// One kind of exit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub name: String,
    /// From where to where it was measured.
    pub between: String,
    /// How often.
    pub samples: u32,
    /// Exits of the vCPU for each sample, as KVM counts them; interrupts of the host's are left
    /// out.  Absent: not measured, or KVM has no statistics.
    pub exits_per_sample: Option<f64>,
    /// In cycles of the TSC.
    pub cycles: Option<Spread>,
    /// Why there are no cycles.
    pub not_measured: Option<String>,
}

/// How cycles are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    pub min: u64,
    pub median: u64,
    pub p90: u64,
    pub p99: u64,
    pub max: u64,
    pub n: usize,
}

impl Spread {
    /// By nearest rank: each number is one that was measured.  None of no samples.
    pub fn of(mut samples: Vec<u64>) -> Option<Spread> {
        samples.sort_unstable();
        let n = samples.len();
        let rank = |percent| at_most(&samples, percent);
        Some(Spread {
            min: rank(0)?,
            median: rank(50)?,
            p90: rank(90)?,
            p99: rank(99)?,
            max: rank(100)?,
            n,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_rank_is_the_least_that_so_many_do_not_exceed() {
        assert_eq!(Spread::of(vec![]), None);
        let one = Spread { min: 7, median: 7, p90: 7, p99: 7, max: 7, n: 1 };
        assert_eq!(Spread::of(vec![7]), Some(one));
        let hundred = Spread { min: 1, median: 50, p90: 90, p99: 99, max: 100, n: 100 };
        assert_eq!(Spread::of((1..=100).rev().collect()), Some(hundred));
        let eleven = Spread::of((1..=11).collect()).unwrap();
        assert_eq!((eleven.median, eleven.p90, eleven.p99), (6, 10, 11));
    }

    proptest! {
        #[test]
        fn every_rank_was_measured_and_covers_its_share(
            samples in proptest::collection::vec(any::<u64>(), 1..300),
        ) {
            let spread = Spread::of(samples.clone()).unwrap();
            let ranks = [(50, spread.median), (90, spread.p90), (99, spread.p99)];
            for (percent, rank) in ranks {
                prop_assert!(samples.contains(&rank));
                let covered = samples.iter().filter(|sample| **sample <= rank).count();
                let below = samples.iter().filter(|sample| **sample < rank).count();
                prop_assert!(covered * 100 >= percent * samples.len());
                prop_assert!(below * 100 < percent * samples.len());
            }
            prop_assert_eq!(Some(&spread.min), samples.iter().min());
            prop_assert_eq!(Some(&spread.max), samples.iter().max());
        }
    }
}
