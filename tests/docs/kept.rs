// SPDX-License-Identifier: GPL-2.0-only
//! What was measured, in docs/evaluation/tables: tables of the documents are made of it.

use crate::files;
use serde::{de::DeserializeOwned, Deserialize};

pub const FOLDER: &str = "docs/evaluation/tables";

/// How a file was made, and what else is in it.
#[derive(Deserialize)]
pub struct Kept<Rest> {
    pub command: String,
    pub started: String,
    pub commit: String,
    pub patches: String,
    pub clock: String,
    pub boots: u32,
    pub runs: u32,
    #[serde(flatten)]
    pub rest: Rest,
}

impl<Rest> Kept<Rest> {
    pub fn date(&self) -> &str {
        &self.started[..10]
    }

    /// How often each was measured.
    pub fn often(&self) -> String {
        let boots = if self.boots == 1 { "boot" } else { "boots" };
        match self.runs {
            1 => format!("{} {boots}, one run each", self.boots),
            runs => format!("{} {boots}, {runs} runs each", self.boots),
        }
    }
}

pub fn read<T: DeserializeOwned>(name: &str) -> T {
    let path = format!("{FOLDER}/{name}.json");
    let kept = serde_json::from_str(&files::read(&path));
    kept.unwrap_or_else(|error| panic!("{path}: {error}"))
}
