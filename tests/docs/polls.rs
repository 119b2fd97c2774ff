// SPDX-License-Identifier: GPL-2.0-only
//! Guests that poll before they halt, by the settings of their governor.

use crate::generated::{kept, number, table, wrapped, Medians};
use paratick_view::number::NARROW_SPACE;

/// By how long a guest polls at most.
pub fn polls() -> String {
    settings("polls")
}

/// By the governor's other settings.
pub fn others() -> String {
    settings("polls-others")
}

/// Exits, time and CPU time.
fn settings(name: &str) -> String {
    let all = kept(name);
    let mut modes: Vec<_> = all.rest.exits["sleep"].keys().map(String::as_str).collect();
    let longest = |mode: &str| match mode.split_once("+poll") {
        None => 0,
        Some((_, "")) => 200_000,
        Some((_, "-50k")) => 50_000,
        Some((_, rest)) => rest.split(':').nth(1).and_then(|ns| ns.parse().ok()).expect("ns"),
    };
    modes.sort_by_key(|mode| (longest(mode), *mode));
    let change = |of: &Medians, workload: &str, mode: &str| {
        let ratio = of[workload][mode] / of[workload]["tickless"];
        paratick_view::number::change(ratio).replace(NARROW_SPACE, " ")
    };
    let cells = ["pingpong", "barrier", "sleep", "block"]
        .into_iter()
        .flat_map(|workload| modes.iter().map(move |mode| (workload, *mode)));
    let rows = cells.map(|(workload, mode)| {
        let exits = number(&all, workload, mode);
        let [time, cpu] =
            [&all.rest.duration_ns, &all.rest.cpu_ns].map(|figure| change(figure, workload, mode));
        format!("| {workload} | {mode} | {exits} | {time} | {cpu} |")
    });
    let rows = table("| | mode | exits | time | CPU time |\n|---|---|---|---|---|", rows);
    let (clock, date) = (&all.clock, &all.started[..10]);
    let of = wrapped(&format!(
        "{} boots, one run each, {clock} clock; commit {} and series {} on {date}.",
        all.boots, all.commit, all.patches
    ));
    format!("{rows}\n\n{}", of.replace("\n  ", "\n"))
}
