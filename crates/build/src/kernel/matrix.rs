// SPDX-License-Identifier: GPL-2.0-only
//! Does the whole stack compile with other configurations, architectures and compilers?

use crate::{
    kernel::{
        answer::{Check, Outcome},
        base::{Base, Source},
        config, make, run,
        series::{Patch, Stack},
        source::{self, Followed},
        targets::Targets,
        warnings::{self, Warning},
    },
    progress::{Events, Step},
    requirements::{self, Missing},
};
use anyhow::{bail, Context, Result};
use serde::Deserialize;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

/// What its rows are called in what `check` says.
const SUBJECT: &str = "matrix";
/// More lines than these of one row are in its log only.
const MOST_FINDINGS: usize = 20;

/// W=1 has it look at each file.  What it says is the same in every row: [`Matrix::comments`].
const NO_KERNEL_DOC: &str = "cmd_checkdoc=";

/// One configuration of `kernel/matrix.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub name: String,
    /// What it is for.
    pub what: String,
    /// The kernel's `ARCH`.
    arch: String,
    /// A program: `gcc`, `clang`, or a cross compiler whose name ends in `-gcc`.
    compiler: String,
    /// Begin with the base's fragments, as the lab's image does?
    #[serde(default = "yes")]
    lab: bool,
    /// Further fragments of `kernel/config`.
    #[serde(default)]
    fragments: Vec<String>,
    /// Lines of its own; they win.
    #[serde(default)]
    config: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    row: Vec<Row>,
}

fn yes() -> bool {
    true
}

/// The rows that a checkout has.
pub fn rows(base: &str) -> Result<Vec<Row>> {
    read(&Base::in_checkout(base)?.dir.join("matrix.toml"))
}

fn read(path: &Path) -> Result<Vec<Row>> {
    let text = fs_err::read_to_string(path)?;
    let file: File =
        toml::from_str(&text).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(file.row)
}

impl Row {
    /// What `make` is told of architecture and compiler.
    fn variables(&self) -> Vec<String> {
        let compiler = match self.compiler.strip_suffix("gcc") {
            Some(prefix) => format!("CROSS_COMPILE={prefix}"),
            None => format!("CC={}", self.compiler),
        };
        vec![format!("ARCH={}", self.arch), compiler]
    }

    /// Where the architecture is in `arch/`.
    fn folder(&self) -> &str {
        match self.arch.as_str() {
            "i386" | "x86_64" => "x86",
            arch => arch,
        }
    }
}

/// The trees that rows are built in; each row has an object folder of its own in either.
pub struct Matrix<'a> {
    source: &'a Source,
    stack: &'a Stack,
    touched: BTreeSet<String>,
    tree: Followed,
}

/// What came of one build.
struct Built {
    errors: Vec<String>,
    /// Those that may be the stack's.
    warnings: BTreeSet<Warning>,
    /// Which files of the stack were compiled, now or before.
    compiled: usize,
}

impl<'a> Matrix<'a> {
    /// Applies the whole stack.  `known` are all rows there are: objects of others are removed.
    pub fn open(
        source: &'a Source,
        stack: &'a Stack,
        known: &[Row],
        events: Events,
    ) -> Result<Self> {
        let tree = Followed::open(source, "matrix", events)?;
        tree.follow(stack.patches())?;
        for entry in fs_err::read_dir(&tree.out)? {
            let entry = entry?;
            if !known.iter().any(|row| *row.name == *entry.file_name()) {
                fs_err::remove_dir_all(entry.path())?;
            }
        }
        let touched = stack.patches().flat_map(Patch::touched).collect();
        Ok(Matrix { source, stack, touched, tree })
    }

    pub fn check(&self, rows: &[Row], events: Events) -> Result<Vec<Check>> {
        let mut checks = vec![];
        for (index, row) in rows.iter().enumerate() {
            let outcome = match requirements::check_program(&row.compiler) {
                Ok(()) => {
                    let (number, of) = (index + 1, rows.len());
                    events(Step::CompilingRow { row: &row.name, number, of }.into());
                    self.row(row, events)?
                }
                Err(error) if error.is::<Missing>() => Outcome::Skipped(error.to_string()),
                Err(error) => return Err(error),
            };
            checks.push(check(row, outcome));
        }
        Ok(checks)
    }

