// SPDX-License-Identifier: GPL-2.0-only
//! The median.

/// The middle value, or the mean of the two middle values; none of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    median_in_place(&mut sorted)
}

pub fn median_in_place(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        // Halves first: the sum of two large values could overflow.
        _ => Some(values[middle - 1] / 2.0 + values[middle] / 2.0),
    }
}
