// SPDX-License-Identifier: GPL-2.0-only
//! The median.

/// The middle value, or the mean of the two middle values; none of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(mean(sorted[middle - 1], sorted[middle])),
    }
}

/// Halves first: the sum of two large values could overflow.
pub(super) fn mean(one: f64, other: f64) -> f64 {
    one / 2.0 + other / 2.0
}
