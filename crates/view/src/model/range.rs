// SPDX-License-Identifier: GPL-2.0-only
//! What a model leaves open.

use crate::number;
use serde::Serialize;

#[derive(Serialize)]
pub struct Range {
    pub least: f64,
    pub likely: f64,
    pub most: f64,
}

impl Range {
    /// `2 488 [1 995..2 981]`
    pub fn text(&self) -> String {
        number::range(self.least, self.likely, self.most, number::whole)
    }
}
