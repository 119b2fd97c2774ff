// SPDX-License-Identifier: GPL-2.0-only
//! How the command fails: what is printed, and the exit code.

use crate::{
    moved,
    print::{errln, printable, ReaderGone},
};
use clap::{error::ErrorKind, CommandFactory};
use std::process::ExitCode;

/// What could not be run (sysexits' EX_UNAVAILABLE), as opposed to 1: it ran, and the answer is no.
pub const COULD_NOT_RUN: u8 = 69;
/// As clap exits.
const WRONG_USAGE: u8 = 2;
/// As a shell says it of a program that SIGPIPE ended.
const NOBODY_READS: u8 = 141;

/// The user's mistake, found after parsing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

pub fn usage(message: impl Into<String>) -> anyhow::Error {
    Usage(message.into()).into()
}

pub fn failed(error: &anyhow::Error) -> ExitCode {
    if error.is::<ReaderGone>() {
        return ExitCode::from(NOBODY_READS);
    }
    errln!("{}", printable(format_args!("error: {error:#}")));
    ExitCode::from(if error.is::<Usage>() { WRONG_USAGE } else { COULD_NOT_RUN })
}

/// Shows the help that was asked for; or why the arguments cannot be parsed, with a hint like every
/// other error.
pub fn not_parsed<C: CommandFactory>(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Nothing can be done about a reader that has gone away.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    let text = text.split("\nFor more information, try").next().unwrap_or_default();
    // After `--` it would be a file's name.
    let lines = text.split('\n').filter(|line| !line.contains("tip: to pass '"));
    let text = lines.collect::<Vec<_>>().join("\n").replace("\n\n\n", "\n\n");
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    if let Some(line) = moved::today::<C>(&words.collect::<Vec<_>>()) {
        let first = text.lines().next().unwrap_or_default();
        errln!("{}\nhint: that is `{}` now", printable(first), printable(line));
        return ExitCode::from(WRONG_USAGE);
    }
    errln!("{}", printable(text.trim_end()));
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        errln!("hint: name one of these commands");
    } else if !text.contains("\nhint: ") {
        let (command, lists) = named::<C>(error.kind());
        errln!("hint: `{command} --help` lists {lists}");
    }
    ExitCode::from(WRONG_USAGE)
}

/// The (sub)command that the arguments name, and what its help lists.
fn named<C: CommandFactory>(kind: ErrorKind) -> (String, &'static str) {
    let mut command = &C::command();
    let mut words = vec![command.get_name().to_string()];
    for argument in std::env::args_os().skip(1) {
        let Some(sub) = command.find_subcommand(&argument) else { break };
        words.push(argument.to_string_lossy().into_owned());
        command = sub;
    }
    let lists = match kind {
        ErrorKind::InvalidSubcommand | ErrorKind::MissingSubcommand => "the commands",
        _ => "the options",
    };
    (words.join(" "), lists)
}
