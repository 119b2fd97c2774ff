// SPDX-License-Identifier: GPL-2.0-only
//! `paratick compare`: what changed from one results file to another.

use crate::{
    errors::usage,
    input,
    options::{refuse, Format},
};
use anyhow::{bail, Result};
use clap::ValueEnum;
use paratick_core::{
    compare::{self, Gates, Outcome, Report},
    results::Figure,
    stats::MIN_VERDICT,
};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Show what changed from one results file to another
///
/// A change is significant, large enough to matter, and beyond the noise; docs/comparing.md says
/// how each is decided.  Exit codes: 0 the files were compared, 1 with --fail-on and such a change,
/// 2 wrong usage, a file that cannot be read, or nothing in common, 69 with --fail-on and too
/// little measured to conclude anything.
#[derive(clap::Args)]
pub struct Args {
    /// Results before the change
    #[arg(value_name = "BEFORE.json")]
    before: PathBuf,
    /// Results after the change
    #[arg(value_name = "AFTER.json")]
    after: PathBuf,
    /// A smaller relative change is noise, in percent
    #[arg(long, value_name = "PERCENT", value_parser = percent,
        default_value_t = 100.0 * compare::DEFAULT_NOISE)]
    threshold: f64,
    /// A smaller change of this figure does not matter, such as exits=25 or duration_ns=100000
    #[arg(long, value_name = "FIGURE=N", value_parser = minimum)]
    minimum: Vec<(Figure, f64)>,
    /// Exit with 1 if a figure grew, or if any figure changed
    #[arg(long, value_enum, value_name = "more|any")]
    fail_on: Option<FailOn>,
    /// Also show what did not change, with the gate that stopped it
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// More exits, instructions or time than before
    More,
    /// Any change
    Any,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    if args.format.is_json() {
        refuse(&["verbose"], "with --format json, which has all")?;
    }
    let gates = args.gates();
    let read = |file: &Path| input::results("compare", file);
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let report = compare::compare(&before, &after, &gates);
    if report.figures().all(|(_, figure)| figure.outcome == Outcome::NotMeasured) {
        return Err(usage(nothing_in_common(args, &report)));
    }
    let files = (args.before.as_path(), args.after.as_path());
    let text = || paratick_view::compare::text(&report, files, args.verbose);
    args.format.print(&report, text)?;
    match args.fail_on {
        Some(_) if !report.concludes() => bail!(
            "no figure allows a conclusion, so --fail-on has no answer\n\
             hint: measure both with at least {MIN_VERDICT} rounds"
        ),
        Some(fail_on) if fail_on.matches(&report) => Ok(ExitCode::FAILURE),
        _ => Ok(ExitCode::SUCCESS),
    }
}

impl Args {
    fn gates(&self) -> Gates {
        let mut gates = Gates { noise: self.threshold / 100.0, ..Gates::default() };
        gates.sizes.extend(self.minimum.iter().copied());
        gates
    }
}

impl FailOn {
    fn matches(self, report: &Report) -> bool {
        let less = self == FailOn::Any && report.count(Outcome::Less) > 0;
        less || report.count(Outcome::More) > 0
    }
}

fn nothing_in_common(args: &Args, report: &Report) -> String {
    let what = format!(
        "{} and {} have no workload in common that did the same in the same mode, and was counted",
        args.before.display(),
        args.after.display()
    );
    match report.unlike.first() {
        Some(unlike) => format!(
            "{what}: {} {}\nhint: measure both with the same workloads, amounts of work and vCPUs",
            unlike.name, unlike.why
        ),
        None => format!(
            "{what}\nhint: `paratick bench show FILE` shows what a file holds; measure both with \
             the same --modes and workloads"
        ),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err("give a percentage of 0 or more, such as 3".into()),
    }
}

fn minimum(text: &str) -> Result<(Figure, f64), String> {
    let figures = || Figure::COMPARED.map(|figure| figure.to_string()).join(", ");
    let (name, number) =
        text.split_once('=').ok_or("give a figure and a number, such as exits=25")?;
    let figure = name.parse::<Figure>().ok();
    let figure = figure
        .filter(|figure| Figure::COMPARED.contains(figure))
        .ok_or_else(|| format!("'{name}' is not compared; these are: {}", figures()))?;
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok((figure, number)),
        _ => Err(format!("'{number}' is not a number of 0 or more")),
    }
}
