// SPDX-License-Identifier: GPL-2.0-only
//! Results as text: what was counted, what changed, and what cannot be concluded.

use super::number::{change, count, decimal, interval, NOTHING};
use comfy_table::{presets, Cell as Field, CellAlignment, Table};
use paratick_core::{
    mode::{Mode, TickMode},
    results::{Cell, Figure, Results},
    stats::{Method, Summary, Verdict, MIN_BOOTSTRAP, MIN_VERDICT},
};
use paratick_view::number::plural;

const TICKLESS: Mode = plain(TickMode::Tickless);
const TICKLESS_STOP: Mode = plain(TickMode::TicklessStop);
const TICKLESS_POLL: Mode = Mode {
    tick: TickMode::Tickless,
    poll: true,
};

/// Fits a terminal of 110 columns.
const WIDTH: usize = 110;

const fn plain(tick: TickMode) -> Mode {
    Mode { tick, poll: false }
}

/// The whole report.
pub fn text(results: &Results) -> String {
    let mut text = heading(results);
    if results.cells.is_empty() {
        return text + "\nNothing was measured.\n";
    }
    let execution = execution(results);
    text += &show(&counts(results, execution), results);
    let changes = [("VM exits", Figure::Exits), ("execution", execution)];
    for (what, figure) in changes {
        if let Some(table) = change_table(results, figure) {
            text += &format!("\nChange in {what} against other modes\n");
            text += &show(&table, results);
        }
    }
    text += "\n";
    for line in legend(results) {
        text += &wrap(&line);
    }
    text
}

/// The table after an empty line, without the space that pads it to a rectangle.  Rows that hold a
/// place for a workload become its heading, as wide as it likes.
fn show(table: &Table, results: &Results) -> String {
    let text = table.to_string();
    let workloads = groups(results);
    let heading = |line: &str| {
        let group = workloads.iter().position(|group| line == place(group));
        group.map(|number| title(workloads[number][0]))
    };
    let lines = text.trim_end().lines().map(str::trim_end);
    let lines: Vec<_> = lines
        .map(|line| heading(line).unwrap_or(line.into()))
        .collect();
    format!("\n{}\n", lines.join("\n"))
}

/// Stands for a group's heading in a table.
fn place(group: &[&Cell]) -> String {
    format!("@{}", group[0].workload)
}

/// `pingpong: 1 000 round trips`
fn title(cell: &Cell) -> String {
    let unit = match cell.work {
        1 => cell.unit.strip_suffix('s').unwrap_or(&cell.unit),
        _ => &cell.unit,
    };
    format!("{}: {} {unit}", cell.workload, count(cell.work as f64))
}

/// In lines of at most [`WIDTH`], further ones indented.
fn wrap(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > WIDTH {
            lines.push(format!("  {word}"));
        } else if let Some(last) = lines.last_mut() {
            let space = if last.is_empty() { "" } else { " " };
            *last += space;
            *last += word;
        }
    }
    lines.join("\n") + "\n"
}

fn heading(results: &Results) -> String {
    let (plan, environment) = (&results.plan, &results.environment);
    let host = match environment.configuration.accelerator.as_deref() {
        Some("tcg") => "an emulated host",
        Some(_) => "a virtual host",
        None => "this machine",
    };
    let hz = match environment.configuration.hz {
        Some(hz) => format!(", {hz}"),
        None => String::new(),
    };
    let vcpus = plural(plan.vcpus as usize, "vCPU");
    let guests = match plan.guests {
        1 => format!("Guests of {vcpus}"),
        several => format!("{several} guests of {vcpus} side by side"),
    };
    format!(
        "{guests} on {host}, Linux {}{hz}; {} of each workload and mode\n",
        environment.kernel_version,
        paratick_view::counts(results)
    )
}

/// Execution time: instructions where they are counted, else time.
fn execution(results: &Results) -> Figure {
    let counted = |cell: &Cell| cell.summary(Figure::Instructions).is_some();
    match results.cells.iter().any(counted) {
        true => Figure::Instructions,
        false => Figure::DurationNs,
    }
}

fn counts(results: &Results, execution: Figure) -> Table {
    let time = match execution {
        Figure::Instructions => "execution (M instr.)",
        _ => "execution (ms)",
    };
    let mut table = new_table(&[
        "mode",
        "VM exits",
        "per unit",
        "TSC_DEADLINE",
        "ticks",
        time,
    ]);
    for group in groups(results) {
        table.add_row([place(&group)]);
        for cell in &group {
            let doubtful = cell
                .samples
                .iter()
                .any(|sample| !sample.problems.is_empty());
            let mark = if doubtful { " !" } else { "" };
            let show = |figure: Figure| interval(cell.summary(figure), count);
            let per_unit = cell.summary(Figure::ExitsPerUnit);
            table.add_row([
                format!("  {}{mark}", cell.mode),
                show(Figure::Exits),
                per_unit.map_or(NOTHING.into(), |summary| decimal(summary.median)),
                show(Figure::TscDeadlineWrites),
                show(Figure::TicksDelivered),
                interval(cell.summary(execution), |value| decimal(value / 1e6)),
            ]);
        }
        table.add_row([""]);
    }
    align(table)
}

