// SPDX-License-Identifier: GPL-2.0-only
//! `paratick report`: results as one page to read.

mod output;

pub use output::check;

use output::OUTPUT;

use crate::{errors::usage, input, print::outln};
use anyhow::Result;
use paratick_view::Input;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Write a report of results: tables and figures in one self-contained HTML file
///
/// The page needs no network and no scripts, follows the reader's light or dark theme, and prints.
/// Its sections depend on the files; docs/report.md explains them.  The page's path
/// is printed.  Exit codes: 0 written, 2 an input is not a results file or the output cannot be
/// used, 69 the report could not be written.
#[derive(clap::Args)]
pub struct Args {
    /// Results that `paratick bench` wrote, and time lines, in any order
    #[arg(required = true, value_name = "RESULT")]
    results: Vec<PathBuf>,
    /// The page [default: the first RESULT's name with .html]
    #[arg(long, value_name = "FILE.html")]
    output: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let output = match &args.output {
        Some(output) => output.clone(),
        None if args.results[0].is_file() || !args.results[0].exists() => {
            args.results[0].with_extension("html")
        }
        None => {
            return Err(usage(format!(
                "{} is no plain file, after which the page could be named\n\
                 hint: name the page with --output, such as report.html",
                args.results[0].display()
            )))
        }
    };
    write(&args.results, &output)?;
    outln!("{}", output.display())?;
    Ok(ExitCode::SUCCESS)
}

pub fn write(files: &[PathBuf], output: &Path) -> Result<()> {
    check(output, OUTPUT, files)?;
    let mut read_files = Vec::new();
    for (number, path) in files.iter().enumerate() {
        if files[..number].iter().any(|other| output::same(other, path)) {
            return Err(usage(format!(
                "{} is named twice\nhint: name every file once",
                path.display()
            )));
        }
        read_files.push((path.display().to_string(), input::results("report on", path)?));
    }
    output::write(output, &paratick_view::html(&Input::of(read_files))?)
}
