// SPDX-License-Identifier: GPL-2.0-only
//! What a world switch costs on hardware, as published, and what the lab takes for it unless it is
//! told otherwise.  docs/exit-cost.md derives it; a test holds the two together.

use crate::units::Nanos;

/// Cycles of a processor.  The lab has none: see [`lab_nanos`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cycles(pub u32);

/// A published figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// As far as the source names it.
    pub cpu: &'static str,
    pub measured: &'static str,
    /// Smallest and largest, where several are given.
    pub low: Cycles,
    pub high: Cycles,
    /// A whole round trip (exit and entry) with hardly any software in it, so that the hardware's
    /// part is no more than this.
    pub bounds_hardware: bool,
    pub source: &'static str,
}

impl Published {
    /// Twice the middle, so that it is a whole number.
    const fn doubled(&self) -> u32 {
        self.low.0 + self.high.0
    }
}

/// In the order of their size, those that bound the hardware's part first.
pub const PUBLISHED: [Published; 9] = [
    Published {
        cpu: "not named (Google, 2024)",
        measured: "CPUID exit answered in KVM's fast path, mitigations off",
        low: Cycles(1018),
        high: Cycles(1027),
        bounds_hardware: true,
        source: "Z1ecILHBlpkiAThl@google.com",
    },
    Published {
        cpu: "not named (Kauer, 2024)",
        measured: "CPUID exit, kvm-unit-tests vmexit: the median of 100 runs",
        low: Cycles(1098),
        high: Cycles(1098),
        bounds_hardware: true,
        source: "Z1q4vxmEmZbkOiqC@mias.mediconcil.de",
    },
    Published {
        cpu: "AMD, model not named (2020)",
        measured: "from before VMRUN to after it, with what the guest ran in between",
        low: Cycles(1344),
        high: Cycles(1376),
        bounds_hardware: true,
        source: "https://lkml.iu.edu/hypermail/linux/kernel/2012.2/00527.html",
    },
    Published {
        cpu: "Intel Skylake-SP",
        measured: "VMCALL, kvm-unit-tests vmexit",
        low: Cycles(1529),
        high: Cycles(1559),
        bounds_hardware: true,
        source: "1584071718-17163-1-git-send-email-wanpengli@tencent.com",
    },
    Published {
        cpu: "Intel Nehalem (Xeon X5570)",
        measured: "direct cost: the world switch to the hypervisor and back",
        low: Cycles(2000),
        high: Cycles(2000),
        bounds_hardware: true,
        source: "Landau, Ben-Yehuda, Gordon: SplitX, WIOV 2011, table 1",
    },
    Published {
        cpu: "not named (Google, 2024)",
        measured: "the same CPUID exit, mitigations on: this and more",
        low: Cycles(1600),
        high: Cycles(1600),
        bounds_hardware: false,
        source: "Z1ecILHBlpkiAThl@google.com",
    },
    Published {
        cpu: "Intel Skylake-SP",
        measured: "TSC_DEADLINE write that expires at once (tscdeadline_immed)",
        low: Cycles(2495),
        high: Cycles(3124),
        bounds_hardware: false,
        source: "1588055009-12677-8-git-send-email-wanpengli@tencent.com",
    },
    Published {
        cpu: "AMD, model not named (2020)",
        measured: "from entry to exit of the ioctl KVM_RUN, with one VMRUN in it",
        low: Cycles(2528),
        high: Cycles(2576),
        bounds_hardware: false,
        source: "https://lkml.iu.edu/hypermail/linux/kernel/2012.2/00527.html",
    },
    Published {
        cpu: "Intel Skylake-SP",
        measured: "TSC_DEADLINE write, waiting and expiry (tscdeadline)",
        low: Cycles(4537),
        high: Cycles(5766),
        bounds_hardware: false,
        source: "1588055009-12677-8-git-send-email-wanpengli@tencent.com",
    },
];

/// More digits would promise what the table cannot hold.
const ROUNDED_TO: u32 = 100;

/// What a world switch costs unless the user says otherwise: the median of the figures that bound
/// the hardware's part, rounded, and read as lab nanoseconds.
pub const DEFAULT: Nanos = lab_nanos(rounded_median(&PUBLISHED));

/// A cycle as time of the lab, where an instruction is a nanosecond: at one instruction per cycle
/// (an assumption, see docs/exit-cost.md) a cycle is what an instruction is.
pub const fn lab_nanos(cycles: Cycles) -> Nanos {
    Nanos(cycles.0 as u64)
}

