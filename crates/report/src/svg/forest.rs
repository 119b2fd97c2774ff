// SPDX-License-Identifier: GPL-2.0-only
//! Changes against a baseline: a row for each benchmark, a panel for each metric, a point with its
//! interval in each.

use super::{axis, fit, text_width, Anchor, Scale, Size, Svg};
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
    /// The average: set apart from the rows above it.
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

    /// The average stands a little apart.
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
        let ends = changes().flat_map(|change| [change.low, change.high].map(percent));
        // A margin, so that no point lies on the edge.
        let scale = Scale::new(ends.chain(panel.paper).chain([0.0]), (left, right)).signed();
        svg.text(
            (left, top - HEAD + 14.0),
            Anchor::Start,
            "strong",
            &panel.title,
        );
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
    let middle = x.clamp(scale.left() + half - 8.0, scale.right() + NUMBER - half);
    svg.text((middle, top - 10.0), Anchor::Middle, "paper-text", &text);
}

fn point(svg: &mut Svg, scale: &Scale, y: f64, change: Change) {
    let [low, middle, high] = [change.low, change.ratio, change.high].map(|r| scale.at(percent(r)));
    svg.line((low, y), (high, y), "whisker");
    marker(svg, (middle, y), change.verdict);
}

fn marker(svg: &mut Svg, (x, y): (f64, f64), verdict: Verdict) {
    match verdict {
        Verdict::Less | Verdict::More => svg.circle((x, y), 4.0, "shown"),
        Verdict::NoDifferenceShown => svg.circle((x, y), 4.0, "not-shown"),
        Verdict::TooFewSamples => svg.rect((x - 3.5, y - 3.5), (7.0, 7.0), "not-shown"),
    }
}

/// What the markers mean.  Returns where it ends.
fn legend(svg: &mut Svg, size: Size) -> f64 {
    let entries = [
        (Verdict::Less, "difference shown"),
        (Verdict::NoDifferenceShown, "no difference shown"),
        (Verdict::TooFewSamples, "too few samples"),
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
