// SPDX-License-Identifier: GPL-2.0-only
//! The page on disk: whole, or as it was.

use crate::errors::usage;
use anyhow::{anyhow, Result};
use paratick_bench::folder;
use std::{
    io::Read,
    path::{Path, PathBuf},
};

pub const OUTPUT: &str = "--output";

/// So much of a file tells whether it is a page.
const BEGINNING: u64 = 256;

/// Fails where the page of an option could not be written, or is something that should be kept.
pub fn check(path: &Path, option: &str, inputs: &[PathBuf]) -> Result<()> {
    let bad = |why: &str| {
        let what = if option == OUTPUT { "report" } else { "figure" };
        usage(format!(
            "cannot write the {what} to {}: {why}\n\
             hint: name another file with {option}, such as {what}.html",
            path.display()
        ))
    };
    if path.file_name().is_none() {
        return Err(bad("it has no file name"));
    }
    if inputs.iter().any(|input| same(input, path)) {
        return Err(bad("it is one of the results"));
    }
    if path == Path::new("-") {
        return Err(bad("a page is a file; it cannot go to standard output"));
    }
    // A rename puts a plain file in the place of a link or a device.
    if let Ok(there) = path.symlink_metadata() {
        if !there.is_file() {
            return Err(bad("it exists and is not a plain file"));
        }
        if there.len() > 0 && !is_page(path) {
            return Err(bad("it exists and is not a page that this command wrote"));
        }
    }
    if path.extension().is_none_or(|extension| extension != "html") {
        return Err(bad("it is a page, whose name ends with .html"));
    }
    match folder(path).is_dir() {
        true => Ok(()),
        false => Err(bad("there is no such folder")),
    }
}

pub fn same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    one == other || (other.exists() && real(one) == real(other))
}

fn is_page(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(BEGINNING).read_to_end(&mut beginning));
    read.is_ok() && paratick_view::is_page(&beginning)
}

/// Replaces the file at once, or leaves it as it was.
pub fn write(path: &Path, text: &str) -> Result<()> {
    paratick_bench::replace(path, text.as_bytes()).map_err(|error| {
        anyhow!(
            "writing the report to {}: {error}\n\
             hint: name a file in a folder you can write to with --output",
            path.display()
        )
    })
}
