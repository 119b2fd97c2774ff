// SPDX-License-Identifier: GPL-2.0-only
//! Bars to one scale, each with its interval, a published value and what a model says.

use super::{axis, fit, fit_strong, Anchor, Scale, Size, Svg};
use crate::number;
use paratick_core::stats::Summary;

pub struct Rates {
    /// Of the axis, with its unit.
    pub label: String,
    pub groups: Vec<Group>,
}

pub struct Group {
    pub title: String,
    pub rates: Vec<Rate>,
}

pub struct Rate {
    pub label: String,
    pub measured: Option<Summary>,
    pub printed: Option<f64>,
    pub modelled: Vec<f64>,
}

const ROW: f64 = 20.0;
const HEAD: f64 = 30.0;

impl Rates {
    fn has_model(&self) -> bool {
        let mut rates = self.groups.iter().flat_map(|group| &group.rates);
        rates.any(|rate| !rate.modelled.is_empty())
    }

    fn values(&self) -> impl Iterator<Item = f64> + '_ {
        let rates = self.groups.iter().flat_map(|group| &group.rates);
        rates.flat_map(|rate| {
            let measured = rate.measured.map(|summary| summary.high);
            measured
                .into_iter()
                .chain(rate.printed)
                .chain(rate.modelled.iter().copied())
        })
    }

    pub fn draw(&self, size: Size, id: &str, title: &str, description: &str) -> String {
        let mut svg = Svg::new(id, size, title, description);
        let left = size.pick(124.0, 104.0);
        let right = size.width() - 62.0;
        let scale = Scale::new(self.values().chain([0.0]), (left, right));
        let top = self.legend(&mut svg);
        let rows = self
            .groups
            .iter()
            .map(|group| HEAD + group.rates.len() as f64 * ROW);
        let bottom = top + rows.sum::<f64>() + 6.0;
        let end = axis(&mut svg, &scale, (top + 6.0, bottom), &self.label);
        let mut y = top;
        for group in &self.groups {
            let title = fit_strong(&group.title, size.width());
            svg.text((0.0, y + HEAD - 9.0), Anchor::Start, "strong", &title);
            y += HEAD;
            for rate in &group.rates {
                row(&mut svg, &scale, y + ROW / 2.0, rate, size);
                y += ROW;
            }
        }
        svg.finish(end)
    }

    fn legend(&self, svg: &mut Svg) -> f64 {
        svg.rect((0.0, 4.0), (18.0, 10.0), "bar");
        svg.text((26.0, 14.0), Anchor::Start, "muted", "measured");
        svg.line((112.0, 2.0), (112.0, 17.0), "printed");
        svg.text((122.0, 14.0), Anchor::Start, "muted", "paper");
        if self.has_model() {
            svg.circle((186.0, 10.0), 4.0, "not-shown");
            svg.text((196.0, 14.0), Anchor::Start, "muted", "model");
        }
        22.0
    }
}

fn row(svg: &mut Svg, scale: &Scale, y: f64, rate: &Rate, size: Size) {
    svg.text(
        (0.0, y + 4.0),
        Anchor::Start,
        "",
        &fit(&rate.label, scale.left()),
    );
    let text = match rate.measured {
        Some(summary) => {
            let from = scale.at(0.0);
            svg.rect(
                (from, y - 5.0),
                (scale.at(summary.median) - from, 10.0),
                "bar",
            );
            svg.line(
                (scale.at(summary.low), y),
                (scale.at(summary.high), y),
                "whisker",
            );
            number::decimal(summary.median)
        }
        None => "–".into(),
    };
    if let Some(printed) = rate.printed {
        let x = scale.at(printed);
        svg.line((x, y - 9.0), (x, y + 9.0), "printed");
    }
    for value in &rate.modelled {
        svg.circle((scale.at(*value), y), 4.0, "not-shown");
    }
    svg.text((size.width(), y + 4.0), Anchor::End, "", &text);
}
