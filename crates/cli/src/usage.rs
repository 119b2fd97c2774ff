// SPDX-License-Identifier: GPL-2.0-only
//! What the user got wrong, as opposed to what could not be run: the two have exit codes of their
//! own.

use std::process::ExitCode;

/// What could not be run (sysexits' EX_UNAVAILABLE), as opposed to 1: it ran, and the answer is no.
pub const COULD_NOT_RUN: u8 = 69;

/// As clap exits.
const WRONG_USAGE: u8 = 2;

/// Options that do not go together: the user's mistake, found after parsing.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// A wrong combination of options, which only shows once they are all known.
pub fn usage(message: impl Into<String>) -> anyhow::Error {
    Usage(message.into()).into()
}

pub fn exit_code(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(match error.is::<Usage>() {
        true => WRONG_USAGE,
        false => COULD_NOT_RUN,
    })
}
