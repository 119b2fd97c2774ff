// SPDX-License-Identifier: GPL-2.0-only
//! `paratick bench`: tick modes measured side by side.

mod kernel;
mod number;
mod quick;
mod table;

use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;

/// Measure tick modes side by side: exits by cause, ticks, execution time
#[derive(Subcommand)]
pub enum Verb {
    /// Run small workloads of fixed work in guests of every tick mode
    ///
    /// Boots one host, and in every round a fresh guest per mode, in rotating order.  Results are
    /// kept in one file after every guest; an interrupted bench continues with --resume.
    /// GUIDE.md says how to read the table, docs/results.md describes the file.
    /// Exit codes: 0 all is measured and sound, 1 something was not (it is said what), 2 wrong
    /// usage, 69 the bench could not run.
    Quick(quick::Options),
}

pub fn run(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Quick(options) => quick::run(options),
    }
}
