// SPDX-License-Identifier: GPL-2.0-only
//! What is printed of idle guests side by side, of which each file has another number.

use paratick_core::results::{Crowd, Results, Slope};
use serde::Serialize;

/// The bench whose files belong together.
pub const BENCH: &str = "idle";

/// Results, and what each guest more adds in them.
#[derive(Serialize)]
pub struct Crowds<'a> {
    slopes: Vec<Slope>,
    results: &'a [&'a Results],
}

impl<'a> Crowds<'a> {
    pub fn of(results: &'a [&'a Results]) -> Crowds<'a> {
        let crowds = Crowd::all(results.iter().copied());
        Crowds { slopes: crowds.iter().flat_map(Crowd::slopes).collect(), results }
    }
}
