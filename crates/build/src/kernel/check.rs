// SPDX-License-Identifier: GPL-2.0-only
//! `paratick kernel check`: is every series as one would send it?

use crate::{
    kernel::{
        answer::{Check, Outcome},
        base::{Base, Source},
        compile::Compiler,
        git::Git,
        matrix::{self, Matrix},
        series::{self, Folder, Patch, Series, Stack, COVER_LETTER},
        source,
    },
    progress::{Events, Step},
    project,
};
use anyhow::{Context, Result};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// Checks every series of the stack of `base`, from the bottom up, and then the whole stack with
/// each row of the matrix; `quick` leaves out compiling.
pub fn check(base: &str, quick: bool, events: Events) -> Result<Vec<Check>> {
    let base = Base::in_checkout(base)?;
    let folders = base.stack();
    let files: Vec<_> = folders.iter().map(files).collect::<Result<_>>()?;
    if files.iter().any(|check| check.outcome.failed()) {
        // The other questions are about patches that cannot be told apart yet.
        return Ok(files);
    }
    let source = base.source(events)?;
    let stack = Stack::read(folders)?;
    let mut checker = Checker::new(&source, &stack, quick, events)?;
    let mut checks = vec![];
    for (files, series) in files.into_iter().zip(&stack.0) {
        checks.push(files);
        checks.extend(checker.series(series, events)?);
    }
    if !quick {
        let rows = matrix::rows(&base.name)?;
        match &checker.trip {
            Ok(_) => {
                let matrix = Matrix::open(&source, &stack, &rows, events)?;
                checks.push(matrix.comments(events)?);
                checks.extend(matrix.check(&rows, events)?);
            }
            Err(why) => checks.extend(matrix::skipped(&rows, why)),
        }
    }
    Ok(checks)
}

/// Checks the whole stack with the rows of the matrix that have these names, and nothing else.
pub fn check_rows(base: &str, names: &[String], events: Events) -> Result<Vec<Check>> {
    let rows = matrix::rows(base)?;
    let base = Base::in_checkout(base)?;
    let source = base.source(events)?;
    let stack = Stack::read(base.stack())?;
    let matrix = Matrix::open(&source, &stack, &rows, events)?;
    let wanted: Vec<_> = rows.into_iter().filter(|row| names.contains(&row.name)).collect();
    matrix.check(&wanted, events)
}

/// Goes up the stack.  A step that cannot go on, or was not asked for, is the reason why.
struct Checker {
    pristine: PathBuf,
    trip: Result<RoundTrip, String>,
    compiler: Result<Compiler, String>,
    /// How many patches of the stack are done.
    done: usize,
}

impl Check {
    fn of(folder: &Folder, name: &'static str, outcome: Outcome) -> Self {
        Check { subject: folder.name.clone(), name: name.into(), outcome }
    }
}

impl Checker {
    fn new(source: &Source, stack: &Stack, quick: bool, events: Events) -> Result<Self> {
        let pristine = source::pristine(source, events)?;
        let patches = || stack.patches().cloned().collect();
        Ok(Checker {
            trip: Ok(RoundTrip::begin(stack, &pristine)?),
            compiler: match quick {
                true => Err("--quick was given".into()),
                false => Ok(Compiler::new(source, patches(), events)?),
            },
            pristine,
            done: 0,
        })
    }

    fn series(&mut self, series: &Series, events: Events) -> Result<Vec<Check>> {
        let Series { folder, patches } = series;
        let range = self.done..self.done + patches.len();
        self.done = range.end;
        if patches.is_empty() {
            let none = Outcome::Skipped("there is none yet".into());
            return Ok(vec![Check::of(folder, "patches", none)]);
        }
        let name = &folder.name;
        events(Step::CheckingRoundTrip { series: name }.into());
        let trip = match &mut self.trip {
            Ok(trip) => {
                answer(trip.series(series)?, "applies exactly, and comes out byte-identical")
            }
            Err(why) => Outcome::Skipped(why.clone()),
        };
        if trip.failed() {
            let why = format!("the round trip of {} failed", folder.name);
            if self.compiler.is_ok() {
                self.compiler = Err(why.clone());
            }
            self.trip = Err(why);
        }
        events(Step::CheckingStyle { series: name }.into());
        let style = answer(checkpatch(patches, &self.pristine)?, "--strict is clean");
        let compiled = match &self.compiler {
            Ok(compiler) => match compiler.series(range, events)? {
                Ok(what) => Outcome::Passed(what),
                Err(findings) => Outcome::Failed(findings),
            },
            Err(why) => Outcome::Skipped(why.clone()),
        };
        if compiled.failed() {
            self.compiler = Err(format!("{} does not compile", folder.name));
        }
        let outcomes = [("round trip", trip), ("checkpatch", style), ("compile", compiled)];
        let checks = outcomes.map(|(name, outcome)| Check::of(folder, name, outcome));
        Ok(checks.into())
    }
}

fn answer(findings: Vec<String>, passed: &str) -> Outcome {
    if findings.is_empty() {
        Outcome::Passed(passed.into())
    } else {
        Outcome::Failed(findings)
    }
}

