// SPDX-License-Identifier: GPL-2.0-only
//! Standard output and error, of whose readers (`head`, a pager) nobody knows how much they want.

use anyhow::{anyhow, Result};
use serde::Serialize;
use std::{
    fmt::{Arguments, Display},
    io::{self, stderr, stdout, BufWriter, ErrorKind, Write},
};

/// Like `print!`, but a reader that has gone away is no error: what is left to do is done, and the
/// exit code says how that went.  Errors: whatever else keeps standard output from taking the text.
macro_rules! out {
    ($($argument:tt)*) => { $crate::print::write(format_args!($($argument)*)) };
}

/// The same with a line's end, like `println!`.
macro_rules! outln {
    ($($argument:tt)*) => {
        $crate::print::write(format_args!("{}\n", format_args!($($argument)*)))
    };
}

/// Like `errln!`, but never a panic: nobody is left to be told of a failure.
macro_rules! errln {
    ($($argument:tt)*) => { $crate::print::write_error(format_args!($($argument)*)) };
}

pub(crate) use {errln, out, outln};

/// Whoever read the output has gone away while a command still makes more.
#[derive(Debug, thiserror::Error)]
#[error("nobody reads standard output any more")]
pub struct ReaderGone;

pub fn write(text: Arguments) -> Result<()> {
    written(stdout().lock().write_all(printable(text).as_bytes()))
}

/// A document for programs, written as it is made: some are large.
pub fn json(value: &impl Serialize) -> Result<()> {
    let mut to = Printable(BufWriter::new(stdout().lock()));
    let made = serde_json::to_writer_pretty(&mut to, value).map_err(io::Error::from);
    written(made.and_then(|()| to.0.write_all(b"\n")).and_then(|()| to.0.flush()))
}

fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| {
            anyhow!("cannot write to standard output: {error}\nhint: is its disk full?")
        }),
    }
}

/// Takes whole pieces of text.
struct Printable<W>(W);

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(text) {
            Ok(text) if text.chars().any(steers) => self.0.write_all(printable(text).as_bytes())?,
            _ => self.0.write_all(text)?,
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

pub fn write_error(text: Arguments) {
    let _ = stderr().lock().write_all(format!("{text}\n").as_bytes());
}

/// Passes output through as it comes, to its end.  Errors: [`ReaderGone`], and what keeps `to` from
/// taking it.
pub fn pass_on(mut to: impl Write, bytes: &[u8]) -> Result<()> {
    match to.write_all(bytes).and_then(|()| to.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        other => Ok(other?),
    }
}

fn steers(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
}

/// With control characters escaped as JSON does: names come from files, which others may have made,
/// and must not steer the terminal.
pub fn printable(text: impl Display) -> String {
    let mut shown = String::new();
    for c in text.to_string().chars() {
        match steers(c) {
            true => shown += &format!("\\u{:04x}", u32::from(c)),
            false => shown.push(c),
        }
    }
    shown
}
