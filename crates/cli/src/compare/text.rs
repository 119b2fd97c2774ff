// SPDX-License-Identifier: GPL-2.0-only
//! A comparison as text: what else differs, every figure at a glance, then the changes.

use crate::bench::number::{change, count, decimal, NOTHING};
use comfy_table::{presets, Cell as Field, CellAlignment, Table};
use paratick_core::{
    compare::{CellName, FigureChange, Gate, Origin, Outcome, Report},
    results::Figure,
    stats::{Comparison, Summary, Verdict, MIN_VERDICT},
};
use std::path::Path;

pub fn text(report: &Report, (before, after): (&Path, &Path), verbose: bool) -> String {
    let mut text = origin("before", before, &report.before);
    text += &origin("after ", after, &report.after);
    if !report.differences.is_empty() {
        text += "\nAlso different, and perhaps the reason\n";
        for found in &report.differences {
            text += &format!("  {}: {} → {}\n", found.what, found.before, found.after);
        }
    }
    text += "\nFrom before to after\n";
    text += &show(overview(report));
    text += &details(report, verbose);
    text += "\n";
    for line in notes(report) {
        text += &format!("{line}\n");
    }
    text
}

fn origin(which: &str, file: &Path, origin: &Origin) -> String {
    let guests = match origin.guests {
        1 => "guests".to_string(),
        guests => format!("{guests} guests at once"),
    };
    format!(
        "{which}  {}: {} of {}, {guests} of {} vCPUs, {} rounds\n",
        file.display(),
        origin.bench,
        origin.started,
        origin.vcpus,
        origin.rounds
    )
}

/// One row for each cell, one column for each figure that was measured somewhere.
fn overview(report: &Report) -> Table {
    let measured = |figure: &Figure| {
        let mut figures = report.figures().filter(|(_, seen)| seen.figure == *figure);
        figures.any(|(_, seen)| seen.outcome != Outcome::NotMeasured)
    };
    let columns: Vec<Figure> = Figure::COMPARED.into_iter().filter(measured).collect();
    let head = columns.iter().map(|figure| heading(*figure).to_string());
    let mut table = new_table(["".to_string()].into_iter().chain(head));
    for cell in &report.cells {
        let shown = cell.figures.iter();
        let shown = shown.filter(|seen| columns.contains(&seen.figure));
        table.add_row(
            [format!("  {}", cell.name)]
                .into_iter()
                .chain(shown.map(brief)),
        );
    }
    align(&mut table, 1);
    table
}

fn heading(figure: Figure) -> &'static str {
    match figure {
        Figure::Exits => "VM exits",
        Figure::TimerExits => "timer exits",
        Figure::TscDeadlineWrites => "TSC_DEADLINE",
        Figure::Instructions => "instructions",
        Figure::CpuNs => "CPU time",
        Figure::DurationNs => "duration",
        _ => "other",
    }
}

/// `−60 %`, or that nothing is shown.
fn brief(seen: &FigureChange) -> String {
    match seen.outcome {
        Outcome::Less | Outcome::More => {
            let text = sized(seen);
            text.split(" [").next().unwrap_or(&text).to_string()
        }
        Outcome::NoDifferenceShown => "≈".into(),
        Outcome::TooFewSamples => "(few)".into(),
        Outcome::NotMeasured => NOTHING.into(),
    }
}

/// With its interval, whatever the verdict; there is no ratio to 0.
fn sized(seen: &FigureChange) -> String {
    let shown = |versus: Comparison| Comparison {
        verdict: match versus.ratio < 1.0 {
            true => Verdict::Less,
            false => Verdict::More,
        },
        ..versus
    };
    match seen.versus {
        Some(versus) => change(Some(shown(versus))),
        None if seen.before.is_some_and(|before| before.median == 0.0) => "from 0".into(),
        None => "no ratio to 0".into(),
    }
}