fn files(folder: &Folder) -> Result<Check> {
    let mut findings = series::disagreements(&folder.dir)?;
    let count = series::listed(&folder.dir)?.len();
    // One patch needs no letter, and what is not mailed neither.
    if folder.mailed && count > 1 {
        let letter = folder.dir.join(COVER_LETTER);
        if !letter.exists() {
            findings.push(format!("there is no {COVER_LETTER}"));
        } else if !is_numbered(&fs_err::read_to_string(letter)?, count) {
            let number = letter_number(count);
            findings
                .push(format!("{COVER_LETTER}: its subject should be numbered [PATCH{number}]"));
        }
    }
    let outcome = answer(findings, "series and files agree");
    Ok(Check::of(folder, "files", outcome))
}

/// Does the first line say how many patches follow?
fn is_numbered(letter: &str, count: usize) -> bool {
    let number = format!("{}]", letter_number(count));
    letter.lines().next().is_some_and(|line| line.contains(&number))
}

/// As git does it: ` 0/9` or ` 00/10`.
fn letter_number(count: usize) -> String {
    let last = count.to_string();
    format!(" {}/{last}", "0".repeat(last.len()))
}

/// A repository of just the files that the stack touches.
struct RoundTrip {
    scratch: TempDir,
    git: Git,
    from: String,
}

impl RoundTrip {
    fn begin(stack: &Stack, pristine: &Path) -> Result<Self> {
        let scratch = tempfile::tempdir().context("no place for a scratch repository")?;
        let tree = scratch.path().join("tree");
        let touched: BTreeSet<_> = stack.patches().flat_map(Patch::touched).collect();
        // .gitattributes chooses the function names in hunk headers.
        for file in touched.iter().map(String::as_str).chain([".gitattributes"]) {
            source::copy_if_there(&pristine.join(file), &tree.join(file))?;
        }
        fs_err::create_dir_all(&tree)?;
        let git = Git::at(&tree);
        git.init("base")?;
        let from = "base".to_owned();
        Ok(RoundTrip { scratch, git, from })
    }

    /// Applies the next series and writes it again; returns how it differs.
    fn series(&mut self, series: &Series) -> Result<Vec<String>> {
        for patch in &series.patches {
            if let Err(error) = self.git.am(&patch.path) {
                return Ok(vec![format!("{}: {error:#}", patch.name)]);
            }
        }
        let out = self.scratch.path().join(&series.folder.name);
        let written = self.git.format_patch((&self.from, "HEAD"), None, &out)?;
        self.from = self.git.run(["rev-parse", "HEAD"])?;
        differences(series, &written, &out)
    }
}

fn checkpatch(patches: &[Patch], pristine: &Path) -> Result<Vec<String>> {
    let scratch = tempfile::tempdir().context("no place for checkpatch's cache")?;
    let ignored = ignored_types()?.join(",");
    let mut findings = vec![];
    for patch in patches {
        let output = Command::new("perl")
            .arg(pristine.join("scripts/checkpatch.pl"))
            .arg("--root")
            .arg(pristine)
            .args(["--strict", "--terse", "--show-types", "--no-summary"])
            .args(["--color=never", "--quiet"])
            .arg(format!("--ignore={ignored}"))
            .arg(&patch.path)
            // It writes a cache where it runs, and reads settings from HOME.
            .current_dir(scratch.path())
            .env("HOME", scratch.path())
            .output()
            .context("cannot run perl for checkpatch.pl")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let dir = format!("{}/", patch.path.parent().unwrap_or(Path::new("")).display());
        findings.extend(said.lines().map(|line| line.replace(&dir, "")));
        if !output.status.success() && said.trim().is_empty() {
            let error = String::from_utf8_lossy(&output.stderr);
            anyhow::bail!("checkpatch.pl failed on {} ({}): {error}", patch.name, output.status);
        }
    }
    Ok(findings)
}

fn differences(series: &Series, written: &[String], out: &Path) -> Result<Vec<String>> {
    let names: Vec<_> = series.patches.iter().map(|patch| &patch.name).collect();
    if names != written.iter().collect::<Vec<_>>() {
        return Ok(vec![format!("git would name the patches {written:?}, they are {names:?}")]);
    }
    let mut findings = vec![];
    for patch in &series.patches {
        let again = out.join(&patch.name);
        if fs_err::read(&patch.path)? != fs_err::read(&again)? {
            let mut diff = Command::new("diff");
            diff.args(["-u", "--label", "kept", "--label", "written again"])
                .arg(&patch.path)
                .arg(&again);
            let shown = diff.output().context("cannot run diff")?;
            let text = String::from_utf8_lossy(&shown.stdout).into_owned();
            findings.push(format!("{}: written again it differs:\n{text}", patch.name));
        }
    }
    Ok(findings)
}

/// First words of the lines in `kernel/checkpatch.ignore`; the rest of a line is the reason.
fn ignored_types() -> Result<Vec<String>> {
    Ok(fs_err::read_to_string(project::checkout()?.join("kernel/checkpatch.ignore"))?
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect())
}
