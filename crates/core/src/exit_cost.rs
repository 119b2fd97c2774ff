// SPDX-License-Identifier: GPL-2.0-only
//! What a world switch costs on hardware, as the lab takes it unless it is told otherwise.
//! docs/exit-cost.md has the published figures and derives it from them; a test does it again.

use crate::units::Nanos;

/// What a world switch costs unless the user says otherwise: the median of the published figures
/// that bound the hardware's part, rounded to hundreds of cycles, and read as lab nanoseconds.
pub const DEFAULT: Nanos = Nanos(1400);

/// Costs from nothing to twice `cost`, between which a conclusion should hold.
pub fn range(cost: Nanos) -> [Nanos; 5] {
    [0, 1, 2, 3, 4].map(|halves| Nanos(cost.0.saturating_mul(halves) / 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats;

    const DOCUMENT: &str = include_str!("../../../docs/exit-cost.md");

    /// The document's figures in cycles: the least and the most of each.
    fn published(heading: &str) -> Vec<[f64; 2]> {
        let (_, list) = DOCUMENT.split_once(heading).unwrap();
        let items = list.trim_start().lines().take_while(|line| !line.is_empty());
        let cycles = items.filter_map(|line| Some(line.strip_prefix("* **")?.split_once("**")?.0));
        let number = |text: &str| text.replace(' ', "").parse::<f64>().unwrap();
        cycles
            .map(|one| one.split_once('–').map_or([one; 2], |(a, b)| [a, b]).map(number))
            .collect()
    }

    fn bounds() -> Vec<f64> {
        let figures = published("These bound the hardware's part from above:");
        figures.iter().map(|[low, high]| (low + high) / 2.0).collect()
    }

    fn rounded_median(middles: &[f64]) -> u64 {
        (stats::median(middles).unwrap() / 100.0).round() as u64 * 100
    }

    #[test]
    fn the_default_is_the_rounded_median_of_what_bounds_the_hardware() {
        assert_eq!(bounds().len(), 5);
        assert_eq!(DEFAULT.0, rounded_median(&bounds()));
        let stated = format!("**{} ns**", DEFAULT.0);
        assert!(DOCUMENT.contains(&stated), "{stated}");
    }

    #[test]
    fn every_figure_is_one_range() {
        let others = published("These contain software, too:");
        assert_eq!(others.len(), 4);
        assert!(others.iter().all(|[low, high]| low <= high));
        assert!(bounds().is_sorted());
    }

    #[test]
    fn without_any_one_figure_the_default_is_what_the_document_says() {
        let without = |left_out: usize| {
            let mut rest = bounds();
            rest.remove(left_out);
            rounded_median(&rest)
        };
        let defaults: Vec<u64> = (0..bounds().len()).map(without).collect();
        let (least, most) = (defaults.iter().min(), defaults.iter().max());
        assert_eq!((least, most), (Some(&1200), Some(&1500)));
        assert!(DOCUMENT.contains("between 1 200 and 1 500"));
    }

    #[test]
    fn the_range_goes_from_nothing_to_twice_the_cost() {
        assert_eq!(range(Nanos(1000)).map(|n| n.0), [0, 500, 1000, 1500, 2000]);
    }
}
