// SPDX-License-Identifier: GPL-2.0-only
//! Why the lab did not see a command through, where the caller must tell reasons apart.

use std::{fmt, time::Duration};

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A wall-clock limit was reached.
    #[error("time limit of {} s reached: {what} was stopped", limit.as_secs_f64())]
    TimeLimit { what: String, limit: Duration },
    /// A kernel complained on its console.
    #[error("{0}")]
    Trouble(Trouble),
    /// An emulator, and with it a host or guest, is gone.
    #[error("the {place} ended: {why}")]
    Ended { place: String, why: String },
    /// The command could not be started inside.
    #[error("{0}")]
    NotStarted(String),
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
        write!(f, "{} on the console of the {}:", self.what, self.place)?;
        for line in &self.lines {
            write!(f, "\n  | {line}")?;
        }
        Ok(())
    }
}