    /// What the kernel's own reader of comments says about the files of the stack.
    pub fn comments(&self, events: Events) -> Result<Check> {
        events(Step::ReadingComments.into());
        let pristine = source::pristine(self.source, events)?;
        let before = kernel_doc(&pristine, &self.touched)?;
        let now = kernel_doc(&self.tree.src, &self.touched)?;
        let findings: Vec<_> = now.difference(&before).map(|one| one.line.clone()).collect();
        let outcome = match findings.is_empty() {
            true => Outcome::Passed("kernel-doc finds nothing that the base does not have".into()),
            false => Outcome::Failed(findings),
        };
        Ok(Check { subject: SUBJECT.into(), name: "comments".into(), outcome })
    }

    fn row(&self, row: &Row, events: Events) -> Result<Outcome> {
        let begun = Instant::now();
        let mut built = match self.build(&self.tree, row, &BTreeSet::new(), events) {
            Ok(built) => built,
            Err(error) => return Ok(Outcome::Failed(vec![format!("{error:#}")])),
        };
        let suspects = built.warnings.len();
        let mut findings = built.errors;
        if findings.is_empty() && suspects > 0 {
            events(Step::CompilingWithout { row: &row.name, warnings: suspects }.into());
            let base = match self.unpatched(row, events) {
                Ok(base) => base,
                Err(error) => return Ok(Outcome::Failed(vec![format!("{error:#}")])),
            };
            built.warnings.retain(|warning| !base.warnings.contains(warning));
            findings.extend(built.warnings.iter().map(|warning| warning.line.clone()));
            if !findings.is_empty() {
                findings.extend(base.errors.iter().map(|error| format!("the base alone: {error}")));
            }
        }
        if findings.is_empty() && built.compiled == 0 {
            findings.push("none of the stack's files was compiled".into());
        }
        if findings.is_empty() {
            let (compiled, seconds) = (built.compiled, begun.elapsed().as_secs());
            let warned = match suspects {
                0 => "no warning".to_owned(),
                known => format!("{known} warnings, all of which the base has, too"),
            };
            let what = format!("{compiled} files of the stack compile ({seconds} s; {warned})");
            return Ok(Outcome::Passed(what));
        }
        let more = findings.len().saturating_sub(MOST_FINDINGS);
        findings.truncate(MOST_FINDINGS);
        if more > 0 {
            findings.push(format!("… and {more} more"));
        }
        findings.push(format!("hint: the whole output is in {}", log(&self.tree, row).display()));
        Ok(Outcome::Failed(findings))
    }

    /// The base with the same configuration; its objects do not stay.
    fn unpatched(&self, row: &Row, events: Events) -> Result<Built> {
        let tree = Followed::open(self.source, "matrix-base", events)?;
        tree.follow([])?;
        let unknown = self.stack.patches().flat_map(Patch::new_symbols).collect();
        remove(&tree.out.join(&row.name))?;
        let built = self.build(&tree, row, &unknown, events);
        remove(&tree.out.join(&row.name))?;
        built.with_context(|| format!("{} without the stack", row.name))
    }

    fn build(
        &self,
        tree: &Followed,
        row: &Row,
        unknown: &BTreeSet<String>,
        events: Events,
    ) -> Result<Built> {
        let out = tree.out.join(&row.name);
        // The compiler warns when it makes an object, and never again: what is left of a build
        // that warned, or was interrupted, would pass the next time.
        let unclean = out.join("unclean");
        if unclean.exists() {
            remove(&out)?;
        }
        fs_err::create_dir_all(&out)?;
        fs_err::write(&unclean, "")?;
        let variables = row.variables();
        let fragments = self.fragments(row, &out)?;
        config::configure(&tree.src, &out, &variables, &fragments, unknown)?;

        let mut targets = Targets::default();
        for file in self.touched.iter().filter(|file| tree.src.join(file).exists()) {
            targets.add(file, row.folder());
        }
        // Not every architecture has a KVM.
        targets.folders.retain(|folder| tree.src.join(folder).is_dir());
        let mut make = make::command(&tree.src, &out);
        // All of what is wrong, not the first of it.
        make.args(variables).args(["W=1", NO_KERNEL_DOC, "-k"]).args(&targets.folders);
        let mut steps = make::Steps::new(None, events);
        let (mut errors, mut warned) = (vec![], BTreeSet::new());
        let log = log(tree, row);
        fs_err::write(&log, "")?;
        let made = run::logged(&make, &log, |line| {
            steps.line(line);
            if let Some(warning) = warnings::parse(line, &tree.src) {
                warned.insert(warning);
            } else if line.contains("error:") {
                errors.push(warnings::relative(line, &tree.src));
            }
        });
        if let (Err(error), true) = (made, errors.is_empty()) {
            errors.push(format!("{error:#}"));
        }
        warned.retain(|warning| warning.concerns(&self.touched));
        if errors.is_empty() && warned.is_empty() {
            fs_err::remove_file(&unclean)?;
        }
        let compiled = warnings::sources(&out, &targets.folders, &tree.src)?;
        let compiled = compiled.intersection(&self.touched).count();
        Ok(Built { errors, warnings: warned, compiled })
    }

