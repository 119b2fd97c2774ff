// SPDX-License-Identifier: GPL-2.0-only
//! Idle guests side by side: the sentence of fifty guests in a paper of 2007.

use crate::{
    number,
    page::{Block, Figure, Section},
    set::Selection,
    svg::lines::{Line, Lines, Panel},
    tables::crowd::{self, at},
};
use paratick_core::{
    mode::Mode,
    results::{Cell, Cost, Crowd, Results},
    stats,
};

const ABOUT: &str =
    "“Getting maximum mileage out of tickless” (Ottawa Linux Symposium, 2007) says \
    in its first section that the ticks of 50 guests at 1000 Hz add up to 50\u{202f}000 in a \
    second, which limits how many guests there can be; it measures none. Here so many guests of \
    one vCPU do nothing, side by side on one pCPU. They are counted in one window, which begins \
    and ends for all of them at once.";
const DRAWN: [Cost; 4] = [Cost::Interrupts, Cost::Exits, Cost::WakeUps, Cost::HostInstructions];

pub fn section(selection: &Selection) -> Option<Section> {
    let all: Vec<&Results> = selection.of("idle").map(|set| set.main()).collect();
    if all.is_empty() {
        return None;
    }
    let mut section = Section::new("idle", "Idle guests side by side (a sentence of 2007)");
    section.text(ABOUT);
    for crowd in Crowd::all(all) {
        let hz = crowd.hz.map_or("unknown".to_string(), |hz| hz.0.to_string());
        section.heading(format!("idle-{hz}"), format!("Idle guests{}", at(&crowd)));
        section.blocks.push(figure(&crowd, &hz));
        let more = [
            crowd::slopes(&crowd),
            crowd::together(&crowd),
            crowd::late(&crowd),
            crowd::causes(&crowd),
        ];
        let more = more.into_iter().filter(|table| !table.is_empty());
        more.for_each(|table| section.table(table));
    }
    Some(section)
}

fn figure(crowd: &Crowd, hz: &str) -> Block {
    let modes = crowd.modes();
    let panel = |cost: Cost| Panel {
        title: format!("{}, in a second", cost.name()),
        lines: modes.iter().map(|mode| line(crowd, *mode, cost)).collect(),
    };
    let panels = DRAWN.into_iter().map(panel);
    // What nobody counted is not drawn.
    let drawn = |panel: &Panel| panel.lines.iter().any(|line| !line.points.is_empty());
    let panels: Vec<Panel> = panels.filter(drawn).collect();
    let description = format!(
        "{} over the number of guests, with a line for each of {}; the table after the figure has \
         every number.",
        number::plural(panels.len(), "panel"),
        number::plural(modes.len(), "mode")
    );
    let lines = Lines { panels, label: "guests".into() };
    let (id, title) = (format!("fig-idle-{hz}"), "What idle guests cost their host");
    let caption = format!(
        "What idle guests of one vCPU on one pCPU cost their host in a second{}, by their number, \
         with intervals.",
        at(crowd)
    );
    let draw = |size| lines.draw(size, &id, title, &description);
    Figure::block(&id, caption, crowd::rates(crowd), draw)
}

fn line(crowd: &Crowd, mode: Mode, cost: Cost) -> Line {
    let point = |(guests, cell): (u32, &Cell)| {
        Some((f64::from(guests), stats::summarize(&cost.observations(cell))?))
    };
    let points = crowd.cells(mode).into_iter().filter_map(point).collect();
    Line { name: mode.to_string(), points }
}
