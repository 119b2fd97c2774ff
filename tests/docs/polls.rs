// SPDX-License-Identifier: GPL-2.0-only
//! Guests that poll before they halt, by the settings of their governor.

use crate::{
    generated::{kept, number, table, Kept, Medians},
    kept,
};
use paratick_core::subject::HostSettings;
use paratick_view::number::NARROW_SPACE;
use serde::Deserialize;
use std::collections::BTreeMap;

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
    let cells = ["pingpong", "barrier", "sleep", "block"]
        .into_iter()
        .flat_map(|workload| modes.iter().map(move |mode| (workload, *mode)));
    let rows = cells.map(|(workload, mode)| {
        let exits = number(&all, workload, mode);
        let [time, cpu] =
            [&all.rest.duration_ns, &all.rest.cpu_ns].map(|of| changed(of, workload, mode));
        format!("| {workload} | {mode} | {exits} | {time} | {cpu} |")
    });
    let rows = table("| | mode | exits | time | CPU time |\n|---|---|---|---|---|", rows);
    all.below(rows)
}

fn changed(of: &Medians, workload: &str, mode: &str) -> String {
    change(of[workload][mode] / of[workload]["tickless"])
}

fn change(ratio: f64) -> String {
    paratick_view::number::change(ratio).replace(NARROW_SPACE, " ")
}

const MODES: [&str; 5] =
    ["tickless", "tickless+poll", "paratick+nopoll", "paratick+poll", "paratick"];
const WORKLOADS: [&str; 7] =
    ["cpu", "pingpong", "barrier", "sleep", "exponential", "block", "idle"];

/// A row for each workload that was run, a column for each mode.
fn by_mode<Rest>(
    all: &kept::Kept<Rest>,
    of: &Medians,
    first: &str,
    cell: impl Fn(&str, &str) -> String,
) -> String {
    let ran = WORKLOADS.iter().filter(|workload| of.contains_key(**workload));
    let modes: Vec<_> =
        MODES.iter().filter(|mode| of.values().all(|modes| modes.contains_key(**mode))).collect();
    let rows = ran.map(|workload| {
        let cells: Vec<_> = modes.iter().map(|mode| cell(workload, mode)).collect();
        format!("| {workload} | {} |", cells.join(" | "))
    });
    let names: Vec<_> = modes.iter().map(|mode| mode.to_string()).collect();
    let lines = "---|".repeat(names.len() + 1);
    all.below(table(&format!("| {first} | {} |\n|{lines}", names.join(" | ")), rows))
}

/// Exits of guests that poll and learn.
pub fn polling_exits() -> String {
    let all = kept("polling");
    by_mode(&all, &all.rest.exits, "exits", |workload, mode| number(&all, workload, mode))
}

/// Of these the exits for HLT.
pub fn polling_halts() -> String {
    let all = kept("polling");
    by_mode(&all, &all.rest.exits, "exits for HLT", |workload, mode| {
        let halts = all.rest.causes[workload][mode].get("halt").copied().unwrap_or_default();
        paratick_view::number::whole(halts).replace(NARROW_SPACE, " ")
    })
}

/// The host's CPU time.
pub fn polling_cpu() -> String {
    let all: Kept = kept("polling");
    let ms = |workload: &str| {
        let ms = all.rest.cpu_ns[workload]["tickless"] / 1e6;
        format!("{} ms", paratick_view::number::decimal(ms).replace(NARROW_SPACE, " "))
    };
    by_mode(&all, &all.rest.cpu_ns, "CPU time", |workload, mode| match mode {
        "tickless" => ms(workload),
        mode => changed(&all.rest.cpu_ns, workload, mode),
    })
}

/// The time of two guests on the same pCPUs.
pub fn polling_two() -> String {
    let all = kept("polling-two");
    by_mode(&all, &all.rest.duration_ns, "time", |workload, mode| match mode {
        "tickless" => "0 %".into(),
        mode => changed(&all.rest.duration_ns, workload, mode),
    })
}

