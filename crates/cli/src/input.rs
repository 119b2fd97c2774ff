// SPDX-License-Identifier: GPL-2.0-only
//! Files that the user names.

use crate::{errors::usage, print::errln};
use anyhow::{anyhow, Context, Result};
use paratick_core::results::{self, Results};
use serde::{de::DeserializeOwned, Serialize};
use std::{fmt::Display, path::Path};

/// What `paratick VERB` cannot do with a file.
pub fn wrong(verb: &str, file: &Path, why: impl Display) -> anyhow::Error {
    usage(format!("cannot {verb} {}: {why}", file.display()))
}

/// The text of a file; `what` it should be ends the hint.
pub fn text(verb: &str, file: &Path, what: &str) -> Result<String> {
    match std::fs::read(file) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => Err(wrong(verb, file, format!("{error}\nhint: give {what}"))),
    }
}

/// A results file of any version, by today's rules.
pub fn results(verb: &str, file: &Path) -> Result<Results> {
    let text = text(verb, file, "a file that `paratick bench` wrote")?;
    let mut results = results::read(&text).map_err(|error| wrong(verb, file, error))?;
    results.summarize();
    Ok(results)
}

pub fn check_writable(file: &Path) -> Result<()> {
    paratick_bench::check_writable(file).map_err(|error| usage(error.to_string()))
}

/// A recording of what, and which command wrote it with --save.
#[derive(Clone, Copy)]
pub struct Kind {
    pub verb: &'static str,
    pub of: &'static str,
    pub command: &'static str,
}

impl Kind {
    pub fn read<T: DeserializeOwned>(self, file: &Path) -> Result<T> {
        let text = text(self.verb, file, &self.what())?;
        serde_json::from_str(&text).map_err(|error| self.wrong(file, error))
    }

    pub fn wrong(self, file: &Path, why: impl Display) -> anyhow::Error {
        let (of, what) = (self.of, self.what());
        wrong(self.verb, file, format!("it is no recording of {of}: {why}\nhint: give {what}"))
    }

    /// Of a recording that cannot be reckoned with.
    pub fn damaged(self, file: &Path) -> anyhow::Error {
        wrong(self.verb, file, DAMAGED)
    }

    fn what(self) -> String {
        format!("a file that `paratick {} --save FILE` wrote", self.command)
    }
}

pub const DAMAGED: &str = "it is damaged: some of its numbers cannot be\nhint: record again";

/// Why it is no recording of two sides.
pub const NO_SIDE: &str = "it has neither a guest's side nor a host's";

/// A figure replaces a figure, and nothing else.
pub fn check_figure(file: &Path) -> Result<()> {
    check_writable(file)?;
    match std::fs::read(file) {
        Ok(there) if !there.is_empty() && !there.starts_with(b"<svg") => Err(usage(format!(
            "cannot draw to {}: it exists and is no figure\n\
             hint: name another file with --figure, such as figure.svg",
            file.display()
        ))),
        _ if file.extension().is_none_or(|extension| extension != "svg") => Err(usage(format!(
            "cannot draw to {}: a figure is an SVG\nhint: name a file such as figure.svg",
            file.display()
        ))),
        _ => Ok(()),
    }
}

/// Writes a file that the user has named, or leaves the one that is there.
pub fn put(file: &Path, bytes: &[u8]) -> Result<()> {
    paratick_bench::replace(file, bytes).map_err(|error| {
        anyhow!(
            "cannot write {}: {error:#}\nhint: make room there, or name another file",
            file.display()
        )
    })
}

/// Writes a recording where `--save` says.
pub fn keep(file: &Path, recorded: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(recorded).context("a recording is plain data")?;
    put(file, text.as_bytes())?;
    errln!("recording: {}", file.display());
    Ok(())
}
