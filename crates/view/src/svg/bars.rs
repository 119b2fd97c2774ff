// SPDX-License-Identifier: GPL-2.0-only
//! Stacked bars: a group for each workload, a bar for each mode, a part for each cause.

use super::{
    canvas::{axis, fit, fit_strong, text_width, Anchor, Size, Svg},
    marks,
    scale::Scale,
};
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
/// Left of the bars: their labels, at least so wide, and at most that part of a column; right of
/// them: their totals.
const LABEL: f64 = 104.0;
const LABEL_PART: f64 = 0.45;
const NUMBER: f64 = 68.0;
/// So many groups stand in two columns, where there is room.
const IN_COLUMNS: usize = 4;
const GAP: f64 = 32.0;

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

    /// How wide labels are in a column of that width.
    fn label(&self, width: f64) -> f64 {
        let bars = self.groups.iter().flat_map(|group| &group.bars);
        let longest = bars.map(|bar| text_width(&bar.label)).fold(LABEL, f64::max);
        longest.min(width * LABEL_PART)
    }

    pub fn draw(&self, size: Size, id: &str, title: &str, description: &str) -> String {
        let mut svg = Svg::new(id, size, title, description);
        marks::define(&mut svg);
        let top = marks::legend(&mut svg, size, &self.causes());
        let columns = match size {
            Size::Wide if self.groups.len() >= IN_COLUMNS => 2,
            _ => 1,
        };
        let width = (size.width() - GAP * (columns - 1) as f64) / columns as f64;
        let each = self.groups.len().div_ceil(columns).max(1);
        let mut end = top;
        for (nth, groups) in self.groups.chunks(each).enumerate() {
            let left = nth as f64 * (width + GAP);
            let place = Place { left, right: left + width, label: self.label(width) };
            end = end.max(column(&mut svg, groups, top, place));
        }
        svg.finish(end)
    }
}

/// Where a column is, and how much of it labels take.
#[derive(Clone, Copy)]
struct Place {
    left: f64,
    right: f64,
    label: f64,
}

/// Returns where it ends.
fn column(svg: &mut Svg, groups: &[Group], top: f64, place: Place) -> f64 {
    let Place { left, right, label } = place;
    let scale = Scale::new([0.0, 100.0], (left + label, right - NUMBER));
    let rows = groups.iter().map(|group| HEAD + group.bars.len() as f64 * ROW);
    let bottom = top + rows.sum::<f64>() + 6.0;
    let end = axis(svg, &scale, (top + 6.0, bottom), "VM exits, % of the group's longest");
    let mut y = top;
    for group in groups {
        let title = fit_strong(&group.title, right - left);
        svg.text((left, y + HEAD - 9.0), Anchor::Start, "strong", &title);
        y += HEAD;
        let longest = group.bars.iter().map(Bar::length).fold(0.0, f64::max);
        for bar in &group.bars {
            row(svg, &scale, y, bar, longest, place);
            y += ROW;
        }
    }
    end
}

fn row(svg: &mut Svg, scale: &Scale, y: f64, bar: &Bar, longest: f64, place: Place) {
    let Place { left, right, label } = place;
    let base = y + ROW / 2.0 + 4.0;
    svg.text((left, base), Anchor::Start, "", &fit(&bar.label, label));
    let total = bar.total.map_or("–".into(), number::count);
    svg.text((right, base), Anchor::End, "", &total);
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
        marks::swatch(svg, (from, y + (ROW - THICK) / 2.0), (parted, THICK), *cause);
    }
}
