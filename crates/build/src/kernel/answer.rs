// SPDX-License-Identifier: GPL-2.0-only
//! What a check of the series says.

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// With what was looked at.
    Passed(String),
    /// With every finding.
    Failed(Vec<String>),
    /// With the reason; never counts as passed.
    Skipped(String),
}

/// One question about one series, or about the whole stack, and its answer.
#[derive(Debug, Clone)]
pub struct Check {
    pub subject: String,
    pub name: String,
    pub outcome: Outcome,
}

impl Outcome {
    pub fn failed(&self) -> bool {
        matches!(self, Outcome::Failed(_))
    }
}
