// SPDX-License-Identifier: GPL-2.0-only
//! The command `paratick`: parses, calls the machinery, renders what comes back.

// A reader may go away: print.rs.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod calibrate;
mod compare;
mod doctor;
mod emulator;
mod errors;
mod exits;
mod generate;
mod halts;
mod idle;
mod input;
mod kernel;
mod lab;
mod model;
mod moved;
mod noise;
mod options;
mod print;
mod progress;
mod report;
mod serve;
mod signals;
mod timerlat;
mod top;
mod words;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
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
    Exits(exits::Args),
    Serve(serve::Args),
    Calibrate(calibrate::Args),
    Idle(Box<idle::Args>),
    Noise(Box<noise::Args>),
    Report(report::Args),
    Halts(Box<halts::Args>),
    Timerlat(Box<timerlat::Args>),
    Doctor(doctor::Args),
    #[command(hide = true)]
    Generate(generate::Args),
}

fn main() -> ExitCode {
    let matches = Command::command().try_get_matches();
    let command = match matches.and_then(|found| {
        options::remember_given(&found);
        Command::from_arg_matches(&found)
    }) {
        Ok(command) => command,
        Err(error) => return errors::not_parsed::<Command>(&error),
    };
    let result = match command.verb {
        Verb::Bench(verb) => bench::run(verb),
        Verb::Emulator(verb) => emulator::run(verb),
        Verb::Kernel(verb) => kernel::run(verb),
        Verb::Lab(verb) => lab::run(verb),
        Verb::Compare(args) => compare::run(&args),
        Verb::Model(args) => model::run(args),
        Verb::Exits(args) => exits::run(&args),
        Verb::Calibrate(args) => calibrate::run(&args),
        Verb::Serve(args) => serve::run(&args),
        Verb::Idle(args) => idle::run(&args),
        Verb::Noise(args) => noise::run(&args),
        Verb::Report(args) => report::run(&args),
        Verb::Timerlat(args) => timerlat::run(&args),
        Verb::Halts(args) => halts::run(&args),
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Generate(args) => generate::run::<Command>(&args),
    };
    result.unwrap_or_else(|error| {
        signals::give_way();
        errors::failed(&error)
    })
}
