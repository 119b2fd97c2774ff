// SPDX-License-Identifier: GPL-2.0-only
//! Lines of rates over a number: a panel for each rate, a line for each mode.

use super::{
    canvas::{axis, text_width, Anchor, Size, Svg},
    scale::Scale,
};
use paratick_core::stats::Summary;

pub struct Lines {
    pub panels: Vec<Panel>,
    /// Of the horizontal axis.
    pub label: String,
}

pub struct Panel {
    /// With the unit.
    pub title: String,
    pub lines: Vec<Line>,
}

pub struct Line {
    pub name: String,
    pub points: Vec<(f64, Summary)>,
}

const HEIGHT: f64 = 150.0;
const HEAD: f64 = 34.0;
const TICK_LABELS: f64 = 58.0;
/// One after the other; a fifth line looks as the first one.
const CLASSES: [&str; 4] = ["", " second", " third", " fourth"];

/// Of more points than these, none has a mark: they would hide the line.
const MARKED: usize = 20;

fn class(number: usize) -> &'static str {
    CLASSES[number % CLASSES.len()]
}

impl Lines {
    pub fn draw(&self, size: Size, id: &str, title: &str, description: &str) -> String {
        let mut svg = Svg::new(id, size, title, description);
        let mut bottom = self.legend(&mut svg, size);
        let across = size.pick(2, 1);
        let width = size.width() / across as f64;
        let mut top = bottom;
        for (number, panel) in self.panels.iter().enumerate() {
            if number % across == 0 {
                top = bottom;
            }
            let left = (number % across) as f64 * width;
            let place = (left + TICK_LABELS, left + width - 20.0);
            bottom = self.panel(&mut svg, panel, top + HEAD, place);
        }
        svg.finish(bottom)
    }

    fn legend(&self, svg: &mut Svg, size: Size) -> f64 {
        let lines = self.panels.first().map_or(&[][..], |panel| &panel.lines);
        let (mut x, mut y) = (0.0, 14.0);
        for (number, line) in lines.iter().enumerate() {
            let width = 36.0 + text_width(&line.name) + 12.0;
            if x > 0.0 && x + width > size.width() {
                (x, y) = (0.0, y + 20.0);
            }
            let class = class(number);
            svg.path(&[(x, y - 4.0), (x + 28.0, y - 4.0)], &format!("curve{class}"));
            svg.text((x + 36.0, y), Anchor::Start, "", &line.name);
            x += width;
        }
        y + 4.0
    }

    fn panel(&self, svg: &mut Svg, panel: &Panel, top: f64, (left, right): (f64, f64)) -> f64 {
        let bottom = top + HEIGHT;
        svg.text((left - TICK_LABELS, top - 14.0), Anchor::Start, "strong", &panel.title);
        let points = || panel.lines.iter().flat_map(|line| &line.points);
        let across = Scale::new(points().map(|(x, _)| *x).chain([0.0]), (left, right));
        // Turned: more is up.
        let highs = || points().map(|(_, rate)| rate.high);
        let nothing = highs().all(|high| high == 0.0);
        let most = if nothing { 1.0 } else { 0.0 };
        let up = Scale::new(highs().chain([0.0, most]), (0.0, HEIGHT));
        let y = |value: f64| bottom - up.at(value);
        for tick in up.ticks() {
            svg.line((left, y(tick)), (right, y(tick)), if tick == 0.0 { "axis" } else { "grid" });
            svg.text((left - 6.0, y(tick) + 4.0), Anchor::End, "muted", &up.label(tick));
        }
        let end = axis(svg, &across, (top, bottom), &self.label);
        for (number, line) in panel.lines.iter().enumerate() {
            let class = class(number);
            let place = |x: f64, value: f64| (across.at(x), y(value));
            let marked = line.points.len() <= MARKED;
            for (x, rate) in line.points.iter().filter(|_| marked) {
                let (low, high) = (place(*x, rate.low), place(*x, rate.high));
                svg.line(low, high, &format!("whisker of-curve{class}"));
                svg.circle(place(*x, rate.median), 3.5, &format!("dot{class}"));
            }
            let path: Vec<_> = line.points.iter().map(|(x, rate)| place(*x, rate.median)).collect();
            svg.path(&path, &format!("curve{class}"));
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paratick_core::stats::Method;

    #[test]
    fn many_points_are_a_line_without_marks_and_nothing_is_at_the_bottom() {
        let rate = Summary { median: 0.0, low: 0.0, high: 0.0, samples: 1, method: Method::Range };
        let points = (0..50).map(|x| (f64::from(x), rate)).collect();
        let lines = vec![Line { name: "a".into(), points }];
        let lines = Lines { panels: vec![Panel { title: "t".into(), lines }], label: "l".into() };
        let svg = lines.draw(Size::Wide, "f", "t", "d");
        assert!(svg.contains("<polyline") && !svg.contains("<circle"), "{svg}");
        assert!(!svg.contains("−1"), "{svg}");
    }

    #[test]
    fn what_is_twice_as_much_is_as_high_as_two_and_every_line_looks_different() {
        let rate = |median| Summary {
            median,
            low: median,
            high: median,
            samples: 1,
            method: Method::Range,
        };
        let line = |name: &str, each: f64| Line {
            name: name.into(),
            points: vec![(1.0, rate(each)), (2.0, rate(2.0 * each))],
        };
        let lines = vec![line("a", 100.0), line("b", 50.0), line("c", 25.0), line("d", 10.0)];
        let lines = Lines { panels: vec![Panel { title: "t".into(), lines }], label: "l".into() };
        let svg = lines.draw(Size::Wide, "f", "t", "d");
        let heights = |class: &str| -> Vec<f64> {
            let marks = svg.split("<circle ").filter(|mark| mark.contains(class));
            let y = |mark: &str| mark.split("cy=\"").nth(1)?.split('"').next()?.parse().ok();
            marks.map(|mark| y(mark).unwrap()).collect()
        };
        let (first, second) = (heights("\"dot\""), heights("\"dot second\""));
        assert_eq!((first.len(), second.len()), (2, 2));
        assert_eq!((heights("\"dot third\"").len(), heights("\"dot fourth\"").len()), (2, 2));
        assert_eq!(first[0], second[1]);
        assert!(first[1] < first[0] && second[1] < second[0]);
    }
}
