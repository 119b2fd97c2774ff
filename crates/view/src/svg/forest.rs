// SPDX-License-Identifier: GPL-2.0-only
//! Changes against a baseline: a row for each benchmark, a panel for each metric, a point with its
//! interval in each.

use super::{
    canvas::{axis, fit, text_width, Anchor, Size, Svg},
    scale::Scale,
};
use crate::{change::Change, number};
use paratick_core::stats::Verdict;

pub struct Forest {
    pub panels: Vec<Panel>,
    pub rows: Vec<Row>,
}

pub struct Panel {
    pub title: String,
    /// Of the axis, with its unit.
    pub label: String,
    /// A published value, in per cent, drawn in as a line.
    pub paper: Option<f64>,
}

pub struct Row {
    pub label: String,
    /// An average: set apart from the rows above it.
    pub average: bool,
    /// One for each panel.
    pub changes: Vec<Option<Change>>,
}

const ROW: f64 = 22.0;
/// Above a panel's rows: its title, and the name of the paper's line.
const HEAD: f64 = 40.0;
const LEGEND: f64 = 26.0;
const GAP: f64 = 24.0;
/// Right of a panel's plot: each row's number.
const NUMBER: f64 = 52.0;

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

impl Forest {
    pub fn draw(&self, size: Size, id: &str, title: &str, description: &str) -> String {
        let mut svg = Svg::new(id, size, title, description);
        let labels = size.pick(150.0, 108.0);
        let mut bottom = legend(&mut svg, size);
        match size {
            Size::Wide => {
                let room = size.width() - labels;
                let width = room / self.panels.len() as f64;
                let top = bottom + HEAD;
                self.labels(&mut svg, top, labels);
                for (number, panel) in self.panels.iter().enumerate() {
                    let left = labels + number as f64 * width + GAP / 2.0;
                    let right = left + width - GAP / 2.0 - NUMBER;
                    bottom = self.panel(&mut svg, number, panel, top, (left, right));
                }
            }
            Size::Narrow => {
                for (number, panel) in self.panels.iter().enumerate() {
                    let top = bottom + HEAD + 6.0;
                    self.labels(&mut svg, top, labels);
                    let right = size.width() - NUMBER;
                    bottom = self.panel(&mut svg, number, panel, top, (labels + 8.0, right));
                }
            }
        }
        svg.finish(bottom)
    }

    fn labels(&self, svg: &mut Svg, top: f64, width: f64) {
        for (number, row) in self.rows.iter().enumerate() {
            let class = if row.average { "strong" } else { "" };
            let y = top + self.row_middle(number) + 4.0;
            svg.text((0.0, y), Anchor::Start, class, &fit(&row.label, width));
        }
    }

    /// Averages stand a little apart.
    fn row_middle(&self, number: usize) -> f64 {
        let apart = if self.rows[number].average { 8.0 } else { 0.0 };
        (number as f64 + 0.5) * ROW + apart
    }

    fn panel(
        &self,
        svg: &mut Svg,
        number: usize,
        panel: &Panel,
        top: f64,
        (left, right): (f64, f64),
    ) -> f64 {
        let last = self.rows.len().saturating_sub(1);
        let bottom = top + self.row_middle(last) + ROW / 2.0 + 2.0;
        let changes = || self.rows.iter().filter_map(|row| row.changes[number]);
        let points = changes().map(|change| percent(change.ratio));
        let limits = limits(points.chain(panel.paper));
        let ends = changes().flat_map(|change| [change.low, change.high].map(percent));
        let ends = ends.map(|end| end.clamp(limits.0, limits.1));
        let scale = Scale::new(ends.chain(panel.paper).chain([0.0]), (left, right)).signed();
        svg.text((left, top - HEAD + 14.0), Anchor::Start, "strong", &panel.title);
        let end = axis(svg, &scale, (top, bottom), &panel.label);
        svg.line((scale.at(0.0), top), (scale.at(0.0), bottom), "axis");
        if let Some(paper) = panel.paper {
            paper_line(svg, &scale, (top, bottom), paper);
        }
        for (nth, row) in self.rows.iter().enumerate() {
            let y = top + self.row_middle(nth);
            let class = if row.average { "strong" } else { "" };
            let text = match row.changes[number] {
                Some(change) => {
                    point(svg, &scale, y, change);
                    number::change(change.ratio)
                }
                None => "–".into(),
            };
            svg.text((right + NUMBER, y + 4.0), Anchor::End, class, &text);
        }
        end
    }
}

