// SPDX-License-Identifier: GPL-2.0-only
//! A straight line through points: ordinary least squares.

use serde::Serialize;

/// With the 95 % interval of its slope by Student's t: points scatter about it independently and
/// alike.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Line {
    pub slope: f64,
    pub low: f64,
    pub high: f64,
    /// At 0.
    pub intercept: f64,
    pub points: usize,
}

/// 0.975 quantiles of Student's t with 1 to 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// None of fewer than three points, which leave nothing to tell how they scatter, or of points at
/// fewer than two places.
pub fn line(points: &[(f64, f64)]) -> Option<Line> {
    let freedom = points.len().checked_sub(2).filter(|freedom| *freedom > 0)?;
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    if spread <= 0.0 {
        return None;
    }
    let slope = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>() / spread;
    let intercept = y - slope * x;
    let off = |point: &(f64, f64)| (point.1 - intercept - slope * point.0).powi(2);
    let error = (points.iter().map(off).sum::<f64>() / freedom as f64 / spread).sqrt();
    let width = error * quantile(freedom);
    Some(Line { slope, low: slope - width, high: slope + width, intercept, points: points.len() })
}

fn quantile(freedom: usize) -> f64 {
    // From there on right to three digits.
    T.get(freedom - 1).copied().unwrap_or(1.96 + 2.46 / freedom as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn points_on_a_line_give_it_back(slope in -1e3..1e3f64, at_0 in -1e3..1e3f64) {
            let points: Vec<_> =
                [1.0, 2.0, 5.0, 50.0].map(|x| (x, at_0 + slope * x)).to_vec();
            let line = line(&points).unwrap();
            prop_assert!((line.slope - slope).abs() < 1e-6 && (line.intercept - at_0).abs() < 1e-6);
            prop_assert!(line.high - line.low < 1e-6);
        }
    }

    #[test]
    fn an_interval_is_that_of_the_textbook() {
        // y = 2 x with residuals +1, -2, +1 at 0, 1, 2: s² = 6, of the slope 3; t(1) = 12.706.
        let line = line(&[(0.0, 1.0), (1.0, 0.0), (2.0, 5.0)]).unwrap();
        assert_eq!((line.slope, line.points), (2.0, 3));
        assert!((line.high - line.slope - 12.706 * 3f64.sqrt()).abs() < 1e-9, "{line:?}");
        assert!((quantile(100) - 1.984).abs() < 1e-3);
    }

    #[test]
    fn too_few_points_and_points_at_one_place_have_no_line() {
        assert_eq!(line(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(line(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(line(&[]), None);
    }
}
