// SPDX-License-Identifier: GPL-2.0-only
//! Why the lab did not see a command through, where the caller must tell reasons apart.

use std::{fmt, time::Duration};

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A wall-clock limit was reached.
    #[error("the time limit of {} s was reached: {what} was \
        stopped{}", limit.as_secs_f64(), quote(lines))]
    TimeLimit {
        what: String,
        limit: Duration,
        /// The last of the console, where that may say why.
        lines: Vec<String>,
    },
    /// A kernel complained on its console.
    #[error("{0}")]
    Trouble(Trouble),
    /// An emulator, and with it a host or guest, is gone.
    #[error("the {place} is gone: {why}{}", quote(lines))]
    Ended { place: String, why: String, lines: Vec<String> },
    /// The command could not be started inside.
    #[error("{0}")]
    NotStarted(String),
}

impl Failure {
    /// Adds the last lines of a console to a failure that they may explain.
    pub fn with_lines(mut self, last: Vec<String>) -> Failure {
        match &mut self {
            Failure::TimeLimit { lines, .. } | Failure::Ended { lines, .. } => *lines = last,
            Failure::Trouble(_) | Failure::NotStarted(_) => {}
        }
        self
    }
}

fn quote(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n  | {line}")).collect()
}

/// What a kernel said, with the lines around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// `host`, `guest 1`, …
    pub place: String,
    pub what: &'static str,
    pub lines: Vec<String>,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, place) = (self.what, &self.place);
        write!(f, "{what} on the console of the {place}:{}", quote(&self.lines))
    }
}
