// SPDX-License-Identifier: GPL-2.0-only
//! From numbers to places, with ticks at round numbers.

use crate::number;

#[derive(Clone, Copy, Debug)]
pub struct Scale {
    from: f64,
    to: f64,
    step: f64,
    pub left: f64,
    pub right: f64,
    signed: bool,
}

const ROOM: f64 = 52.0;

impl Scale {
    /// Holds all of `values`, which are finite, from `left` to `right`.
    pub fn new(values: impl IntoIterator<Item = f64>, (left, right): (f64, f64)) -> Self {
        let finite = values.into_iter().filter(|value| value.is_finite());
        let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let (low, high) = match low < high {
            true => (low, high),
            false if low.is_finite() => (low - 1.0, low + 1.0),
            false => (0.0, 1.0),
        };
        let most = ((right - left) / ROOM).floor().max(2.0);
        let mut step = 10f64.powf(((high - low) / most).log10().floor());
        // 1, 2, 5, 10, …
        for factor in [2.0, 2.5, 2.0].into_iter().cycle().take(9) {
            if (high / step).ceil() - (low / step).floor() <= most {
                break;
            }
            step *= factor;
        }
        Scale {
            from: (low / step).floor() * step,
            to: (high / step).ceil() * step,
            step,
            left,
            right,
            signed: false,
        }
    }

    /// Tick labels with a sign: for changes.
    pub fn signed(self) -> Self {
        Scale { signed: true, ..self }
    }

    /// Ends at `value` instead of the next round number.
    pub fn until(self, value: f64) -> Self {
        let to = if value > self.from { value } else { self.to };
        Scale { to, ..self }
    }

    pub fn at(&self, value: f64) -> f64 {
        let share = (value - self.from) / (self.to - self.from);
        self.left + share * (self.right - self.left)
    }

    pub fn ticks(&self) -> Vec<f64> {
        // A little more than nothing is lost in dividing.
        let count = ((self.to - self.from) / self.step + 1e-6).floor() as u32;
        let ticks = (0..=count).map(|nth| self.from + f64::from(nth) * self.step);
        ticks.collect()
    }

    pub fn label(&self, tick: f64) -> String {
        let digits = (-self.step.log10().floor()).clamp(0.0, 4.0) as usize;
        let text = match digits {
            0 => number::count(tick.abs()),
            _ => format!("{:.digits$}", tick.abs()),
        };
        match () {
            () if tick.abs() < self.step / 2.0 => "0".into(),
            () if tick < 0.0 => format!("−{text}"),
            () if self.signed => format!("+{text}"),
            () => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(values: &[f64], width: f64) -> Vec<String> {
        let scale = Scale::new(values.iter().copied(), (0.0, width)).signed();
        scale.ticks().iter().map(|tick| scale.label(*tick)).collect()
    }

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        assert_eq!(labels(&[-52.0, 0.0], 200.0), ["−60", "−40", "−20", "0"]);
        assert_eq!(labels(&[-0.4, 1.1], 220.0), ["−0.5", "0", "+0.5", "+1.0", "+1.5"]);
    }

    #[test]
    fn ticks_have_room_for_their_labels() {
        for span in [0.001, 0.7, 3.0, 19.0, 104.0, 5e7] {
            let scale = Scale::new([-span / 3.0, span], (10.0, 160.0));
            let (first, second) = (scale.at(scale.ticks()[0]), scale.at(scale.ticks()[1]));
            assert!(second - first > 40.0, "{span}: {scale:?}");
            assert!(scale.at(-span / 3.0) >= 10.0 && scale.at(span) <= 160.1);
        }
    }

    #[test]
    fn nothing_and_a_single_value_have_a_scale_too() {
        assert!(labels(&[], 100.0).len() >= 2);
        assert!(labels(&[5.0], 100.0).len() >= 2);
    }
}
