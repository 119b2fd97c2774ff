// SPDX-License-Identifier: GPL-2.0-only
//! Results as text for a terminal: the tables of the report, and what cannot be concluded.

use crate::{
    change::{self, Metric, BASELINES},
    number::plural,
    samples,
    set::{takes_turns, Selection, Set},
    table::{wrap, Table},
    tables::{
        averages, balance, bench, crowd, cycle, exits, idle, isolated, mileage, polling, printed,
        table1,
    },
};
use paratick_core::{
    exits::WindowCounts,
    results::{Balance, Crowd, Factorial, Figure, Mileage, Results},
    stats::{Verdict, MIN_VERDICT},
};

pub fn results(results: &Results) -> String {
    let set = Set::alone(results);
    let mut text = heading(&set);
    if results.cells.is_empty() {
        return text + "\nNothing was measured.\n";
    }
    for table in tables(&set) {
        text += &format!("\n{}", table.text());
    }
    text += "\n";
    for line in notes(&set) {
        text += &wrap(&line);
    }
    text
}

/// Idle guests, of which each file has so many.
pub fn crowds(results: &[&Results]) -> String {
    let Some(first) = results.first() else { return "Nothing was measured.\n".into() };
    let mut text = wrap(&format!(
        "Idle guests of one vCPU on {}, Linux {}",
        host(first),
        first.environment.kernel_version
    ));
    for crowd in Crowd::all(results.iter().copied()) {
        text += &under(crowd.modes().is_empty(), crowd::tables(&crowd));
    }
    text + &ending(results)
}

/// The tables of one group of files.
fn under(is_empty: bool, tables: Vec<Table>) -> String {
    let nothing = is_empty.then(|| "\nNothing was measured.\n".to_string());
    nothing.into_iter().chain(tables.iter().map(|table| format!("\n{}", table.text()))).collect()
}

/// What is true of all files.
fn ending(results: &[&Results]) -> String {
    let cells = results.iter().flat_map(|one| &one.cells);
    let mut text = format!("\n{}", wrap(&samples::world_switches(cells)));
    if results.iter().any(|results| !results.is_complete()) {
        text += "Not everything that was planned is measured yet: --resume continues.\n";
    }
    text
}

/// Noise of a busy guest, of which each file has another host, or other CPUs isolated.
pub fn isolated(results: &[&Results]) -> String {
    let Some(first) = results.first() else { return "Nothing was measured.\n".into() };
    let mut text = wrap(&format!(
        "A busy guest of {} on {}, Linux {}; {} in each mode",
        plural(first.plan.vcpus as usize, "vCPU"),
        host(first),
        first.environment.kernel_version,
        Set::alone(first).samples()
    ));
    for factorial in Factorial::all(results.iter().copied()) {
        text += &under(factorial.modes().is_empty(), isolated::tables(&factorial));
    }
    text + &ending(results)
}

/// An idle guest, of which each file is of another kind.
pub fn mileage(results: &[&Results]) -> String {
    let Some(first) = results.first() else { return "Nothing was measured.\n".into() };
    let mut text = wrap(&format!(
        "Tables of 2007 with guests on {}, Linux {}",
        host(first),
        first.environment.kernel_version
    ));
    for one in Mileage::all(results.iter().copied()) {
        if !one.rows.is_empty() {
            text += &under(false, mileage::tables(&one));
        }
    }
    for one in Balance::all(results.iter().copied()) {
        text += &format!("\n{}", balance::table(&one).text());
    }
    if results.iter().all(|results| results.cells.is_empty()) {
        text += "\nNothing was measured.\n";
    }
    text + &ending(results)
}

fn host(results: &Results) -> &'static str {
    match results.environment.configuration.accelerator.as_deref() {
        Some("tcg") => "an emulated host",
        Some(_) => "a virtual host",
        None => "this machine",
    }
}

fn heading(set: &Set) -> String {
    let (plan, environment) = (&set.main().plan, &set.main().environment);
    let host = host(set.main());
    let hz = environment.configuration.hz.map(|hz| format!(", {hz}"));
    let vcpus = plural(plan.vcpus as usize, "vCPU");
    let guests = match plan.guests {
        1 => format!("Guests of {vcpus}"),
        several => format!("{several} guests of {vcpus} side by side"),
    };
    wrap(&format!(
        "{guests} on {host}, Linux {}{}; {} in each mode",
        environment.kernel_version,
        hz.unwrap_or_default(),
        set.samples()
    ))
}

/// What was counted, and what the bench is about.
fn tables(set: &Set) -> Vec<Table> {
    let mut tables = vec![bench::counts(set)];
    if set.bench() == "table1" {
        tables.push(table1::table(&table1::entries(&[set])));
        return tables;
    }
    if set.bench() == "polling" {
        tables.extend(polling::tables(set));
        tables.push(printed::table(set));
        return tables;
    }
    let relative = BASELINES.into_iter().filter_map(|mode| averages::relative(set, mode));
    let relative: Vec<Table> = relative.collect();
    if set.is_evaluated() && !relative.is_empty() {
        tables.extend(relative);
        tables.push(averages::averages(&[set]));
        tables.extend(idle::table(set));
    } else {
        tables.extend(Metric::ALL.into_iter().filter_map(|metric| bench::versus(set, metric)));
    }
    tables
}

/// What the signs mean, what was checked, and what the reader might conclude and should not.
fn notes(set: &Set) -> Vec<String> {
    let results = set.main();
    let selection = Selection::new(std::slice::from_ref(results));
    let mut lines = vec![
        format!("{} {}", samples::intervals(&selection), change::SIGNS),
        samples::world_switches(results.cells.iter()),
    ];
    if !results.is_complete() {
        lines.push("Not everything that was planned is measured yet: --resume continues.".into());
    }
    let rounds = results.plan.rounds as usize;
    if rounds < MIN_VERDICT {
        lines.push(format!(
            "With {}: conclusions need {MIN_VERDICT} boots or more (--rounds).",
            plural(rounds, "round")
        ));
    }
    for baseline in BASELINES {
        let open = results.cells.iter().filter(|cell| {
            let compared = cell.versus(cell.subject.with(baseline), Figure::Exits);
            compared.is_some_and(|c| c.verdict == Verdict::NoDifferenceShown)
        });
        let open: Vec<_> = open.map(|cell| format!("{} {}", cell.workload, cell.subject)).collect();
        if !open.is_empty() {
            let open = open.join(", ");
            lines.push(format!("No difference in exits shown against {baseline}: {open}."));
        }
    }
    let busy = results.cells.iter().any(|cell| cell.workload == "cpu");
    if busy && takes_turns(results) {
        lines.push(
            "cpu: the emulator's CPUs share one clock, so busy vCPUs get less work done per \
            tick than on hardware."
                .into(),
        );
    }
    lines
}

pub fn timeline(timeline: &Results) -> String {
    let lengths = cycle::lengths(timeline).map(|text| format!("\n{}", wrap(&text)));
    cycle::table(timeline).text() + &lengths.unwrap_or_default()
}

/// One table for each window; `whole` is the one around a command that marked none itself.
pub fn windows(windows: &[WindowCounts], whole: u32) -> String {
    let table = |window: &WindowCounts| {
        let name = match window.window {
            number if number == whole => "the command".into(),
            number => format!("window {number}"),
        };
        format!("\n{}", exits::table(window, &name).text())
    };
    match windows.is_empty() {
        true => "no window of exits was closed\n".into(),
        false => windows.iter().map(table).collect(),
    }
}

#[cfg(test)]
mod tests;
