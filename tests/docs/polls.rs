// SPDX-License-Identifier: GPL-2.0-only
//! Guests that poll before they halt, by the settings of their governor.

use crate::generated::{kept, number, table, wrapped, Medians};
use paratick_view::number::{decimal, NARROW_SPACE};

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

/// By the host's rule, and by the guest's: against `tickless` guests on a host that never polls.
pub fn rules() -> String {
    let all = kept("polling");
    let rest = &all.rest;
    let mut subjects: Vec<&String> = rest.exits["sleep"].keys().collect();
    subjects.sort_by_key(|subject| (!subject.starts_with("tickless"), !subject.contains(' ')));
    subjects.retain(|subject| *subject != "tickless");
    let changes = |name: &str, of: &dyn Fn(&str, &str) -> f64| {
        let rows =
            ["pingpong", "barrier", "sleep", "exponential", "block", "cpu"].map(|workload| {
                let change = |subject: &&String| {
                    let ratio = of(workload, subject) / of(workload, "tickless");
                    paratick_view::number::change(ratio).replace(NARROW_SPACE, " ")
                };
                let changes: Vec<_> = subjects.iter().map(change).collect();
                format!("| {name} | {workload} | {} |", changes.join(" | "))
            });
        rows
    };
    let figures = [
        changes("time", &|workload, subject| rest.duration_ns[workload][subject]),
        changes("CPU time", &|workload, subject| rest.cpu_ns[workload][subject]),
        changes("switches", &|workload, subject| rest.halts[workload][subject].switches),
        changes("exits", &|workload, subject| rest.exits[workload][subject]),
    ];
    let names: Vec<_> = subjects.iter().map(|name| name.replace("tickless ", "")).collect();
    let lines = "---|".repeat(names.len() + 2);
    let head = format!("| | | {} |\n|{lines}", names.join(" | "));
    let of = wrapped(&format!(
        "{}, {} clock; commit {} and series {} on {}.",
        all.often(),
        all.clock,
        all.commit,
        all.patches,
        all.date()
    ));
    let rows = table(&head, figures.into_iter().flatten());
    format!("{rows}\n\n{}", of.replace("\n  ", "\n"))
}

/// With which limit of the host's polling halts began, in per cent.
pub fn limits() -> String {
    let all = kept("polling");
    let rows = ["exponential", "sleep"].into_iter().flat_map(|workload| {
        let of = &all.rest.halts[workload];
        let rules = ["2021", "paper", "paper-floor", "default"];
        rules.map(|rule| {
            let halts = &of[&format!("tickless {rule}")];
            let share = |limit: &u64| {
                let count = halts.limits.get(limit).copied().unwrap_or_default();
                decimal(100.0 * count / halts.halts)
            };
            let shares: Vec<_> = LIMITS.iter().map(share).collect();
            format!("| {workload} | {rule} | {} |", shares.join(" | "))
        })
    });
    let limits = LIMITS.map(|limit| (limit / 1000).to_string()).join(" | ");
    table(&format!("| | limit, µs | {limits} |\n|---|---|{}", "---|".repeat(LIMITS.len())), rows)
}

const LIMITS: [u64; 7] = [0, 10_000, 20_000, 40_000, 80_000, 160_000, 200_000];

/// Programs of the kinds of the article's Graph 4: what polling changes.
pub fn of_programs() -> String {
    let all = ["polls-io", "polls-programs"].map(kept);
    let rows = all.iter().flat_map(|all| {
        let rest = &all.rest;
        rest.exits.keys().map(move |workload| {
            let of = |mode: &str| {
                let change = |figure: &Medians| {
                    let ratio = figure[workload][mode] / figure[workload]["tickless"];
                    paratick_view::number::change(ratio).replace(NARROW_SPACE, " ")
                };
                let halts = |mode: &str| rest.causes[workload][mode].get("halt").copied();
                let halts = match (halts(mode), halts("tickless")) {
                    (Some(with), Some(without)) => {
                        paratick_view::number::change(with / without).replace(NARROW_SPACE, " ")
                    }
                    _ => "–".into(),
                };
                let (exits, time) = (change(&rest.exits), change(&rest.duration_ns));
                format!("{exits} | {halts} | {time} | {}", change(&rest.cpu_ns))
            };
            let modes = ["tickless+poll", "tickless+poll-50k"].map(of).join(" | ");
            format!("| {workload} | {} | {modes} |", number(all, workload, "tickless"))
        })
    });
    let head = "| | exits | +poll: exits | halts | time | CPU time | +poll-50k: exits | halts | \
                time | CPU time |\n|---|---|---|---|---|---|---|---|---|---|";
    let rows = table(head, rows);
    let of = all.map(|all| {
        let (boots, date) = (all.boots, all.date().to_string());
        format!("{boots} boots on the {} clock, {} on {date}", all.clock, all.commit)
    });
    let of = wrapped(&format!("Of {}; one run each.", of.join(" and ")));
    format!("{rows}\n\n{}", of.replace("\n  ", "\n"))
}
