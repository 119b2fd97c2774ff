// SPDX-License-Identifier: GPL-2.0-only
//! Curves of changes over the cost of a world switch: a panel for each metric.

use super::{
    canvas::{axis, text_width, Anchor, Size, Svg},
    scale::Scale,
};
use crate::change::Change;

pub struct Curves {
    pub panels: Vec<Panel>,
    /// Of the horizontal axis, with its unit.
    pub label: String,
    /// Drawn as a line: where the figures of the rest of the report stand.
    pub main_cost: f64,
    pub costs: (f64, f64),
}

pub struct Panel {
    /// With the unit.
    pub title: String,
    pub curves: Vec<Curve>,
}

pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, Change)>,
}

const HEIGHT: f64 = 170.0;
const HEAD: f64 = 34.0;
const TICK_LABELS: f64 = 46.0;
/// Between the curves, so that marks at one cost do not hide each other.
const APART: f64 = 4.0;
const CLASSES: [&str; 2] = ["", " second"];

impl Curves {
    pub fn draw(&self, size: Size, id: &str, title: &str, description: &str) -> String {
        let mut svg = Svg::new(id, size, title, description);
        let mut bottom = self.legend(&mut svg, size);
        let top = bottom;
        let width = size.pick(size.width() / self.panels.len().max(1) as f64, size.width());
        for (number, panel) in self.panels.iter().enumerate() {
            let (left, from) = size.pick((number as f64 * width, top), (0.0, bottom));
            let right = left + width - size.pick(26.0, 20.0);
            bottom = self.panel(&mut svg, panel, from + HEAD, (left + TICK_LABELS, right));
        }
        svg.finish(bottom)
    }

    fn legend(&self, svg: &mut Svg, size: Size) -> f64 {
        let names = self.panels.first().map_or(&[][..], |panel| &panel.curves);
        let (mut x, mut y) = (0.0, 14.0);
        for (number, curve) in names.iter().enumerate() {
            let width = 36.0 + text_width(&curve.name) + 12.0;
            if x > 0.0 && x + width > size.width() {
                (x, y) = (0.0, y + 20.0);
            }
            let class = CLASSES[number % CLASSES.len()];
            svg.path(&[(x, y - 4.0), (x + 28.0, y - 4.0)], &format!("curve{class}"));
            svg.text((x + 36.0, y), Anchor::Start, "", &curve.name);
            x += width;
        }
        y + 4.0
    }

    fn panel(&self, svg: &mut Svg, panel: &Panel, top: f64, (left, right): (f64, f64)) -> f64 {
        let bottom = top + HEIGHT;
        svg.text((left - TICK_LABELS, top - 14.0), Anchor::Start, "strong", &panel.title);
        let costs = Scale::new([self.costs.0, self.costs.1], (left, right));
        let points = || panel.curves.iter().flat_map(|curve| &curve.points);
        let ends = points().flat_map(|(_, change)| [change.low, change.high]);
        let ends = ends.map(|ratio| (ratio - 1.0) * 100.0).chain([0.0]);
        // Turned: more is up.
        let changes = Scale::new(ends, (0.0, HEIGHT)).signed();
        let y = |percent: f64| bottom - changes.at(percent);
        for tick in changes.ticks() {
            let class = if tick == 0.0 { "axis" } else { "grid" };
            svg.line((left, y(tick)), (right, y(tick)), class);
            svg.text((left - 6.0, y(tick) + 4.0), Anchor::End, "muted", &changes.label(tick));
        }
        let end = axis(svg, &costs, (top, bottom), &self.label);
        let main = costs.at(self.main_cost);
        svg.line((main, top), (main, bottom), "reference");
        for (number, curve) in panel.curves.iter().enumerate() {
            let class = CLASSES[number % CLASSES.len()];
            let shift = number as f64 * APART;
            let place = |cost: f64, ratio: f64| (costs.at(cost) + shift, y((ratio - 1.0) * 100.0));
            for (cost, change) in &curve.points {
                svg.line(
                    place(*cost, change.low),
                    place(*cost, change.high),
                    &format!("whisker of-curve{class}"),
                );
                let (x, y) = place(*cost, change.ratio);
                svg.circle((x, y), 3.5, &format!("dot{class}"));
            }
            let line: Vec<_> =
                curve.points.iter().map(|(c, change)| place(*c, change.ratio)).collect();
            svg.path(&line, &format!("curve{class}"));
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paratick_core::stats::{Method, Verdict};

    #[test]
    fn marks_of_two_curves_at_one_cost_do_not_hide_each_other() {
        let change = Change {
            ratio: 1.1,
            low: 1.05,
            high: 1.2,
            method: Method::Range,
            verdict: Verdict::TooFewSamples,
        };
        let curve =
            |name: &str| Curve { name: name.into(), points: vec![(0.0, change), (1000.0, change)] };
        let curves = Curves {
            panels: vec![Panel { title: "t".into(), curves: vec![curve("a"), curve("b")] }],
            label: "l".into(),
            main_cost: 1000.0,
            costs: (0.0, 2000.0),
        };
        let svg = curves.draw(Size::Wide, "f", "t", "d");
        for class in ["dot", "dot second", "whisker of-curve second"] {
            assert_eq!(svg.matches(&format!("class=\"{class}\"")).count(), 2);
        }
        let place = |class: &str| {
            let mark = svg.split("<circle cx=\"").find(|mark| mark.contains(class));
            let x = mark.unwrap().split('"').next().unwrap();
            x.parse::<f64>().unwrap()
        };
        assert_eq!(place("\"dot second\"") - place("\"dot\""), APART);
    }
}
