// SPDX-License-Identifier: GPL-2.0-only
//! Standard output, of whose reader (`head`, a pager) nobody knows how much it wants.

use anyhow::{anyhow, Result};
use std::{
    fmt::{Arguments, Display},
    io::{stdout, ErrorKind, Write},
};

/// Like `print!`, but a reader that has gone away is no error: what is left to do is done, and the
/// exit code says how that went.  Errors: whatever else keeps standard output from taking the text.
macro_rules! out {
    ($($argument:tt)*) => { $crate::stdout::write(format_args!($($argument)*)) };
}

/// The same with a line's end, like `println!`.
macro_rules! outln {
    ($($argument:tt)*) => { $crate::stdout::write(format_args!("{}\n", format_args!($($argument)*))) };
}

pub(crate) use {out, outln};

pub fn write(text: Arguments) -> Result<()> {
    match stdout().lock().write_all(printable(text).as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| {
            anyhow!("cannot write to standard output: {error}\nhint: is there room where it goes?")
        }),
    }
}

/// With control characters escaped as JSON does: names come from files, which others may have made,
/// and must not steer the terminal.
pub fn printable(text: impl Display) -> String {
    let mut shown = String::new();
    for c in text.to_string().chars() {
        match c.is_control() && !matches!(c, '\n' | '\t') {
            true => shown += &format!("\\u{:04x}", u32::from(c)),
            false => shown.push(c),
        }
    }
    shown
}
