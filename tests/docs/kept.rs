// SPDX-License-Identifier: GPL-2.0-only
//! What was measured, in docs/evaluation/tables: tables of the documents are made of it.

use crate::{files, generated::wrapped};
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

    /// A table of these, and where it comes from.
    pub fn below(&self, table: String) -> String {
        format!("{table}\n\n{}", text(&self.origin()))
    }

    /// The same, with the command that measured it.
    pub fn below_command(&self, table: String) -> String {
        format!("{table}\n\n{}", text(&format!("`{}`: {}", self.command, self.origin())))
    }

    /// How often it was measured, by which clock, with what, and when.
    pub fn origin(&self) -> String {
        let Kept { boots, clock, commit, patches, .. } = self;
        let of = if *boots == 1 { "boot" } else { "boots" };
        let runs = match self.runs {
            1 => "one run each".into(),
            runs => format!("{runs} runs each"),
        };
        let date = self.date();
        format!(
            "{boots} {of}, {runs}, {clock} clock; commit {commit} and series {patches} on {date}."
        )
    }
}

/// All were measured together: one of them says where they come from.
pub fn same_origin<Rest>(all: &[Kept<Rest>]) -> &Kept<Rest> {
    let of = |kept: &Kept<Rest>| (kept.commit.clone(), kept.patches.clone(), kept.boots);
    assert!(all.iter().all(|kept| of(kept) == of(&all[0])), "{}: measure all", all[0].command);
    &all[0]
}

fn text(line: &str) -> String {
    wrapped(line).replace("\n  ", "\n")
}

pub fn read<T: DeserializeOwned>(name: &str) -> T {
    let path = format!("{FOLDER}/{name}.json");
    let kept = serde_json::from_str(&files::read(&path));
    kept.unwrap_or_else(|error| panic!("{path}: {error}"))
}
