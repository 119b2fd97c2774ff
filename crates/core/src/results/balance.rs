// SPDX-License-Identifier: GPL-2.0-only
//! Guests with unbalanced load, by who balances it for idle CPUs (Table 5 of the paper of 2007).

use super::{Cell, Figure, Results};
use crate::{
    balancing::Balancing,
    mode::Mode,
    stats::{self, Comparison, Summary},
    units::Hz,
};

/// A guest, and how it did.
#[derive(Clone, Copy, Debug)]
pub struct BalanceRow<'a> {
    pub mode: Mode,
    /// None: each CPU does so itself, with a tick that never stops.
    pub balancing: Option<Balancing>,
    pub cell: &'a Cell,
}

/// All guests with one load, one tick rate, and one number of CPUs.
#[derive(Clone, Debug)]
pub struct Balance<'a> {
    pub hz: Option<Hz>,
    pub workload: &'a str,
    pub vcpus: u32,
    pub rows: Vec<BalanceRow<'a>>,
}

impl<'a> Balance<'a> {
    pub fn all(results: impl IntoIterator<Item = &'a Results>) -> Vec<Balance<'a>> {
        let mut all: Vec<Balance> = Vec::new();
        for result in results.into_iter().filter(|result| result.plan.balances) {
            let (hz, vcpus) = (result.environment.configuration.hz, result.plan.vcpus);
            for cell in result.cells.iter().filter(|cell| !cell.samples().is_empty()) {
                let key = (hz, cell.workload.as_str(), vcpus);
                let its = |one: &Balance| (one.hz, one.workload, one.vcpus) == key;
                let place = all.iter().position(its).unwrap_or_else(|| {
                    all.push(Balance { hz, workload: &cell.workload, vcpus, rows: Vec::new() });
                    all.len() - 1
                });
                let balancing = result.plan.balancing;
                all[place].rows.push(BalanceRow { mode: cell.subject.mode, balancing, cell });
            }
        }
        all.iter_mut().for_each(|one| one.rows.sort_by_key(|row| row.balancing));
        all.sort_by_key(|one| one.hz.map(|hz| hz.0));
        all
    }

    /// Against the guest whose ticks never stop.
    pub fn versus_ticks(&self, row: &BalanceRow, figure: Figure) -> Option<Comparison> {
        let ticks = self.rows.iter().find(|row| row.balancing.is_none())?;
        let [its, base] = [row.cell, ticks.cell].map(|cell| cell.observations(figure));
        (row.balancing.is_some()).then(|| stats::compare_unpaired(&its, &base)).flatten()
    }
}

impl BalanceRow<'_> {
    pub fn summary(&self, figure: Figure) -> Option<Summary> {
        stats::summarize(&self.cell.observations(figure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        results::{Plan, PlannedWorkload, Sample},
        stats::Verdict,
    };

    fn file(mode: &str, balancing: Option<Balancing>, ns: u64) -> Results {
        let mode: Mode = mode.parse().unwrap();
        let planned = PlannedWorkload::new("warehouse", 10, "collections");
        let plan = Plan::new(4, [mode], [planned.clone()], 4, 1);
        let plan = Plan { balances: true, balancing, ..plan };
        let mut results = Results::new("idle-tables", plan);
        for round in 1..=4 {
            let duration_ns = Some(ns + u64::from(round));
            let sample = Sample { round, repeat: 1, duration_ns, ..Sample::default() };
            results.add(&planned, mode, sample);
        }
        results
    }

    #[test]
    fn policies_are_held_against_the_guest_with_ticks() {
        let files = [
            file("tickless-stop", Some(Balancing::Push), 1_000_000),
            file("tickless-stop", Some(Balancing::None), 1_100_000),
            file("periodic", None, 1_000_000),
            Results::new("idle-tables", Plan::default()),
        ];
        let all = Balance::all(&files);
        let [one] = &all[..] else { panic!("{all:?}") };
        let verdicts: Vec<_> = one
            .rows
            .iter()
            .map(|row| one.versus_ticks(row, Figure::DurationNs).map(|versus| versus.verdict))
            .collect();
        assert_eq!(
            verdicts,
            [None, Some(Verdict::More), Some(Verdict::NoDifferenceShown)],
            "ticks, none, push"
        );
    }
}
