// SPDX-License-Identifier: GPL-2.0-only
//! Time lines: for each mode who has the processor when, and the exits in between.

use super::{
    canvas::{axis, text_width, Anchor, Size, Svg},
    marks,
    scale::Scale,
};
use crate::{
    number::plural,
    timeline::{phases, Line, Who},
};
use paratick_core::{cause::Cause, cycle::What};

pub struct Lanes<'a> {
    pub lines: &'a [Line],
}

const LANE: f64 = 15.0;
/// A line of exits' labels.
const TIER: f64 = 15.0;
const HEAD: f64 = 30.0;
const GAP: f64 = 16.0;

struct Mark<'a> {
    x: f64,
    cause: Option<Cause>,
    text: &'a str,
    tier: usize,
}

impl Lanes<'_> {
    pub fn draw(&self, size: Size, id: &str, title: &str, description: &str) -> String {
        let mut svg = Svg::new(id, size, title, description);
        marks::define(&mut svg);
        let ends = self.lines.iter().map(|line| line.cycle.chosen.length_ns());
        let end_us = ends.max().unwrap_or(0) as f64 / 1000.0;
        let left = 58.0;
        // The last exits' labels stand right of the plot.
        let right = size.width() - 88.0;
        let scale = Scale::new([0.0, end_us], (left, right)).until(end_us);
        let mut y = 0.0;
        let mut drawings = Vec::new();
        for line in self.lines {
            let marks = place(line, &scale);
            let tiers = marks.iter().map(|mark| mark.tier + 1).max().unwrap_or(0);
            let top = y + HEAD + tiers as f64 * TIER + 4.0;
            drawings.push((line, marks, y, top));
            y = top + LANE * Who::ALL.len() as f64 + GAP;
        }
        let bottom = y - GAP + 8.0;
        let end =
            axis(&mut svg, &scale, (HEAD, bottom), "time from the beginning of the idle cycle, µs");
        for (line, marks, head, top) in drawings {
            heading(&mut svg, line, head, size);
            lanes(&mut svg, line, &scale, top);
            exits(&mut svg, &marks, top);
        }
        svg.finish(end)
    }
}

fn heading(svg: &mut Svg, line: &Line, y: f64, size: Size) {
    let name = match line.cycle.vcpu {
        0 => line.subject.to_string(),
        vcpu => format!("{}, vCPU {vcpu}", line.subject),
    };
    svg.text((0.0, y + 16.0), Anchor::Start, "strong", &name);
    let exits = plural(line.cycle.chosen.exits(), "exit");
    svg.text((size.width(), y + 16.0), Anchor::End, "strong", &exits);
}

fn lanes(svg: &mut Svg, line: &Line, scale: &Scale, top: f64) {
    let lane = |who: Who| Who::ALL.iter().position(|other| *other == who).unwrap_or(0) as f64;
    for who in Who::ALL {
        let y = top + lane(who) * LANE;
        svg.text((0.0, y + 12.0), Anchor::Start, "muted", who.name());
    }
    for phase in phases(line) {
        let [from, to] = [phase.from_ns, phase.to_ns].map(|ns| scale.at(ns as f64 / 1000.0));
        let y = top + lane(phase.who) * LANE;
        // However short, it can be seen.
        let width = (to - from).max(0.8);
        svg.rect((from, y + 1.0), (width, LANE - 2.0), phase.who.name());
    }
}

fn exits(svg: &mut Svg, marks: &[Mark], top: f64) {
    for mark in marks {
        let y = top - 4.0 - mark.tier as f64 * TIER;
        svg.line((mark.x, y - 9.0), (mark.x, top + LANE), "mark");
        let x = mark.x + 4.0;
        match mark.cause {
            Some(cause) => marks::swatch(svg, (x, y - 9.0), (9.0, 9.0), cause),
            None => svg.circle((x + 4.5, y - 4.5), 4.0, "not-shown"),
        }
        svg.text((x + 13.0, y), Anchor::Start, "", mark.text);
    }
}

/// Labels stand right of their exit's line, in the lowest tier in which they cross neither a label
/// nor the line of a later exit.  So they are placed from the last to the first.
fn place<'a>(line: &'a Line, scale: &Scale) -> Vec<Mark<'a>> {
    let mut marks: Vec<Mark> = Vec::new();
    for event in line.cycle.chosen.events.iter().rev() {
        let (cause, text) = match &event.what {
            What::Exit { until: Some(_), cause, .. } => (Some(*cause), "halt until"),
            What::Exit { cause, .. } => (Some(*cause), cause.name()),
            What::Tick { .. } => (None, "tick"),
            _ => continue,
        };
        let x = scale.at(event.t_ns as f64 / 1000.0);
        let end = x + 17.0 + text_width(text) + 6.0;
        let crossed = marks.iter().filter(|later| later.x < end);
        let tier = crossed.map(|later| later.tier + 1).max().unwrap_or(0);
        marks.push(Mark { x, cause, text, tier });
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_close_together_have_labels_above_each_other() {
        let line = crate::timeline::tests::line(
            r#"{"t_ns": 0, "kind": "exit", "reason": "hlt", "cause": "halt"},
               {"t_ns": 400, "kind": "entry"},
               {"t_ns": 500, "kind": "exit", "reason": "msr_write", "cause": "arm"},
               {"t_ns": 90000, "kind": "exit", "reason": "msr_write", "cause": "stop"}"#,
        );
        let scale = Scale::new([0.0, 100.0], (0.0, 300.0));
        let tiers: Vec<_> = place(&line, &scale).iter().map(|mark| mark.tier).collect();
        assert_eq!(tiers, [0, 0, 1]);
    }
}