    fn fragments(&self, row: &Row, out: &Path) -> Result<Vec<PathBuf>> {
        let base = &self.source.base;
        let mut fragments = if row.lab { base.config() } else { vec![] };
        fragments.extend(row.fragments.iter().map(|name| base.fragment(name)));
        let own = out.join("row.config");
        fs_err::write(&own, row.config.join("\n") + "\n")?;
        fragments.push(own);
        Ok(fragments)
    }
}

fn check(row: &Row, outcome: Outcome) -> Check {
    Check { subject: SUBJECT.into(), name: row.name.clone(), outcome }
}

/// Every row, for a reason that is all rows'.
pub fn skipped(rows: &[Row], why: &str) -> Vec<Check> {
    rows.iter().map(|row| check(row, Outcome::Skipped(why.into()))).collect()
}

fn kernel_doc(src: &Path, files: &BTreeSet<String>) -> Result<BTreeSet<Warning>> {
    let mut reader = Command::new("perl");
    make::clean_environment(&mut reader);
    reader.arg(src.join("scripts/kernel-doc")).arg("-none");
    for file in files.iter().filter(|file| file.ends_with(".c") || file.ends_with(".h")) {
        let path = src.join(file);
        if path.is_file() {
            reader.arg(path);
        }
    }
    // Its exit code is the number of errors, among which are the base's.
    let output = reader.output().context("cannot run perl for kernel-doc")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !said.lines().all(|line| line.contains(": warning: ") || line.contains("warnings")) {
        bail!("kernel-doc failed ({}): {said}", output.status);
    }
    Ok(said.lines().filter_map(|line| warnings::parse(line, src)).collect())
}

fn log(tree: &Followed, row: &Row) -> PathBuf {
    tree.log.with_file_name(format!("{}.log", row.name))
}

fn remove(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs_err::remove_dir_all(dir)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped() -> Vec<Row> {
        read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernel/matrix.toml"))).unwrap()
    }

    #[test]
    fn each_row_has_a_name_of_its_own_and_a_compiler_that_can_be_installed() {
        let rows = shipped();
        let names: BTreeSet<_> = rows.iter().map(|row| &row.name).collect();
        assert_eq!(names.len(), rows.len(), "{names:?}");
        let packages = requirements::packages().unwrap();
        for row in rows {
            assert!(packages.iter().any(|one| one.has_program(&row.compiler)), "{row:?}");
            assert!(!row.what.is_empty() && !row.name.contains('/'), "{row:?}");
            let lines = row.config.join("\n");
            assert_eq!(config::settings(&lines).len(), row.config.len(), "{row:?}");
        }
    }

    #[test]
    fn a_cross_compiler_and_clang_are_told_to_make_in_their_ways() {
        let variables = |compiler: &str| {
            let text = format!(
                "[[row]]\nname = \"x\"\nwhat = \"x\"\narch = \"arm64\"\n\
                 compiler = \"{compiler}\"\n"
            );
            let file: File = toml::from_str(&text).unwrap();
            file.row[0].variables()
        };
        assert_eq!(
            variables("aarch64-linux-gnu-gcc"),
            ["ARCH=arm64", "CROSS_COMPILE=aarch64-linux-gnu-"]
        );
        assert_eq!(variables("gcc"), ["ARCH=arm64", "CROSS_COMPILE="]);
        assert_eq!(variables("clang"), ["ARCH=arm64", "CC=clang"]);
    }
}