/// Costs from nothing to twice `cost`, between which a conclusion should hold.
pub fn range(cost: Nanos) -> [Nanos; 5] {
    [0, 1, 2, 3, 4].map(|halves| Nanos(cost.0.saturating_mul(halves) / 2))
}

/// In const context there is no sorting: the median is the figure with as many below as above,
/// found by its rank.
const fn rounded_median(figures: &[Published]) -> Cycles {
    let mut count = 0;
    let mut place = 0;
    while place < figures.len() {
        count += figures[place].bounds_hardware as usize;
        place += 1;
    }
    // The same twice for an odd count; each figure is doubled, so this is four times the median.
    let fourfold = ranked(figures, (count - 1) / 2) + ranked(figures, count / 2);
    Cycles((fourfold + 2 * ROUNDED_TO) / (4 * ROUNDED_TO) * ROUNDED_TO)
}

/// Twice the bounding figure that has `rank` smaller ones; equal ones rank by their place.
const fn ranked(figures: &[Published], rank: usize) -> u32 {
    let mut place = 0;
    while place < figures.len() {
        if figures[place].bounds_hardware && rank_of(figures, place) == rank {
            return figures[place].doubled();
        }
        place += 1;
    }
    panic!("no figure bounds the hardware's part")
}

const fn rank_of(figures: &[Published], of: usize) -> usize {
    let mut below = 0;
    let mut place = 0;
    while place < figures.len() {
        let (one, other) = (figures[place].doubled(), figures[of].doubled());
        let smaller = one < other || (one == other && place < of);
        below += (figures[place].bounds_hardware && smaller) as usize;
        place += 1;
    }
    below
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats;

    const DOCUMENT: &str = include_str!("../../../docs/exit-cost.md");

    fn middle(figure: &Published) -> f64 {
        f64::from(figure.low.0 + figure.high.0) / 2.0
    }

    #[test]
    fn the_default_is_the_rounded_median_of_what_bounds_the_hardware() {
        let bounds = PUBLISHED.iter().filter(|figure| figure.bounds_hardware);
        let middles: Vec<f64> = bounds.map(middle).collect();
        let median = stats::median(&middles).unwrap();
        assert_eq!(DEFAULT.0 as f64, (median / 100.0).round() * 100.0);
    }

    #[test]
    fn medians_of_even_and_equal_figures_are_right_too() {
        let figure =
            |cycles| Published { low: Cycles(cycles), high: Cycles(cycles), ..PUBLISHED[0] };
        let other = Published { bounds_hardware: false, ..figure(1) };
        assert_eq!(rounded_median(&[figure(2000), other]), Cycles(2000));
        assert_eq!(rounded_median(&[figure(3000), other, figure(1000)]), Cycles(2000));
        assert_eq!(rounded_median(&[figure(700), figure(700), figure(700)]), Cycles(700));
        assert_eq!(rounded_median(&[figure(1049)]), Cycles(1000));
        assert_eq!(rounded_median(&[figure(1050)]), Cycles(1100));
    }

    #[test]
    fn every_figure_is_one_range_and_the_bounding_ones_come_first() {
        assert!(PUBLISHED.iter().all(|figure| figure.low <= figure.high));
        let bounding: Vec<_> = PUBLISHED.iter().map(|f| !f.bounds_hardware).collect();
        assert!(bounding.is_sorted());
    }

    /// The document's table is generated (tests/docs).
    #[test]
    fn the_document_has_this_default() {
        let stated = format!("**{} ns**", DEFAULT.0);
        assert!(DOCUMENT.contains(&stated), "{stated}");
    }

    #[test]
    fn without_any_one_figure_the_default_is_what_the_document_says() {
        let bounds: Vec<Published> =
            PUBLISHED.into_iter().filter(|figure| figure.bounds_hardware).collect();
        let without = |left_out: usize| {
            let mut rest = bounds.clone();
            rest.remove(left_out);
            rounded_median(&rest).0
        };
        let defaults: Vec<u32> = (0..bounds.len()).map(without).collect();
        let (least, most) = (defaults.iter().min(), defaults.iter().max());
        assert_eq!((least, most), (Some(&1200), Some(&1500)));
        assert!(DOCUMENT.contains("between 1 200 and 1 500"));
    }

    #[test]
    fn the_range_goes_from_nothing_to_twice_the_cost() {
        assert_eq!(range(Nanos(1000)).map(|n| n.0), [0, 500, 1000, 1500, 2000]);
    }
}
