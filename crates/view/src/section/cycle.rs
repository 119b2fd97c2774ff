// SPDX-License-Identifier: GPL-2.0-only
//! One idle cycle of each mode: which exit happens when.

use crate::{
    number,
    page::{Figure, Section, Table},
    svg::lanes::Lanes,
    timeline::{time_of, Who},
};
use paratick_core::{
    cause::Cause,
    mode::{Mode, TickMode},
    timeline::{Event, Line, Timeline, What},
    units::Nanos,
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
        let table = table(&title, timeline);
        section
            .blocks
            .push(Figure::block(&id, caption, table, |size| {
                lanes.draw(size, &id, &title, &description)
            }));
        if let Some(text) = lengths(timeline) {
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
    let exits = |tick| -> Option<Vec<Cause>> {
        let line = lines.iter().find(|line| line.mode == plain(tick))?;
        let events = line.chosen.events.iter();
        Some(
            events
                .filter_map(|event| match event.what {
                    What::Exit { cause, .. } => Some(cause),
                    _ => None,
                })
                .collect(),
        )
    };
    let today = exits(TickMode::Tickless);
    today.is_some() && today == exits(TickMode::Paratick)
}

fn plain(tick: TickMode) -> Mode {
    Mode { tick, poll: false }
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

/// How much longer the runs became because they were traced; none where that is not known.
fn lengths(timeline: &Timeline) -> Option<String> {
    let lines = timeline.lines.iter().filter(|line| line.untraced_ns > 0);
    let longer: Vec<String> = lines
        .map(|line| {
            let ratio = line.traced_ns as f64 / line.untraced_ns as f64;
            format!("{} {}", line.mode, number::change(ratio))
        })
        .collect();
    (!longer.is_empty()).then(|| format!(
        "Do not compare lengths between modes: tracing takes time at every event, so it lengthens a mode with more exits by more. The traced run took, against the same work without tracing: {}.",
        number::list(&longer)
    ))
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

fn table(caption: &str, timeline: &Timeline) -> Table {
    let mut table = Table::new(caption, ["Time, µs", "Event", "Exit reason", "Cause"]);
    table.words = true;
    for line in &timeline.lines {
        table.group(heading(line));
        for event in &line.chosen.events {
            table.row(number::decimal(event.t_ns as f64 / 1000.0), row(event));
        }
    }
    table
}

fn heading(line: &Line) -> String {
    let chosen = &line.chosen;
    let shares: Vec<String> = Who::ALL
        .into_iter()
        .map(|who| format!("{} {}", who.name(), Nanos(time_of(line, who))))
        .collect();
    format!(
        "{}, vCPU {}: {}; {}. {} of {} cycles are like this one; over all, {} exits in a cycle",
        line.mode,
        line.vcpu,
        number::plural(chosen.exits(), "exit"),
        shares.join(", "),
        chosen.alike,
        chosen.cycles,
        number::interval(Some(chosen.exits_per_cycle), number::count)
    )
}

fn row(event: &Event) -> Vec<String> {
    let other = |what: String| vec![what, "–".into(), "–".into()];
    match &event.what {
        What::Exit {
            reason, cause, msr, ..
        } => {
            let msr = msr.as_ref().map_or(String::new(), |msr| format!(" {msr}"));
            vec!["exit".into(), format!("{reason}{msr}"), cause.name().into()]
        }
        What::Entry => other("entry".into()),
        What::Sleep => other("gives its processor away".into()),
        What::Wake { by } => other(format!("wakes (interrupt: {by})")),
        What::Tick { what } => other(format!("virtual tick, {what}")),
        What::NoTick { what } => other(format!("no virtual tick, {what}")),
        What::End => other("halts again".into()),
    }
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
        let of = |tick, causes: &[&str]| {
            let exits = causes.iter().map(|cause| {
                format!(r#"{{"t_ns": 0, "kind": "exit", "reason": "hlt", "cause": "{cause}"}}"#)
            });
            let events: Vec<String> = exits.collect();
            Line {
                mode: plain(tick),
                ..line(&events.join(","))
            }
        };
        let paratick = of(TickMode::Paratick, &["halt", "ipi"]);
        let same = of(TickMode::Tickless, &["halt", "ipi"]);
        let more = of(TickMode::Tickless, &["halt", "arm", "ipi"]);
        assert!(today_is_alike(&[same.clone(), paratick.clone()]));
        assert!(!today_is_alike(&[more, paratick]));
        assert!(!today_is_alike(&[same]));
    }
}
