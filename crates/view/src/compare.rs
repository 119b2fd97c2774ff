// SPDX-License-Identifier: GPL-2.0-only
//! A comparison as text: what else differs, every figure at a glance, then the changes.

use crate::{
    change::Change,
    number::{self, count, millions, or_nothing, plural, NOTHING},
    table::{wrap, Table},
};
use paratick_core::{
    compare::{CellName, FigureChange, Gate, Origin, Outcome, Report},
    results::Figure,
    stats::{Summary, MIN_VERDICT},
};
use std::path::Path;

/// Of two files; `verbose`: also what did not change.
pub fn text(report: &Report, (before, after): (&Path, &Path), verbose: bool) -> String {
    let mut text = origin("before", before, &report.before);
    text += &origin("after ", after, &report.after);
    if !report.differences.is_empty() {
        text += "\nAlso different, and perhaps the reason\n";
        for found in &report.differences {
            text += &format!("  {}: {} → {}\n", found.what, found.before, found.after);
        }
    }
    text += &format!("\n{}\n", overview(report).text());
    text += &match details(report, verbose) {
        table if table.is_empty() => "No change shown.\n".into(),
        table => table.text(),
    };
    text += "\n";
    for line in notes(report) {
        text += &wrap(&line);
    }
    text
}

fn origin(which: &str, file: &Path, origin: &Origin) -> String {
    let guests = match origin.guests {
        1 => "guests".to_string(),
        guests => format!("{guests} guests at once"),
    };
    format!(
        "{which}  {}: {} of {}, {guests} of {}, {}\n",
        file.display(),
        origin.bench,
        origin.started,
        plural(origin.vcpus as usize, "vCPU"),
        plural(origin.rounds as usize, "round")
    )
}

/// One row for each cell, one column for each figure that was measured somewhere.
fn overview(report: &Report) -> Table {
    let head = Figure::COMPARED.map(heading);
    let mut table = Table::new("From before to after", ["Cell"].into_iter().chain(head));
    for cell in &report.cells {
        table.row(cell.name.to_string(), cell.figures.iter().map(brief));
    }
    table.without_empty_columns()
}

fn heading(figure: Figure) -> &'static str {
    match figure {
        Figure::Exits => "VM exits",
        Figure::TimerExits => "timer exits",
        Figure::TscDeadlineWrites => "TSC_DEADLINE",
        Figure::Instructions => "instructions",
        Figure::Cycles => "CPU cycles",
        Figure::CpuNs => "CPU time",
        Figure::DurationNs => "duration",
        _ => "other",
    }
}

/// `−60 %`, or that nothing is shown.
fn brief(seen: &FigureChange) -> String {
    match (seen.outcome, seen.versus) {
        (Outcome::Less | Outcome::More, Some(versus)) => number::change(versus.ratio),
        (Outcome::Less | Outcome::More, None) => sized(seen),
        (Outcome::NoDifferenceShown, _) => "≈".into(),
        (Outcome::TooFewSamples, _) => "(few)".into(),
        (Outcome::NotMeasured, _) => NOTHING.into(),
    }
}

/// With its interval, whatever the verdict; there is no ratio to 0.
fn sized(seen: &FigureChange) -> String {
    match seen.versus {
        Some(versus) => Change::from(versus).sized(),
        None if seen.before.is_some_and(|before| before.median == 0.0) => "from 0".into(),
        None => "no ratio to 0".into(),
    }
}

/// The changes; with `verbose` everything that was measured in both.
fn details(report: &Report, verbose: bool) -> Table {
    let title = if verbose { "All figures" } else { "Changes" };
    let head = ["Cell", "Figure", "Before", "After", "Change", "Verdict"];
    let columns = if verbose { 6 } else { 5 };
    let mut table = Table::new(title, head.into_iter().take(columns));
    table = table.words(1..2).words(5..);
    for (cell, seen) in report.figures() {
        let wanted = match verbose {
            true => seen.outcome != Outcome::NotMeasured,
            false => seen.outcome.is_change(),
        };
        if wanted {
            let [before, after] = [seen.before, seen.after].map(|s| median(s, seen.figure));
            let name = heading(seen.figure).to_string();
            let row = [name, before, after, sized(seen), verdict(seen).into()];
            table.row(cell.name.to_string(), row.into_iter().take(columns - 1));
        }
    }
    table
}

fn median(summary: Option<Summary>, figure: Figure) -> String {
    or_nothing(summary, |Summary { median, .. }| match figure {
        Figure::Instructions | Figure::Cycles => format!("{} M", millions(median)),
        Figure::CpuNs | Figure::DurationNs => format!("{} ms", millions(median)),
        _ => count(median),
    })
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
    let sides = [("before", &report.only_before), ("after", &report.only_after)];
    for (side, cells) in sides.into_iter().filter(|(_, cells)| !cells.is_empty()) {
        lines.push(format!("Only {side}: {}.", names(cells)));
    }
    for unlike in &report.unlike {
        lines.push(format!("Not compared: {} {}.", unlike.name, unlike.why));
    }
    for (side, origin) in [("before", &report.before), ("after", &report.after)] {
        if origin.doubtful > 0 {
            lines.push(format!(
                "{} of {} samples {side} are doubtful: the bench does not trust them.",
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
        "{changed} of {} figures changed. ≈: {none} show no difference, which is not “equal”. \
         (few): {few} have too few rounds; what differs from boot to boot is known from \
         {MIN_VERDICT} on each side (--rounds). A change is significant, at least the figure's \
         smallest size, and beyond {} % and the files' own spread.",
        changed + none + few,
        (report.gates.noise * 1e4).round() / 100.0
    )
}
