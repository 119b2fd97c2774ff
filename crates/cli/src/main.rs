// SPDX-License-Identifier: GPL-2.0-only
//! The command `paratick`: parses, calls the machinery, renders what comes back.

// A reader may go away: stdout.rs.
#![deny(clippy::print_stdout)]

mod bench;
mod compare;
mod doctor;
mod emulator;
mod kernel;
mod lab;
mod model;
mod progress;
mod report;
mod signals;
mod stdout;
mod usage;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

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
    Emulator(emulator::Verb),
    #[command(subcommand)]
    Bench(bench::Verb),
    #[command(subcommand)]
    Kernel(kernel::Verb),
    #[command(subcommand)]
    Lab(lab::Verb),
    Compare(compare::Args),
    Model(model::Args),
    Report(report::Args),
    Doctor(doctor::Args),
}

fn main() -> ExitCode {
    let result = match Command::parse().verb {
        Verb::Bench(verb) => bench::run(verb),
        Verb::Emulator(verb) => emulator::run(verb),
        Verb::Kernel(verb) => kernel::run(verb),
        Verb::Lab(verb) => lab::run(verb),
        Verb::Compare(args) => compare::run(&args),
        Verb::Model(args) => model::run(args),
        Verb::Report(args) => report::run(&args),
        Verb::Doctor(args) => doctor::run(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("{}", stdout::printable(format_args!("error: {error:#}")));
        usage::exit_code(&error)
    })
}
