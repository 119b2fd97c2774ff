// SPDX-License-Identifier: GPL-2.0-only
//! What is printed of an idle guest, of which each file is of another kind.

use paratick_core::{
    balancing::Balancing,
    catalogue::idle_tables,
    mode::Mode,
    results::{Balance, Figure, Measure, Mileage, Results, Rung},
    stats::{Comparison, Summary},
    units::Hz,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The bench whose files belong together.
pub const BENCH: &str = idle_tables::BENCH;

/// Results, and their rows.
#[derive(Serialize)]
pub struct Tables<'a> {
    rows: Vec<Row>,
    balance: Vec<Balanced<'a>>,
    results: &'a [&'a Results],
}

#[derive(Serialize)]
struct Row {
    hz: Option<Hz>,
    #[serde(flatten)]
    rung: Rung,
    summary: BTreeMap<Measure, Option<Summary>>,
}

/// A guest with a load, and who balances it; without a policy each CPU's own tick does.
#[derive(Serialize)]
struct Balanced<'a> {
    hz: Option<Hz>,
    vcpus: u32,
    workload: &'a str,
    mode: Mode,
    balancing: Option<Balancing>,
    summary: BTreeMap<String, Option<Summary>>,
    /// Time against the guest whose ticks never stop.
    time_change: Option<Comparison>,
}

impl<'a> Balanced<'a> {
    fn all(results: &[&'a Results]) -> Vec<Balanced<'a>> {
        let figures = [Figure::DurationNs, Figure::Exits];
        let mut all = Vec::new();
        for of in Balance::all(results.iter().copied()) {
            all.extend(of.rows.iter().map(|row| Balanced {
                hz: of.hz,
                vcpus: of.vcpus,
                workload: of.workload,
                mode: row.mode,
                balancing: row.balancing,
                summary: figures.map(|one| (one.to_string(), row.summary(one))).into(),
                time_change: of.versus_ticks(row, Figure::DurationNs),
            }));
        }
        all
    }
}

impl<'a> Tables<'a> {
    pub fn of(results: &'a [&'a Results]) -> Tables<'a> {
        let all = Mileage::all(results.iter().copied());
        let rows = all.iter().flat_map(|one| {
            let row = |row: &paratick_core::results::Row| Row {
                hz: one.hz,
                rung: row.rung,
                summary: row.summaries(),
            };
            one.rows.iter().map(row)
        });
        Tables { rows: rows.collect(), balance: Balanced::all(results), results }
    }
}
