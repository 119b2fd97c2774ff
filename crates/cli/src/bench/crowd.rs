// SPDX-License-Identifier: GPL-2.0-only
//! What is printed of idle guests side by side, of which each file has another number.

use paratick_core::{
    mode::Mode,
    results::{Cost, Crowd, Results, Slope},
    stats::{self, Summary},
    units::Hz,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The bench whose files belong together.
pub const BENCH: &str = "idle";

/// Results, their rows, and what each guest more adds in them.
#[derive(Serialize)]
pub struct Crowds<'a> {
    rows: Vec<Row>,
    slopes: Vec<Slope>,
    results: &'a [&'a Results],
}

/// What these guests cost their host in a second.
#[derive(Serialize)]
struct Row {
    hz: Option<Hz>,
    load: String,
    mode: Mode,
    guests: u32,
    summary: BTreeMap<Cost, Option<Summary>>,
}

impl<'a> Crowds<'a> {
    pub fn of(results: &'a [&'a Results]) -> Crowds<'a> {
        let crowds = Crowd::all(results.iter().copied());
        let rows = crowds.iter().flat_map(rows).collect();
        Crowds { rows, slopes: crowds.iter().flat_map(Crowd::slopes).collect(), results }
    }
}

fn rows(crowd: &Crowd) -> Vec<Row> {
    let of = |mode| crowd.cells(mode).into_iter().map(move |(guests, cell)| (mode, guests, cell));
    let row = |(mode, guests, cell)| {
        let summary = |cost: Cost| (cost, stats::summarize(&cost.observations(cell)));
        let summary = Cost::ALL.map(summary).into();
        Row { hz: crowd.hz, load: crowd.load.into(), mode, guests, summary }
    };
    crowd.modes().into_iter().flat_map(of).map(row).collect()
}
