// SPDX-License-Identifier: GPL-2.0-only
//! One idle cycle of each mode: which exit happens when.

use crate::{
    change::{OURS, TICKLESS},
    number,
    page::{Figure, Section},
    svg::{canvas::Size, lanes::Lanes},
    tables::cycle,
    timeline::{lines, Line},
};
use paratick_core::{cause::Cause, cycle::What, mode::Mode, results::Results};

pub fn section(timelines: &[Results]) -> Option<Section> {
    let all = timelines.iter().map(|results| (results, lines(results)));
    let timelines: Vec<_> = all.filter(|(_, lines)| !lines.is_empty()).collect();
    if timelines.is_empty() {
        return None;
    }
    let mut section = Section::new("cycle", "One idle cycle, exit by exit");
    section.text(
        "What a vCPU does when it has nothing to do: it halts, is woken, goes on, and \
        halts again. Each exit takes its processor from the guest to the host and back. Which of \
        them happens because of the tick, and which because of the work, is what the modes differ \
        in.",
    );
    for (number, (results, lines)) in timelines.iter().enumerate() {
        let workload = cycle::workload(results);
        let id = format!("fig-cycle-{number}");
        let description =
            format!("{} The table after the figure has every event.", describe(lines));
        let title = title(results);
        let caption = caption(results, workload, lines);
        let lanes = Lanes { lines };
        let table = cycle::table(results);
        section.blocks.push(Figure::block(&id, caption, table, |size| {
            lanes.draw(size, &id, &title, &description)
        }));
        if let Some(text) = cycle::lengths(results) {
            section.text(text);
        }
        let alike = as_today(lines);
        if !alike.is_empty() {
            section.text(format!(
                "`tickless` and {} have the same exits in this cycle: today's kernel keeps its \
                 tick over an idle period as short as this one, and with virtual ticks no timer is \
                 armed for it. They differ while a vCPU runs: besides the exit of the host's tick, \
                 its own tick takes one to expire and one to be armed again, a virtual tick takes \
                 none.",
                number::list(&alike)
            ));
        }
    }
    Some(section)
}

/// The figure alone.
pub fn drawn(results: &Results) -> String {
    let lines = lines(results);
    let lanes = Lanes { lines: &lines };
    lanes.draw(Size::Wide, "cycle", &title(results), &describe(&lines))
}

fn title(results: &Results) -> String {
    format!("One idle cycle of {} in each mode", cycle::workload(results))
}

/// Our modes that save nothing here against today's kernel.
fn as_today(lines: &[Line]) -> Vec<String> {
    let exits = |mode: Mode| -> Option<Vec<Cause>> {
        let line = lines.iter().find(|line| line.subject.mode == mode)?;
        let events = line.cycle.chosen.events.iter();
        Some(events.filter_map(|event| event.what.cause()).collect())
    };
    let today = exits(TICKLESS);
    let alike = OURS.into_iter().filter(|mode| today.is_some() && today == exits(*mode));
    alike.map(|mode| format!("`{mode}`")).collect()
}

fn caption(results: &Results, workload: &str, lines: &[Line]) -> String {
    let cost = match results.environment.configuration.exit_cost_ns {
        Some(cost) if cost > 0 => format!(" and a world switch {cost} ns"),
        _ => String::new(),
    };
    let ticks = if has_ticks(lines) { ", and virtual ticks" } else { "" };
    format!(
        "An idle cycle of `{}`, from one halt to the next, traced in the lab in each mode: of the \
         sequence of events that was seen most often, the cycle of median length. Lanes: who has \
         the vCPU's processor. Marks: exits with their cause{ticks}; at the right, the exits of \
         the cycle. Time is the lab's virtual time, in which an instruction takes a \
         nanosecond{cost}; tracing itself lengthens the host's part.",
        workload
    )
}

fn has_ticks(lines: &[Line]) -> bool {
    let mut events = lines.iter().flat_map(|line| &line.cycle.chosen.events);
    events.any(|event| matches!(event.what, What::Tick { .. }))
}

fn describe(lines: &[Line]) -> String {
    let lines: Vec<String> = lines
        .iter()
        .map(|line| {
            format!("{} has {}", line.subject, number::plural(line.cycle.chosen.exits(), "exit"))
        })
        .collect();
    format!("Three lanes for each mode: guest, host, asleep. {}.", number::list(&lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::tests::line;

    #[test]
    fn the_caption_names_virtual_ticks_where_one_is_drawn() {
        let empty = Results::new("timeline", Default::default());
        let caption = |kind: &str| {
            let lines = [line(&format!(r#"{{"t_ns": 0, "kind": {kind}}}"#))];
            caption(&empty, "sleep", &lines)
        };
        assert!(caption(r#""tick", "what": "delivered""#).contains("virtual ticks"));
        assert!(!caption(r#""entry""#).contains("virtual ticks"));
    }

    #[test]
    fn today_s_kernel_is_alike_where_it_has_the_same_exits() {
        let of = |mode: Mode, causes: &[&str]| {
            let exits = causes.iter().map(|cause| {
                format!(r#"{{"t_ns": 0, "kind": "exit", "reason": "hlt", "cause": "{cause}"}}"#)
            });
            let events: Vec<String> = exits.collect();
            Line { subject: mode.into(), ..line(&events.join(",")) }
        };
        let [ticks, until] = OURS.map(|mode| of(mode, &["halt", "ipi"]));
        let same = of(TICKLESS, &["halt", "ipi"]);
        let more = of(TICKLESS, &["halt", "arm", "ipi"]);
        assert_eq!(as_today(&[same.clone(), until.clone()]), ["`paratick`"]);
        assert_eq!(as_today(&[same.clone(), ticks, until.clone()]).len(), 2);
        assert!(as_today(&[more, until]).is_empty());
        assert!(as_today(&[same]).is_empty());
    }
}
