// SPDX-License-Identifier: GPL-2.0-only
//! What changed from one results file to another.  docs/comparing.md says how it is decided.
//!
//! A change must pass three gates, in this order: it is significant (the interval of the ratio of
//! medians leaves out 1), it is large enough to matter, and it is beyond the noise.

mod gates;

pub use gates::{Gate, Gates, Outcome, DEFAULT_NOISE, DEFAULT_SIZES};

use crate::{
    results::{differences, Cell, Compare, Difference, Figure, PlannedWorkload, Results},
    stats::{self, Comparison, Observation, Summary},
    subject::Subject,
};
use serde::Serialize;
use std::collections::BTreeSet;

/// Name and major version of the JSON that `paratick compare` prints.
pub const SCHEMA: &str = "paratick-comparison/2";

/// `after` held against `before`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub schema: String,
    pub gates: Gates,
    pub before: Origin,
    pub after: Origin,
    /// What differs besides the numbers, and may explain them.
    pub differences: Vec<Difference>,
    pub cells: Vec<CellChange>,
    /// Cells of the other file without a partner.
    pub only_before: Vec<CellName>,
    pub only_after: Vec<CellName>,
    /// Cells that both have, but that did not do the same.
    pub unlike: Vec<Unlike>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Origin {
    pub bench: String,
    pub started: String,
    pub vcpus: u32,
    pub guests: u32,
    /// Boots of a guest for every subject that have a sample.
    pub rounds: u32,
    pub samples: u32,
    /// Of which the bench itself says that they are not to be trusted.
    pub doubtful: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct CellName {
    pub workload: String,
    pub vcpus: u32,
    pub subject: Subject,
}

/// Why two cells of one name are not compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unlike {
    #[serde(flatten)]
    pub name: CellName,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellChange {
    #[serde(flatten)]
    pub name: CellName,
    pub work: u64,
    pub unit: String,
    /// In the order of [`Figure::COMPARED`].
    pub figures: Vec<FigureChange>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureChange {
    pub figure: Figure,
    pub outcome: Outcome,
    /// The first gate that a difference did not pass; none where all were passed, or no gate was
    /// come to because of too few rounds.
    pub stopped_by: Option<Gate>,
    /// None where no sample has the figure.
    pub before: Option<Summary>,
    pub after: Option<Summary>,
    /// After against before; none where a side has no sample, or `before` has one of 0.
    pub versus: Option<Comparison>,
    /// Median absolute deviation of the samples, divided by their median; none where that is 0.
    pub spread_before: Option<f64>,
    pub spread_after: Option<f64>,
}

impl Report {
    pub fn figures(&self) -> impl Iterator<Item = (&CellChange, &FigureChange)> {
        self.cells.iter().flat_map(|cell| cell.figures.iter().map(move |figure| (cell, figure)))
    }

    pub fn count(&self, outcome: Outcome) -> usize {
        self.figures().filter(|(_, figure)| figure.outcome == outcome).count()
    }

    /// Whether enough was measured of any figure to say whether it changed.
    pub fn concludes(&self) -> bool {
        let unknown = [Outcome::TooFewSamples, Outcome::NotMeasured];
        self.figures().any(|(_, figure)| !unknown.contains(&figure.outcome))
    }
}

/// Compares every workload and subject that both files have.
pub fn compare(before: &Results, after: &Results, gates: &Gates) -> Report {
    let mut report = Report {
        schema: SCHEMA.into(),
        gates: gates.clone(),
        before: Origin::of(before),
        after: Origin::of(after),
        differences: differences(before, after, |meets| meets.compare != Compare::Ignores),
        cells: Vec::new(),
        only_before: only_in(before, after),
        only_after: only_in(after, before),
        unlike: Vec::new(),
    };
    let blocking = differences(before, after, |meets| meets.compare == Compare::Blocks);
    let blocked = blocking.first().map(|found| {
        let Difference { what, before, after } = found;
        format!("{what}: {before} before and {after} after")
    });
    for new in &after.cells {
        let Some(old) = partner(new, before) else { continue };
        match blocked.clone().or_else(|| unlike((before, old), (after, new))) {
            Some(why) => report.unlike.push(Unlike { name: CellName::of(new), why }),
            None => report.cells.push(cell_change(old, new, gates)),
        }
    }
    report
}

fn partner<'a>(cell: &Cell, other: &'a Results) -> Option<&'a Cell> {
    other.cell(&cell.workload, cell.subject).filter(|found| found.vcpus == cell.vcpus)
}

fn only_in(one: &Results, other: &Results) -> Vec<CellName> {
    let missing = |cell: &&Cell| partner(cell, other).is_none();
    one.cells.iter().filter(missing).map(CellName::of).collect()
}

/// Counts of unequal work say nothing about each other.
fn unlike(old: (&Results, &Cell), new: (&Results, &Cell)) -> Option<String> {
    let ((before, old), (after, new)) = (old, new);
    if (old.work, &old.unit) != (new.work, &new.unit) {
        return Some(format!(
            "did {} {} before and {} {} after",
            old.work, old.unit, new.work, new.unit
        ));
    }
    let command = |results: &Results| {
        let named = |planned: &&PlannedWorkload| planned.workload == new.workload;
        let planned = results.plan.workloads.iter().find(named)?;
        planned.program.as_ref().map(|program| program.command.clone())
    };
    let own = || "a workload of the agent's".to_string();
    match (command(before), command(after)) {
        (old, new) if old == new => None,
        (old, new) => Some(format!(
            "ran {} before and {} after",
            old.map_or_else(own, |command| format!("`{command}`")),
            new.map_or_else(own, |command| format!("`{command}`")),
        )),
    }
}

fn cell_change(old: &Cell, new: &Cell, gates: &Gates) -> CellChange {
    CellChange {
        name: CellName::of(new),
        work: new.work,
        unit: new.unit.clone(),
        figures: Figure::COMPARED
            .map(|figure| {
                let (old, new) = (old.observations(figure), new.observations(figure));
                figure_change(figure, &old, &new, gates)
            })
            .into(),
    }
}

fn figure_change(
    figure: Figure,
    old: &[Observation],
    new: &[Observation],
    gates: &Gates,
) -> FigureChange {
    let (outcome, stopped_by) = gates.judge(figure, old, new);
    FigureChange {
        figure,
        outcome,
        stopped_by,
        before: stats::summarize(old),
        after: stats::summarize(new),
        versus: stats::compare_unpaired(new, old),
        spread_before: gates::spread(old),
        spread_after: gates::spread(new),
    }
}

impl Origin {
    fn of(results: &Results) -> Origin {
        let samples = || results.cells.iter().flat_map(|cell| cell.samples());
        let rounds: BTreeSet<u32> = samples().map(|sample| sample.round).collect();
        Origin {
            bench: results.bench.clone(),
            started: results.started.clone(),
            vcpus: results.plan.vcpus,
            guests: results.plan.guests,
            rounds: rounds.len() as u32,
            samples: samples().count() as u32,
            doubtful: results.doubtful().count() as u32,
        }
    }
}

impl CellName {
    fn of(cell: &Cell) -> CellName {
        CellName { workload: cell.workload.clone(), vcpus: cell.vcpus, subject: cell.subject }
    }
}

impl std::fmt::Display for CellName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.workload, self.subject)
    }
}

#[cfg(test)]
mod tests;
