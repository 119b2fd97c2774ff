// SPDX-License-Identifier: GPL-2.0-only
//! One idle cycle of each mode, event by event.

use crate::{
    number,
    table::Table,
    timeline::{lines, time_of, Line, Who},
};
use paratick_core::{cause::Cause, cycle::What, results::Results, units::Nanos};

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
        let events = &line.chosen.events;
        for (place, event) in events.iter().enumerate() {
            let (name, cause, what) = told(&event.what);
            let next = events.get(place + 1);
            let lasts = next.map(|next| micros(next.t_ns - event.t_ns));
            table.row(name, [cause, micros(event.t_ns), lasts.unwrap_or_default(), what]);
        }
    }
    table
}

/// What was traced.
pub fn workload(results: &Results) -> &str {
    let planned = results.plan.workloads.first();
    planned.map_or("a workload", |planned| &planned.workload)
}

/// How much longer the runs became because they were traced; none where that is not known.
pub fn lengths(results: &Results) -> Option<String> {
    let all = lines(results);
    let lines = all.iter().filter(|line| line.untraced_ns > 0);
    let longer: Vec<String> = lines
        .map(|line| {
            let ratio = line.traced_ns as f64 / line.untraced_ns as f64;
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
    let chosen = &line.chosen;
    let shares = Who::ALL.map(|who| format!("{} {}", who.name(), Nanos(time_of(line, who))));
    let mean = |cause: Cause| Some(format!("{cause} {:.2}", chosen.exits_by_cause.get(&cause)?));
    let means: Vec<_> = Cause::ALL.into_iter().filter_map(mean).collect();
    format!(
        "{}, vCPU {}: {}; {}. {} of {} cycles are like this one; over all, {} exits in a cycle \
         (mean: {})",
        line.subject,
        line.vcpu,
        number::plural(chosen.exits(), "exit"),
        shares.join(", "),
        chosen.alike,
        chosen.cycles,
        number::interval(Some(chosen.exits_per_cycle), number::count),
        means.join(", ")
    )
}

/// An event's name, its cause, and what happens.
fn told(what: &What) -> (&'static str, String, String) {
    let event = |name, cause: &dyn ToString, what: &str| (name, cause.to_string(), what.into());
    match what {
        What::Exit { reason, cause, msr, moved_ns } => {
            let msr = msr.as_ref().map(|msr| format!(" {msr}"));
            let moved = moved_ns.map(|moved| {
                let side = if moved < 0 { "earlier" } else { "later" };
                format!(", deadline {} {side}", Nanos(moved.unsigned_abs()))
            });
            let text = [Some(reason.clone()), msr, moved];
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

fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}
