// SPDX-License-Identifier: GPL-2.0-only
//! One idle cycle of each mode: which exit happens when.

use crate::{
    change::{PARATICK, TICKLESS},
    number,
    page::{Figure, Section},
    svg::lanes::Lanes,
    tables::cycle,
};
use paratick_core::{
    cause::Cause,
    mode::Mode,
    timeline::{Line, Timeline, What},
};

pub fn section(timelines: &[Timeline]) -> Option<Section> {
    let timelines: Vec<_> = timelines.iter().filter(|t| !t.lines.is_empty()).collect();
    if timelines.is_empty() {
        return None;
    }
    let mut section = Section::new("cycle", "One idle cycle, exit by exit");
    section.text("What a vCPU does when it has nothing to do: it halts, is woken, goes on, and halts again. Each exit takes its processor from the guest to the host and back. Which of them happens because of the tick, and which because of the work, is what the modes differ in.");
    for (number, timeline) in timelines.iter().enumerate() {
        let title = format!("One idle cycle of {} in each mode", timeline.workload);
        let id = format!("fig-cycle-{number}");
        let description = describe(timeline);
        let caption = caption(timeline);
        let lanes = Lanes {
            lines: &timeline.lines,
        };
        let table = cycle::table(timeline);
        section
            .blocks
            .push(Figure::block(&id, caption, table, |size| {
                lanes.draw(size, &id, &title, &description)
            }));
        if let Some(text) = cycle::lengths(timeline) {
            section.text(text);
        }
        if today_is_alike(&timeline.lines) {
            section.text("`tickless` and `paratick` have the same exits in this cycle: today's kernel keeps its tick over an idle period as short as this one, and paratick arms no timer for it. They differ while a vCPU runs: besides the exit of the host's tick, its own tick takes one to expire and one to be armed again, a virtual tick takes none.");
        }
    }
    Some(section)
}

/// Whether paratick saves nothing here against today's kernel.
fn today_is_alike(lines: &[Line]) -> bool {
    let exits = |mode: Mode| -> Option<Vec<Cause>> {
        let line = lines.iter().find(|line| line.mode == mode)?;
        let events = line.chosen.events.iter();
        Some(events.filter_map(|event| event.what.cause()).collect())
    };
    let today = exits(TICKLESS);
    today.is_some() && today == exits(PARATICK)
}

fn caption(timeline: &Timeline) -> String {
    let cost = match timeline.environment.configuration.exit_cost_ns {
        Some(cost) if cost > 0 => format!(" and a world switch {cost} ns"),
        _ => String::new(),
    };
    let ticks = match has_ticks(timeline) {
        true => ", and virtual ticks",
        false => "",
    };
    format!(
        "An idle cycle of `{}`, from one halt to the next, traced in the lab in each mode: of the sequence of events that was seen most often, the cycle of median length. Lanes: who has the vCPU's processor. Marks: exits with their cause{ticks}; at the right, the exits of the cycle. Time is the lab's virtual time, in which an instruction takes a nanosecond{cost}; tracing itself lengthens the host's part.",
        timeline.workload
    )
}

/// Whether a virtual tick is drawn.
fn has_ticks(timeline: &Timeline) -> bool {
    let mut events = timeline.lines.iter().flat_map(|line| &line.chosen.events);
    events.any(|event| matches!(event.what, What::Tick { .. }))
}

fn describe(timeline: &Timeline) -> String {
    let lines: Vec<String> = timeline
        .lines
        .iter()
        .map(|line| {
            format!(
                "{} has {}",
                line.mode,
                number::plural(line.chosen.exits(), "exit")
            )
        })
        .collect();
    format!(
        "Three lanes for each mode: guest, host, asleep. {}. The table after the figure has every event.",
        number::list(&lines)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::tests::line;
    use paratick_core::results::Environment;

    #[test]
    fn the_caption_names_virtual_ticks_where_one_is_drawn() {
        let timeline = |kind: &str| Timeline {
            schema: String::new(),
            tool_version: String::new(),
            started: String::new(),
            environment: Environment::default(),
            workload: "sleep".into(),
            work: 1,
            unit: "sleeps".into(),
            vcpus: 1,
            lines: vec![line(&format!(r#"{{"t_ns": 0, "kind": {kind}}}"#))],
            problems: Vec::new(),
        };
        let tick = timeline(r#""tick", "what": "delivered""#);
        assert!(caption(&tick).contains("virtual ticks"));
        assert!(!caption(&timeline(r#""entry""#)).contains("virtual ticks"));
    }

    #[test]
    fn today_s_kernel_is_alike_where_it_has_the_same_exits() {
        let of = |mode, causes: &[&str]| {
            let exits = causes.iter().map(|cause| {
                format!(r#"{{"t_ns": 0, "kind": "exit", "reason": "hlt", "cause": "{cause}"}}"#)
            });
            let events: Vec<String> = exits.collect();
            Line {
                mode,
                ..line(&events.join(","))
            }
        };
        let paratick = of(PARATICK, &["halt", "ipi"]);
        let same = of(TICKLESS, &["halt", "ipi"]);
        let more = of(TICKLESS, &["halt", "arm", "ipi"]);
        assert!(today_is_alike(&[same.clone(), paratick.clone()]));
        assert!(!today_is_alike(&[more, paratick]));
        assert!(!today_is_alike(&[same]));
    }
}