/// Guests of two vCPUs on two pCPUs: one, two and four of them.
pub fn overcommit() -> String {
    const MODES: [&str; 4] = ["periodic", "tickless-stop", "tickless", "paratick"];
    let all = [1_u32, 2, 4].map(|guests| (guests, kept(&format!("overcommit-{guests}"))));
    let rows = all.iter().flat_map(|(guests, all)| {
        WORKLOADS.iter().filter(|name| all.rest.exits.contains_key(**name)).map(move |workload| {
            let cells = MODES.map(|mode| {
                let exits = all.rest.exits[*workload][mode] / f64::from(*guests);
                let ns = all.rest.duration_ns[*workload][mode];
                let fair = all.rest.fastest_guest_ns.get(*workload).map(|of| of[mode] / ns);
                let fair = fair.map_or(String::new(), |share| format!(", {:.0}", 100.0 * share));
                let ms = paratick_view::number::decimal(ns / 1e6);
                format!("{}, {ms}{fair}", paratick_view::number::whole(exits))
            });
            let cells = cells.join(" | ").replace(NARROW_SPACE, " ");
            format!("| {guests} | {workload} | {cells} |")
        })
    });
    let names = MODES.join(" | ");
    let head = format!("| guests | | {names} |\n|{}", "---|".repeat(MODES.len() + 2));
    all[2].1.below(table(&head, rows))
}

/// What else `scripts/table` keeps of `bench polling`.
#[derive(Deserialize)]
struct Polling {
    duration_ns: Medians,
    /// The same program on the host itself.
    native_ns: BTreeMap<String, f64>,
    rules: Vec<UnderRule>,
}

/// A workload in `tickless` guests under one of the host's rules.
#[derive(Deserialize)]
struct UnderRule {
    workload: String,
    host: HostSettings,
    exits: [f64; 3],
    cpu_ns: [f64; 3],
    duration_ns: [f64; 3],
    /// How many halts began with each limit, in ns, in one run.
    limits: Option<BTreeMap<String, u64>>,
    /// How often vCPU threads were switched out in the first boot.
    switches: Option<f64>,
}

/// The gap to the host itself.
pub fn native() -> String {
    let all: kept::Kept<Polling> = kept::read("polling");
    let time = &all.rest.duration_ns;
    let ran =
        time.iter().filter(|(name, _)| *name != "idle" && all.rest.native_ns.contains_key(*name));
    let ran: Medians = ran.map(|(name, modes)| (name.clone(), modes.clone())).collect();
    by_mode(&all, &ran, "time", |workload, mode| {
        change(time[workload][mode] / all.rest.native_ns[workload])
    })
}

/// What the host's rules change, against the one that never polls.
pub fn rules() -> String {
    let all: kept::Kept<Polling> = kept::read("polling");
    let Polling { rules, native_ns, .. } = &all.rest;
    let rows = WORKLOADS.iter().flat_map(|workload| {
        let of = rules.iter().filter(move |one| one.workload == *workload);
        let base = of.clone().next().expect("the first never polls");
        of.skip(1).map(move |one| {
            let against = |figure: fn(&UnderRule) -> f64| change(figure(one) / figure(base));
            let [exits, time, cpu] = [
                against(|one| one.exits[0]),
                against(|one| one.duration_ns[0]),
                against(|one| one.cpu_ns[0]),
            ];
            let native = native_ns.get(*workload).filter(|_| *workload != "idle");
            let gap = native.map_or("–".into(), |ns| change(one.duration_ns[0] / ns));
            let switches = one.switches.zip(base.switches.filter(|n| *n > 0.0));
            let switches = switches.map_or("–".into(), |(n, base)| change(n / base));
            let rule = one.host.rule();
            format!("| {workload} | `{rule}` | {exits} | {switches} | {time} | {cpu} | {gap} |")
        })
    });
    let head =
        "| | the host's rule | exits | switches | time | CPU time | over the host's own time |\n\
                |---|---|---|---|---|---|---|";
    all.below(table(head, rows))
}

/// With which limits of the host's rules halts began, in per cent.
pub fn limits() -> String {
    const LIMITS: [u32; 7] = [0, 10_000, 20_000, 40_000, 80_000, 160_000, 200_000];
    let all: kept::Kept<Polling> = kept::read("polling");
    let rows = all.rest.rules.iter().filter(|one| one.workload == "exponential");
    let rows = rows.filter_map(|one| {
        let limits = one.limits.as_ref().filter(|limits| limits.len() > 1)?;
        let halts: u64 = limits.values().sum();
        let share = |limit: &u32| {
            let begun = limits.get(&limit.to_string()).copied().unwrap_or_default();
            paratick_view::number::decimal(100.0 * begun as f64 / halts as f64)
        };
        let cells: Vec<_> = LIMITS.iter().map(share).collect();
        Some(format!("| `{}` | {} |", one.host.rule(), cells.join(" | ")))
    });
    let limits = LIMITS.map(|ns| (ns / 1000).to_string()).join(" | ");
    let head = format!("| limit, µs | {limits} |\n|{}", "---|".repeat(LIMITS.len() + 1));
    all.below(table(&head, rows))
}
