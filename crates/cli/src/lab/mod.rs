// SPDX-License-Identifier: GPL-2.0-only
//! `paratick lab`: any command of this machine in a guest, on a host that is emulated or real.

mod dry_run;
mod inside;
mod run;
mod shell;

use crate::signals;
use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;

/// Boot a host and a guest, and run commands in them
#[derive(Subcommand)]
pub enum Verb {
    /// Run a command of this machine in a guest, or on its host
    ///
    /// The guest sees this machine's files, read-only; /tmp, /var/tmp, /run and /dev/shm are its
    /// own.  Its output and exit code are passed through.  Other exit codes: 124 the time limit
    /// was reached, 127 no such command, 2 wrong usage, 69 the lab could not run or a kernel
    /// failed.  A host and guest that have booted are kept for the next time (docs/lab.md).
    Run(run::Options),
    /// Open a shell in the guest or in the host
    ///
    /// Leaving the shell ends the lab.
    Shell(shell::Options),
}

pub fn run(verb: Verb) -> Result<ExitCode> {
    signals::watch()?;
    match verb {
        Verb::Run(options) => run::run(options),
        Verb::Shell(options) => shell::run(options),
    }
}
