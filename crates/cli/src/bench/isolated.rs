// SPDX-License-Identifier: GPL-2.0-only
//! What is printed of the noise of a busy guest, of which each file has another host or other CPUs
//! isolated.

use paratick_core::{
    isolation::Isolation,
    mode::Mode,
    results::{Effects, Factorial, Held, NoiseFigure, Results, CLAIMS},
    stats::Summary,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The bench whose files belong together.
pub const BENCH: &str = "noise";

/// A mode with some CPUs isolated: figures of a vCPU that samples, times in us.
#[derive(Serialize)]
struct Row {
    host_cpus: u32,
    isolated: Isolation,
    mode: Mode,
    summary: BTreeMap<NoiseFigure, Option<Summary>>,
}

/// Results, and what isolating changes in them.
#[derive(Serialize)]
pub struct Isolated<'a> {
    rows: Vec<Row>,
    claims: Vec<Held>,
    effects: Vec<Effects>,
    results: &'a [&'a Results],
}

impl<'a> Isolated<'a> {
    pub fn of(results: &'a [&'a Results]) -> Isolated<'a> {
        let all = Factorial::all(results.iter().copied());
        let (mut rows, mut claims, mut effects) = (Vec::new(), Vec::new(), Vec::new());
        let figures = || NoiseFigure::TIMES.into_iter().chain(NoiseFigure::COUNTS);
        for factorial in &all {
            let host_cpus = factorial.host_cpus;
            for mode in factorial.modes() {
                for isolated in Isolation::ALL {
                    let Some(cell) = factorial.cell(isolated, mode) else { continue };
                    let summary = figures().map(|figure| (figure, figure.summary(cell))).collect();
                    rows.push(Row { host_cpus, isolated, mode, summary });
                }
                claims.extend(CLAIMS.map(|claim| factorial.held(mode, claim)));
                effects.extend(figures().map(|figure| factorial.effects(mode, figure)));
            }
        }
        Isolated { rows, claims, effects, results }
    }
}
