// SPDX-License-Identifier: GPL-2.0-only
//! What is printed of the noise of a busy guest, of which each file has another host or other CPUs
//! isolated.

use paratick_core::results::{Effects, Factorial, Held, NoiseFigure, Results, CLAIMS};
use serde::Serialize;

/// The bench whose files belong together.
pub const BENCH: &str = "noise";

/// Results, and what isolating changes in them.
#[derive(Serialize)]
pub struct Isolated<'a> {
    claims: Vec<Held>,
    effects: Vec<Effects>,
    results: &'a [&'a Results],
}

impl<'a> Isolated<'a> {
    pub fn of(results: &'a [&'a Results]) -> Isolated<'a> {
        let all = Factorial::all(results.iter().copied());
        let (mut claims, mut effects) = (Vec::new(), Vec::new());
        for factorial in &all {
            for mode in factorial.modes() {
                claims.extend(CLAIMS.map(|claim| factorial.held(mode, claim)));
                let figures = NoiseFigure::TIMES.into_iter().chain(NoiseFigure::COUNTS);
                effects.extend(figures.map(|figure| factorial.effects(mode, figure)));
            }
        }
        Isolated { claims, effects, results }
    }
}
