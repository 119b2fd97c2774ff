// SPDX-License-Identifier: GPL-2.0-only
//! Stacked bars: a group for each workload, a bar for each mode, a part for each cause.

use super::{axis, fit, fit_strong, marks, Anchor, Scale, Size, Svg};
use crate::number;
use paratick_core::cause::Cause;

pub struct Bars {
    pub groups: Vec<Group>,
}

/// Bars that are drawn to one scale: in per cent of the longest.
pub struct Group {
    pub title: String,
    pub bars: Vec<Bar>,
}

pub struct Bar {
    pub label: String,
    /// Written at the bar's end; `None`: not measured.
    pub total: Option<f64>,
    pub parts: Vec<(Cause, f64)>,
}

const ROW: f64 = 19.0;
const THICK: f64 = 13.0;
const HEAD: f64 = 30.0;

impl Bar {
    fn length(&self) -> f64 {
        self.parts.iter().map(|(_, count)| count).sum()
    }
}

impl Bars {
    /// Those that occur, in the order of the causes.
    fn causes(&self) -> Vec<Cause> {
        let bars = || self.groups.iter().flat_map(|group| &group.bars);
        let occurs = |cause: &Cause| {
            let mut parts = bars().flat_map(|bar| &bar.parts);
            parts.any(|(part, count)| part == cause && *count > 0.0)
        };
        Cause::ALL.into_iter().filter(occurs).collect()
    }

    pub fn draw(&self, size: Size, id: &str, title: &str, description: &str) -> String {
        let mut svg = Svg::new(id, size, title, description);
        marks::define(&mut svg);
        let left = size.pick(124.0, 104.0);
        let right = size.width() - size.pick(76.0, 68.0);
        let scale = Scale::new([0.0, 100.0], (left, right));
        let top = marks::legend(&mut svg, size, &self.causes());
        let rows = self
            .groups
            .iter()
            .map(|group| HEAD + group.bars.len() as f64 * ROW);
        let bottom = top + rows.sum::<f64>() + 6.0;
        let end = axis(
            &mut svg,
            &scale,
            (top + 6.0, bottom),
            "VM exits, % of the longest bar of the group",
        );
        let mut y = top;
        for group in &self.groups {
            svg.text(
                (0.0, y + HEAD - 9.0),
                Anchor::Start,
                "strong",
                &fit_strong(&group.title, size.width()),
            );
            y += HEAD;
            let longest = group.bars.iter().map(Bar::length).fold(0.0, f64::max);
            for bar in &group.bars {
                row(&mut svg, &scale, y, bar, longest, size);
                y += ROW;
            }
        }
        svg.finish(end)
    }
}

fn row(svg: &mut Svg, scale: &Scale, y: f64, bar: &Bar, longest: f64, size: Size) {
    let base = y + ROW / 2.0 + 4.0;
    svg.text(
        (0.0, base),
        Anchor::Start,
        "",
        &fit(&bar.label, scale.left()),
    );
    let total = bar.total.map_or("–".into(), number::count);
    svg.text((size.width(), base), Anchor::End, "", &total);
    if longest <= 0.0 {
        return;
    }
    let mut before = 0.0;
    for (cause, count) in bar.parts.iter().filter(|(_, count)| *count > 0.0) {
        let from = scale.at(before / longest * 100.0);
        before += count;
        let width = scale.at(before / longest * 100.0) - from;
        // Parts are parted by a line of the page's colour, but none so thin that it would vanish.
        let parted = if width > 3.0 { width - 1.0 } else { width };
        marks::swatch(
            svg,
            (from, y + (ROW - THICK) / 2.0),
            (parted, THICK),
            *cause,
        );
    }
}
