// SPDX-License-Identifier: GPL-2.0-only
//! One idle cycle of each mode, event by event.

use crate::{
    number,
    table::Table,
    timeline::{lines, time_of, Line, Who},
};
use paratick_core::{
    cause::Cause,
    cycle::{Until, What},
    results::Results,
    units::Nanos,
};

pub fn table(results: &Results) -> Table {
    let planned = results.plan.workloads.first();
    let ran =
        planned.map_or(String::new(), |planned| format!(" ({} {}", planned.work, planned.unit));
    let vcpus = number::plural(results.plan.vcpus as usize, "vCPU");
    let workload = workload(results);
    let mut table = Table::new(
        format!("One idle cycle of {workload} in each mode{ran}, guests of {vcpus})"),
        ["Event", "Cause", "At, µs", "For, µs", "What"],
    );
    table = table.words(1..2).words(4..);
    for line in &lines(results) {
        table.group(heading(line));
        let events = &line.cycle.chosen.events;
        for (place, event) in events.iter().enumerate() {
            let (name, cause, what) = told(&event.what);
            let next = events.get(place + 1);
            let lasts = next.map(|next| micros(next.t_ns - event.t_ns));
            table.row(name, [cause, micros(event.t_ns), lasts.unwrap_or_default(), what]);
        }
    }
    table
}

pub fn workload(results: &Results) -> &str {
    let planned = results.plan.workloads.first();
    planned.map_or("a workload", |planned| &planned.workload)
}

/// How much longer the runs became because they were traced; none where that is not known.
pub fn lengths(results: &Results) -> Option<String> {
    let all = lines(results);
    let lines = all.iter().filter(|line| line.cycle.untraced_ns > 0);
    let longer: Vec<String> = lines
        .map(|line| {
            let ratio = line.cycle.traced_ns as f64 / line.cycle.untraced_ns as f64;
            format!("{} {}", line.subject, number::change(ratio))
        })
        .collect();
    (!longer.is_empty()).then(|| {
        format!(
            "Do not compare lengths between modes: tracing takes time at every event, so a mode \
             with more exits becomes longer by more. The traced run took, against the same work \
             without tracing: {}.",
            number::list(&longer)
        )
    })
}

fn heading(line: &Line) -> String {
    let chosen = &line.cycle.chosen;
    let shares = Who::ALL.map(|who| format!("{} {}", who.name(), Nanos(time_of(line, who))));
    let mean = |cause: Cause| Some(format!("{cause} {:.2}", chosen.exits_by_cause.get(&cause)?));
    let means: Vec<_> = Cause::ALL.into_iter().filter_map(mean).collect();
    format!(
        "{}, vCPU {}: {}; {}. {} of {} cycles are like this one; over all, {} exits in a cycle \
         (mean: {}){}",
        line.subject,
        line.cycle.vcpu,
        number::plural(chosen.exits(), "exit"),
        shares.join(", "),
        chosen.alike,
        chosen.cycles,
        number::interval(Some(chosen.exits_per_cycle), number::count),
        means.join(", "),
        writes(line).unwrap_or_default()
    )
}

/// Why deadlines were written in the whole run; none where the guest does not say.
fn writes(line: &Line) -> Option<String> {
    let writes = line.cycle.deadline_writes.as_ref()?;
    let all: u32 = writes.values().sum();
    let reasons = writes.iter().map(|(why, count)| format!("{count} {}", why.about()));
    let reasons: Vec<String> = reasons.collect();
    Some(match all {
        0 => ". No deadline was written in the whole run".into(),
        _ => format!(
            ". In the whole run {}: {}",
            match all {
                1 => "1 deadline was written".into(),
                _ => format!("{all} deadlines were written"),
            },
            number::list(&reasons)
        ),
    })
}

/// An event's name, its cause, and what happens.
fn told(what: &What) -> (&'static str, String, String) {
    let event = |name, cause: &dyn ToString, what: &str| (name, cause.to_string(), what.into());
    match what {
        What::Exit { reason, cause, msr, moved_ns, until, why } => {
            let msr = msr.as_ref().map(|msr| format!(" {msr}"));
            let moved = moved_ns.map(|moved| {
                let side = if moved < 0 { "earlier" } else { "later" };
                format!(", deadline {} {side}", Nanos(moved.unsigned_abs()))
            });
            let until = until.map(|until| format!(", {}", handed_over(until)));
            let why = why.map(|why| format!(", written {}", why.about()));
            let text = [Some(reason.clone()), msr, moved, until, why];
            event("exit", cause, &text.into_iter().flatten().collect::<String>())
        }
        What::Entry => event("entry", &"", "the guest runs"),
        What::Sleep => event("sleep", &"", "the vCPU waits, its pCPU is free"),
        What::Wake { by } => event("wake", by, "an interrupt ends the halt"),
        What::Tick { what } => event("tick", what, "a virtual tick is raised"),
        What::NoTick { what } => event("no tick", what, ""),
        What::End => event("end", &"", "the next cycle begins"),
    }
}

/// What a halt says of the deadline that goes with it.
fn handed_over(until: Until) -> String {
    let deadline = match (until.deadline, until.due_ns) {
        (false, _) => "until an interrupt".to_string(),
        (true, None) => "until a deadline".into(),
        (true, Some(due)) if due < 0 => {
            format!("until a deadline that was over {} ago", Nanos(due.unsigned_abs()))
        }
        (true, Some(due)) => format!("until a deadline {} later", Nanos(due.unsigned_abs())),
    };
    let kept = if until.keep { ", which stays armed" } else { "" };
    format!("{deadline}{kept}")
}

fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}
