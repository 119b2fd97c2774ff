// SPDX-License-Identifier: GPL-2.0-only
//! What is printed of an idle guest, of which each file is of another kind.

use paratick_core::{
    catalogue::idle_tables,
    results::{Measure, Mileage, Results, Rung},
    stats::Summary,
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
    results: &'a [&'a Results],
}

#[derive(Serialize)]
struct Row {
    hz: Option<Hz>,
    #[serde(flatten)]
    rung: Rung,
    summary: BTreeMap<Measure, Option<Summary>>,
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
        Tables { rows: rows.collect(), results }
    }
}