/// The changes; with `verbose` everything that was measured in both.
fn details(report: &Report, verbose: bool) -> String {
    let wanted = |seen: &FigureChange| match verbose {
        true => seen.outcome != Outcome::NotMeasured,
        false => seen.outcome.is_change(),
    };
    let seen: Vec<_> = report.figures().filter(|(_, seen)| wanted(seen)).collect();
    if seen.is_empty() {
        return "\nNo change shown.\n".into();
    }
    let mut head = vec!["", "figure", "before", "after", "change"];
    if verbose {
        head.push("");
    }
    let mut table = new_table(head.into_iter().map(String::from));
    for (cell, seen) in seen {
        let unit = seen.figure;
        let mut row = vec![
            format!("  {}", cell.name),
            heading(unit).to_string(),
            median(seen.before, unit),
            median(seen.after, unit),
            sized(seen),
        ];
        if verbose {
            row.push(verdict(seen).into());
        }
        table.add_row(row);
    }
    align(&mut table, 2);
    if let (true, Some(last)) = (verbose, table.column_mut(5)) {
        last.set_cell_alignment(CellAlignment::Left);
    }
    let title = if verbose { "All figures" } else { "Changes" };
    format!("\n{title}\n{}", show(table))
}

fn median(summary: Option<Summary>, figure: Figure) -> String {
    let Some(Summary { median, .. }) = summary else {
        return NOTHING.into();
    };
    match figure {
        Figure::Instructions => format!("{} M", decimal(median / 1e6)),
        Figure::CpuNs | Figure::DurationNs => format!("{} ms", decimal(median / 1e6)),
        _ => count(median),
    }
}

fn verdict(seen: &FigureChange) -> &'static str {
    match (seen.outcome, seen.stopped_by) {
        (Outcome::Less, _) => "less",
        (Outcome::More, _) => "more",
        (Outcome::TooFewSamples, _) => "too few rounds",
        (Outcome::NotMeasured, _) => "not measured",
        (_, Some(Gate::Size)) => "too small to matter",
        (_, Some(Gate::Noise)) => "within the noise",
        (Outcome::NoDifferenceShown, _) => "not significant",
    }
}

/// What was not compared, what the signs mean, and what the numbers cannot say.
fn notes(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let names = |cells: &[CellName]| {
        let names: Vec<_> = cells.iter().map(CellName::to_string).collect();
        names.join(", ")
    };
    let sides = [
        ("before", &report.only_before),
        ("after", &report.only_after),
    ];
    for (side, cells) in sides.into_iter().filter(|(_, cells)| !cells.is_empty()) {
        lines.push(format!("Only {side}: {}.", names(cells)));
    }
    for unlike in &report.unlike {
        lines.push(format!("Not compared: {} {}.", unlike.name, unlike.why));
    }
    for (side, origin) in [("before", &report.before), ("after", &report.after)] {
        if origin.doubtful > 0 {
            lines.push(format!(
                "{} of {} samples {side} are doubtful: the bench says that they are not to be trusted.",
                origin.doubtful, origin.samples
            ));
        }
    }
    lines.push(summary(report));
    lines
}

fn summary(report: &Report) -> String {
    let changed = report.count(Outcome::Less) + report.count(Outcome::More);
    let none = report.count(Outcome::NoDifferenceShown);
    let few = report.count(Outcome::TooFewSamples);
    format!(
        "{changed} of {} figures changed.  ≈: {none} show no difference, which is not \"equal\".  (few): {few} have too few rounds;\nwhat differs from boot to boot is known from {MIN_VERDICT} on each side (--rounds).\nA change is significant, at least the figure's smallest size, and beyond {} % and the files' own spread.",
        changed + none + few,
        decimal_percent(report.gates.noise)
    )
}

fn decimal_percent(part: f64) -> String {
    let text = format!("{:.2}", part * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn new_table(head: impl Iterator<Item = String>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(head.map(Field::new));
    table
}

/// Numbers to the right, from column `first` on; no padding at the left margin.
fn align(table: &mut Table, first: usize) {
    for (number, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if number >= first {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Without the space that pads it to a rectangle.
fn show(table: Table) -> String {
    let text = table.to_string();
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}
