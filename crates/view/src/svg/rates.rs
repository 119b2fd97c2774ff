// SPDX-License-Identifier: GPL-2.0-only
//! Bars, to a scale for each workload, each with its interval, a published value and what a model
//! says.

use super::{
    canvas::{axis, fit, fit_strong, Anchor, Size, Svg},
    scale::Scale,
};
use crate::number;
use paratick_core::stats::Summary;

pub struct Rates {
    /// Of the axis, with its unit.
    pub label: String,
    pub groups: Vec<Group>,
}

/// Bars that are drawn to one scale: in per cent of its largest value.
pub struct Group {
    pub title: String,
    pub rates: Vec<Rate>,
}

pub struct Rate {
    pub label: String,
    pub measured: Option<Summary>,
    pub printed: Option<f64>,
    pub modelled: Option<f64>,
}

const ROW: f64 = 20.0;
const HEAD: f64 = 30.0;

impl Group {
    fn largest(&self) -> f64 {
        let values = self.rates.iter().flat_map(|rate| {
            let measured = rate.measured.map(|summary| summary.high);
            let modelled = rate.modelled;
            measured.into_iter().chain(rate.printed).chain(modelled)
        });
        values.fold(0.0, f64::max)
    }
}

impl Rates {
    fn has(&self, what: impl Fn(&Rate) -> Option<f64>) -> bool {
        let mut rates = self.groups.iter().flat_map(|group| &group.rates);
        rates.any(|rate| what(rate).is_some())
    }

    pub fn draw(&self, size: Size, id: &str, title: &str, description: &str) -> String {
        let mut svg = Svg::new(id, size, title, description);
        let left = size.pick(124.0, 104.0);
        let right = size.width() - 62.0;
        let scale = Scale::new([0.0, 100.0], (left, right));
        let top = self.legend(&mut svg);
        let rows = self.groups.iter().map(|group| HEAD + group.rates.len() as f64 * ROW);
        let bottom = top + rows.sum::<f64>() + 6.0;
        let end = axis(&mut svg, &scale, (top + 6.0, bottom), &self.label);
        let mut y = top;
        for group in &self.groups {
            let title = fit_strong(&group.title, size.width());
            svg.text((0.0, y + HEAD - 9.0), Anchor::Start, "strong", &title);
            y += HEAD;
            let largest = group.largest();
            for rate in &group.rates {
                row(&mut svg, (&scale, largest), y + ROW / 2.0, rate, size);
                y += ROW;
            }
        }
        svg.finish(end)
    }

    fn legend(&self, svg: &mut Svg) -> f64 {
        svg.rect((0.0, 4.0), (18.0, 10.0), "bar");
        svg.text((26.0, 14.0), Anchor::Start, "muted", "measured");
        if self.has(|rate| rate.printed) {
            svg.line((112.0, 2.0), (112.0, 17.0), "printed");
            svg.text((122.0, 14.0), Anchor::Start, "muted", "paper");
        }
        if self.has(|rate| rate.modelled) {
            svg.circle((186.0, 10.0), 4.0, "not-shown");
            svg.text((196.0, 14.0), Anchor::Start, "muted", "model");
        }
        22.0
    }
}

fn row(svg: &mut Svg, (scale, largest): (&Scale, f64), y: f64, rate: &Rate, size: Size) {
    let at = |value: f64| match largest > 0.0 {
        true => scale.at(100.0 * value / largest),
        false => scale.left,
    };
    svg.text((0.0, y + 4.0), Anchor::Start, "", &fit(&rate.label, scale.left));
    let text = match rate.measured {
        Some(summary) => {
            let from = at(0.0);
            svg.rect((from, y - 5.0), (at(summary.median) - from, 10.0), "bar");
            svg.line((at(summary.low), y), (at(summary.high), y), "whisker");
            number::decimal(summary.median)
        }
        None => "–".into(),
    };
    if let Some(printed) = rate.printed {
        let x = at(printed);
        svg.line((x, y - 9.0), (x, y + 9.0), "printed");
    }
    if let Some(value) = rate.modelled {
        svg.circle((at(value), y), 4.0, "not-shown");
    }
    svg.text((size.width(), y + 4.0), Anchor::End, "", &text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use paratick_core::stats::Method;

    #[test]
    fn small_numbers_are_not_drawn_to_the_scale_of_another_workload() {
        let rate = |median| Rate {
            label: "m".into(),
            measured: Some(Summary {
                median,
                low: median,
                high: median,
                samples: 2,
                method: Method::Range,
            }),
            printed: None,
            modelled: None,
        };
        let group = |rates| Group { title: "W".into(), rates };
        let rates = Rates {
            label: "l".into(),
            groups: vec![group(vec![rate(2000.0), rate(1000.0)]), group(vec![rate(5.0)])],
        };
        let svg = rates.draw(Size::Wide, "f", "t", "d");
        let bars = svg.split("<rect ").filter(|part| part.contains("\"bar\""));
        let width = |bar: &str| -> f64 {
            let text = bar.split("width=\"").nth(1).unwrap();
            text.split('"').next().unwrap().parse().unwrap()
        };
        // The first is the legend's.
        let widths: Vec<f64> = bars.skip(1).map(width).collect();
        assert_eq!(widths[0], 2.0 * widths[1]);
        assert_eq!(widths[0], widths[2]);
    }
}