fn paper_line(svg: &mut Svg, scale: &Scale, (top, bottom): (f64, f64), paper: f64) {
    let x = scale.at(paper);
    svg.line((x, top - 5.0), (x, bottom), "reference");
    let text = format!("paper {}", number::printed(paper));
    let half = text_width(&text) / 2.0;
    let middle = x.clamp(scale.left + half - 8.0, scale.right + NUMBER - half);
    svg.text((middle, top - 10.0), Anchor::Middle, "paper-text", &text);
}

/// How far intervals are drawn: not so far that points could no longer be told apart.
fn limits(points: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) =
        points.fold((0.0, 0.0), |(low, high): (f64, f64), point| (low.min(point), high.max(point)));
    let more = (high - low).max(1.0);
    (low - more, high + more)
}

/// An interval that goes on beyond the panel ends in an arrow.
fn point(svg: &mut Svg, scale: &Scale, y: f64, change: Change) {
    let [low, middle, high] = [change.low, change.ratio, change.high].map(|r| scale.at(percent(r)));
    let (from, to) = (low.max(scale.left), high.min(scale.right));
    svg.line((from, y), (to, y), "whisker");
    for (cut, x, back) in [(low < from, from, 5.0), (high > to, to, -5.0)] {
        if cut {
            svg.path(&[(x + back, y - 4.0), (x, y), (x + back, y + 4.0)], "arrow");
        }
    }
    marker(svg, (middle, y), change.verdict);
}

fn marker(svg: &mut Svg, (x, y): (f64, f64), verdict: Verdict) {
    match verdict {
        Verdict::Less | Verdict::More => svg.circle((x, y), 4.0, "shown"),
        Verdict::NoDifferenceShown => svg.circle((x, y), 4.0, "not-shown"),
        Verdict::TooFewSamples => svg.rect((x - 3.5, y - 3.5), (7.0, 7.0), "not-shown"),
    }
}

fn legend(svg: &mut Svg, size: Size) -> f64 {
    let entries = [
        (Verdict::Less, "difference shown"),
        (Verdict::NoDifferenceShown, "no difference shown"),
        (Verdict::TooFewSamples, "too few boots"),
    ];
    let (mut x, mut y) = (0.0, 14.0);
    for (verdict, text) in entries {
        let width = 16.0 + text_width(text) + 14.0;
        if x > 0.0 && x + width > size.width() {
            (x, y) = (0.0, y + 20.0);
        }
        marker(svg, (x + 5.0, y - 4.0), verdict);
        svg.text((x + 16.0, y), Anchor::Start, "muted", text);
        x += width;
    }
    y + LEGEND - 14.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use paratick_core::stats::Method;

    #[test]
    fn a_wild_interval_does_not_hide_the_points_of_others() {
        let change = |high| Change {
            ratio: 0.9,
            low: 0.8,
            high,
            method: Method::Bootstrap,
            verdict: Verdict::NoDifferenceShown,
        };
        let forest = |high| Forest {
            panels: vec![Panel { title: "t".into(), label: "l".into(), paper: None }],
            rows: vec![Row {
                label: "r".into(),
                average: false,
                changes: vec![Some(change(high))],
            }],
        };
        let draw = |high| forest(high).draw(Size::Narrow, "f", "t", "d");
        let arrow = "class=\"arrow\"";
        assert!(!draw(1.05).contains(arrow));
        assert!(draw(40.0).contains(arrow) && !draw(40.0).contains("+1\u{202f}000"));
    }
}