/// None where there is no baseline.
fn change_table(results: &Results, figure: Figure) -> Option<Table> {
    let bases = [TICKLESS, TICKLESS_STOP, TICKLESS_POLL];
    let mut bases = bases.to_vec();
    bases.retain(|base| results.plan.modes.contains(base));
    if results.cells.iter().all(|cell| cell.versus.is_empty()) {
        return None;
    }
    let head = bases.iter().map(|base| format!("vs {base}"));
    let head: Vec<String> = ["mode".to_string()].into_iter().chain(head).collect();
    let mut table = new_table(&head.iter().map(String::as_str).collect::<Vec<_>>());
    for group in groups(results) {
        table.add_row([place(&group)]);
        for cell in group.iter().filter(|cell| !cell.versus.is_empty()) {
            let changes = bases.iter().map(|base| match cell.mode == *base {
                true => String::new(),
                // Only what polls is compared with what polls.
                false if base.poll && !cell.mode.poll => String::new(),
                false => change(cell.versus(*base, figure)),
            });
            table.add_row([format!("  {}", cell.mode)].into_iter().chain(changes));
        }
        table.add_row([""]);
    }
    Some(align(table))
}

/// Cells by workload, in the results' order.
fn groups(results: &Results) -> Vec<Vec<&Cell>> {
    let mut groups: Vec<Vec<&Cell>> = Vec::new();
    for cell in &results.cells {
        match groups.last_mut() {
            Some(group) if group[0].workload == cell.workload => group.push(cell),
            _ => groups.push(vec![cell]),
        }
    }
    groups
}

fn new_table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(head.iter().map(Field::new));
    table
}

/// Numbers to the right; no padding at the left margin.
fn align(mut table: Table) -> Table {
    for (number, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if number > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// What the columns mean, what was checked, and what cannot be concluded.
fn legend(results: &Results) -> Vec<String> {
    let mut lines = vec![format!("Medians [{}].", intervals(results))];
    let mut say = |text: &str| lines.push(text.to_string());
    say("per unit: VM exits per unit of work. TSC_DEADLINE: exits for writes of the guest's timer register. ticks: virtual ticks the host delivered. –: not measured. !: some samples are doubtful.");
    match execution(results) {
        Figure::Instructions => say("execution: instructions of host and guest; the lab's clock takes 1 ns for each, so a million is a millisecond of virtual time. They are not cycles: what the hardware itself takes for an exit is not in them."),
        _ => say("execution: time between the marks, on the host's clock."),
    }
    say("Changes: ≈ no difference shown (which is not \"equal\"); (…) too few boots to conclude anything.");
    say(&world_switches(results));
    lines.extend(doubts(results));
    lines
}

fn intervals(results: &Results) -> String {
    let exits = |cell: &Cell| cell.summary(Figure::Exits);
    let summaries = || results.cells.iter().filter_map(exits);
    let bootstrap = |summary: Summary| summary.method == Method::Bootstrap;
    if summaries().all(bootstrap) {
        "95 % bootstrap interval".into()
    } else if summaries().any(bootstrap) {
        format!(
            "95 % bootstrap interval, or smallest..largest of fewer than {MIN_BOOTSTRAP} samples"
        )
    } else {
        "smallest..largest sample: too few for a 95 % interval".into()
    }
}

fn world_switches(results: &Results) -> String {
    let samples = || results.cells.iter().flat_map(|cell| &cell.samples);
    let counted = samples().filter(|sample| sample.world_switches.is_some());
    let equal = counted
        .clone()
        .filter(|sample| sample.world_switches == sample.exits)
        .count();
    match (counted.count(), samples().count()) {
        (0, _) => "World switches were not counted independently.".into(),
        (counted, all) if counted == all && equal == all => {
            format!("World switches counted by the emulator equal the exits in all {all} samples.")
        }
        (counted, all) => format!(
            "World switches counted by the emulator equal the exits in {equal} of {counted} samples ({all} in all)."
        ),
    }
}

/// What the reader might conclude and should not.
fn doubts(results: &Results) -> Vec<String> {
    let mut lines = Vec::new();
    if !results.is_complete() {
        lines.push("Not everything that was planned has been measured: --resume goes on.".into());
    }
    let rounds = results.plan.rounds as usize;
    if rounds < MIN_VERDICT {
        lines.push(format!(
            "With {}: how boots differ from each other is known from {MIN_VERDICT} (--rounds).",
            plural(rounds, "round")
        ));
    }
    for (base, what) in [(TICKLESS, "tickless"), (TICKLESS_STOP, "tickless-stop")] {
        let open: Vec<String> = results
            .cells
            .iter()
            .filter(|cell| {
                let compared = cell.versus(base, Figure::Exits);
                compared.is_some_and(|c| c.verdict == Verdict::NoDifferenceShown)
            })
            .map(|cell| format!("{} {}", cell.workload, cell.mode))
            .collect();
        if !open.is_empty() {
            lines.push(format!(
                "No difference in exits shown against {what}: {}.",
                open.join(", ")
            ));
        }
    }
    let emulated = results
        .environment
        .configuration
        .ns_per_instruction
        .is_some();
    let busy = results.cells.iter().any(|cell| cell.workload == "cpu");
    if emulated && busy && results.plan.vcpus > 1 {
        lines.push(
            "cpu: the emulator's CPUs share one clock, so busy vCPUs get less work done per tick than on hardware.".into(),
        );
    }
    lines
}

#[cfg(test)]
mod tests;
