// SPDX-License-Identifier: GPL-2.0-only
//! One idle cycle of each mode: which exit happens when.

use crate::{
    number,
    page::{Figure, Section, Table},
    svg::lanes::Lanes,
    timeline::{Event, Line, Timeline, What, Who},
};
use paratick_core::units::Nanos;

pub fn section(timelines: &[Timeline]) -> Option<Section> {
    let timelines: Vec<_> = timelines.iter().filter(|t| !t.lines.is_empty()).collect();
    if timelines.is_empty() {
        return None;
    }
    let mut section = Section::new("cycle", "One idle cycle, exit by exit");
    section.text("What a vCPU does when it has nothing to do: it prepares to sleep, halts, wakes up and goes on. Each exit takes the processor from the guest to the host and back. With paratick there is no tick to stop before sleeping or to restart after it.");
    for (number, timeline) in timelines.iter().enumerate() {
        let title = format!("One idle cycle of {} in each mode", timeline.workload);
        let id = format!("fig-cycle-{number}");
        let description = describe(timeline);
        let caption = format!("One idle cycle of `{}`, recorded in the lab, in each mode, on one time axis. Lanes: who has the vCPU's processor. Marks: exits with their cause, and virtual ticks; the number at the right is the exits of the cycle. Time is the lab's virtual time, in which an instruction is a nanosecond.", timeline.workload);
        let lanes = Lanes {
            lines: &timeline.lines,
        };
        let table = table(&title, timeline);
        section
            .blocks
            .push(Figure::new(&id, caption, table, |size| {
                lanes.draw(size, &id, &title, &description)
            }));
    }
    Some(section)
}

fn describe(timeline: &Timeline) -> String {
    let lines: Vec<String> = timeline
        .lines
        .iter()
        .map(|line| format!("{} has {}", line.mode, number::plural(line.exits(), "exit")))
        .collect();
    format!(
        "Three lanes for each mode: guest, host, asleep. {}. The table after the figure has every event.",
        number::list(&lines)
    )
}

fn table(caption: &str, timeline: &Timeline) -> Table {
    let mut table = Table::new(caption, ["Time, µs", "Event", "Exit reason", "Cause"]);
    for line in &timeline.lines {
        table.group(heading(line));
        for event in line.ordered() {
            table.row(number::decimal(event.t_ns as f64 / 1000.0), row(event));
        }
    }
    table
}

fn heading(line: &Line) -> String {
    let shares: Vec<String> = Who::ALL
        .into_iter()
        .map(|who| format!("{} {}", who.name(), Nanos(line.time_of(who))))
        .collect();
    format!(
        "{}, vCPU {}: {}; {}",
        line.mode,
        line.vcpu,
        number::plural(line.exits(), "exit"),
        shares.join(", ")
    )
}

fn row(event: &Event) -> Vec<String> {
    let (what, reason, cause) = match &event.what {
        What::Exit { reason, cause, msr } => {
            let reason = match msr {
                Some(msr) => format!("{reason} {msr}"),
                None => reason.clone(),
            };
            ("exit", reason, cause.name())
        }
        What::Entry => ("entry", "–".into(), "–"),
        What::Tick { what } => return vec![format!("virtual tick {what}"), "–".into(), "–".into()],
        What::Wake => ("wake-up", "–".into(), "–"),
        What::Other => ("another event", "–".into(), "–"),
    };
    vec![what.into(), reason, cause.into()]
}
