// SPDX-License-Identifier: GPL-2.0-only
//! The command `paratick`: parses, calls the machinery, renders what comes back.

mod kernel;
mod progress;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// What could not be run (sysexits' EX_UNAVAILABLE), as opposed to 1: it ran, and the answer is no.
pub const COULD_NOT_RUN: u8 = 69;

/// Paravirtual scheduler ticks: kernels, a lab to boot them in, and exact counts of VM exits.
#[derive(Parser)]
#[command(version, propagate_version = true)]
struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    #[command(subcommand)]
    Kernel(kernel::Verb),
}

fn main() -> ExitCode {
    let result = match Command::parse().verb {
        Verb::Kernel(verb) => kernel::run(verb),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(COULD_NOT_RUN)
    })
}
