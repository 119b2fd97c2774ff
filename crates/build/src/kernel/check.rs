// SPDX-License-Identifier: GPL-2.0-only
//! `paratick kernel check`: is the series as one would send it?

use crate::{
    kernel::{
        base::{Base, Source},
        compile::Compiler,
        git::Git,
        series::{self, Patch, Series, COVER_LETTER},
        source,
    },
    progress::{Event, Events},
    repo,
};
use anyhow::{Context, Result};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// With what was looked at.
    Passed(String),
    /// With every finding.
    Failed(Vec<String>),
    /// With the reason; never counts as passed.
    Skipped(String),
}

/// One question and its answer.
#[derive(Debug, Clone)]
pub struct Check {
    pub name: &'static str,
    pub outcome: Outcome,
}

/// Both folders of a base, and where to look at them.
struct Subject {
    base: Base,
    series: Series,
    lab: Series,
    pristine: PathBuf,
}

/// Checks the series of `base`; `quick` leaves out compiling.
pub fn check(base: &str, quick: bool, events: Events) -> Result<Vec<Check>> {
    let base = Base::load(base)?;
    let folders = [base.patches()?, base.lab_patches()?];
    let mut checks = vec![answer(
        "files",
        folder_findings(&folders)?,
        "series and files agree",
    )];
    if matches!(checks[0].outcome, Outcome::Failed(_)) {
        // The other questions are about patches that cannot be told apart yet.
        return Ok(checks);
    }
    let source = base.source(events)?;
    let subject = Subject {
        series: Series::read(&folders[0])?,
        lab: Series::read(&folders[1])?,
        pristine: source::pristine(&source, events)?,
        base,
    };
    if subject.patches().next().is_none() {
        let none = Outcome::Skipped(format!("there is no patch for {}", subject.base.name));
        checks.push(Check {
            name: "patches",
            outcome: none,
        });
        return Ok(checks);
    }
    let count = subject.patches().count();
    events(Event::Step(format!(
        "applying {count} patches and writing them again"
    )));
    checks.push(answer(
        "round trip",
        subject.round_trip()?,
        "apply exactly, and come out byte-identical",
    ));
    events(Event::Step("running checkpatch.pl --strict".into()));
    checks.push(answer(
        "checkpatch",
        subject.checkpatch()?,
        &format!("--strict clean in {count} patches"),
    ));
    let outcome = if quick {
        Outcome::Skipped("--quick was given".into())
    } else if matches!(checks[1].outcome, Outcome::Failed(_)) {
        Outcome::Skipped("the patches do not apply".into())
    } else {
        compile(&subject, &source, events)?
    };
    checks.push(Check {
        name: "compile",
        outcome,
    });
    Ok(checks)
}

fn answer(name: &'static str, findings: Vec<String>, passed: &str) -> Check {
    let outcome = if findings.is_empty() {
        Outcome::Passed(passed.into())
    } else {
        Outcome::Failed(findings)
    };
    Check { name, outcome }
}

fn folder_findings(folders: &[PathBuf; 2]) -> Result<Vec<String>> {
    let mut findings = vec![];
    for dir in folders {
        let tell = |text| format!("{}: {text}", dir.display());
        findings.extend(series::disagreements(dir)?.into_iter().map(tell));
    }
    let [patches, _] = folders;
    if patches.join(series::LIST).exists() && !patches.join(COVER_LETTER).exists() {
        findings.push(format!("{}: there is no {COVER_LETTER}", patches.display()));
    }
    Ok(findings)
}

fn compile(subject: &Subject, source: &Source, events: Events) -> Result<Outcome> {
    let patches: Vec<_> = subject.patches().cloned().collect();
    let mut compiler = Compiler::new(source, patches, events)?;
    let findings = compiler.every_patch(events)?;
    Ok(if findings.is_empty() {
        Outcome::Passed(compiler.summary())
    } else {
        Outcome::Failed(findings)
    })
}

impl Subject {
    fn patches(&self) -> impl Iterator<Item = &Patch> {
        self.series.patches.iter().chain(&self.lab.patches)
    }

    /// Applies all patches in a repository of just the files that they touch, and writes them again.
    fn round_trip(&self) -> Result<Vec<String>> {
        let scratch = tempfile::tempdir().context("no place for a scratch repository")?;
        let tree = scratch.path().join("tree");
        let touched: BTreeSet<_> = self.patches().flat_map(Patch::touched).collect();
        // .gitattributes chooses the function names in hunk headers.
        for file in touched.iter().map(String::as_str).chain([".gitattributes"]) {
            source::copy_if_there(&self.pristine.join(file), &tree.join(file))?;
        }
        fs_err::create_dir_all(&tree)?;
        let git = Git::at(&tree);
        git.init("base")?;
        let mut from = "base".to_owned();
        for series in [&self.series, &self.lab] {
            for patch in &series.patches {
                if let Err(error) = git.am(&patch.path) {
                    return Ok(vec![format!("{}: {error:#}", patch.name)]);
                }
            }
            let out = scratch.path().join(format!("out-{from}"));
            let written = git.format_patch(&format!("{from}..HEAD"), &out)?;
            let findings = differences(series, &written, &out)?;
            if !findings.is_empty() {
                return Ok(findings);
            }
            from = git.run(["rev-parse", "HEAD"])?;
        }
        Ok(vec![])
    }

    fn checkpatch(&self) -> Result<Vec<String>> {
        let scratch = tempfile::tempdir().context("no place for checkpatch's cache")?;
        let ignored = ignored_types()?.join(",");
        let mut findings = vec![];
        for patch in self.patches() {
            let output = Command::new("perl")
                .arg(self.pristine.join("scripts/checkpatch.pl"))
                .arg("--root")
                .arg(&self.pristine)
                .args([
                    "--strict",
                    "--terse",
                    "--show-types",
                    "--no-summary",
                    "--color=never",
                    "--quiet",
                ])
                .arg(format!("--ignore={ignored}"))
                .arg(&patch.path)
                // It writes a cache where it runs, and reads settings from HOME.
                .current_dir(scratch.path())
                .env("HOME", scratch.path())
                .output()
                .context("cannot run perl for checkpatch.pl")?;
            let said = String::from_utf8_lossy(&output.stdout);
            let dir = format!(
                "{}/",
                patch.path.parent().unwrap_or(Path::new("")).display()
            );
            findings.extend(said.lines().map(|line| line.replace(&dir, "")));
            if !output.status.success() && said.trim().is_empty() {
                let error = String::from_utf8_lossy(&output.stderr);
                anyhow::bail!(
                    "checkpatch.pl failed on {} ({}): {error}",
                    patch.name,
                    output.status
                );
            }
        }
        Ok(findings)
    }
}

fn differences(series: &Series, written: &[String], out: &Path) -> Result<Vec<String>> {
    let names: Vec<_> = series.patches.iter().map(|patch| &patch.name).collect();
    if names != written.iter().collect::<Vec<_>>() {
        return Ok(vec![format!(
            "git would name the patches {written:?}, they are {names:?}"
        )]);
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
    Ok(
        fs_err::read_to_string(repo::root()?.join("kernel/checkpatch.ignore"))?
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_whitespace().next())
            .map(str::to_owned)
            .collect(),
    )
}
