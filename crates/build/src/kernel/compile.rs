// SPDX-License-Identifier: GPL-2.0-only
//! Does every patch compile what it touches, with the ones after it still missing?

use crate::{
    kernel::{
        base::{Base, Source},
        config, make, run,
        series::Patch,
        source::Followed,
        targets::Targets,
    },
    progress::{Events, Step},
};
use anyhow::Result;
use std::{
    collections::BTreeSet,
    ops::Range,
    path::{Path, PathBuf},
    process::Command,
};

/// Compiles the objects of a stack, patch by patch, in an object folder for each configuration: a
/// symbol that goes off and on again would have most of the kernel compiled anew.
pub struct Compiler {
    base: Base,
    tree: Followed,
    patches: Vec<Patch>,
}

#[derive(Debug, Default)]
struct Done {
    compiled: BTreeSet<String>,
    passes: Vec<String>,
}

impl Compiler {
    /// For `patches`, the whole stack of the base.
    pub fn new(source: &Source, patches: Vec<Patch>, events: Events) -> Result<Self> {
        let tree = Followed::open(source, "check", events)?;
        fs_err::write(&tree.log, "")?;
        let base = source.base.clone();
        Ok(Compiler { base, tree, patches })
    }

    /// Compiles the patches of one series, `range` of the stack, on top of those below: once with
    /// the lab's configuration, and once more for each symbol of the stack so far with that
    /// turned off.  Returns what was done, or every finding.
    pub fn series(
        &self,
        range: Range<usize>,
        events: Events,
    ) -> Result<Result<String, Vec<String>>> {
        let mut done = Done::default();
        let mut findings = vec![];
        findings.extend(self.pass(range.clone(), None, &mut done, events)?);
        for index in 0..range.end {
            for symbol in self.patches[index].new_symbols() {
                let from = index.max(range.start);
                findings.extend(self.pass(from..range.end, Some(&symbol), &mut done, events)?);
            }
        }
        if !findings.is_empty() {
            return Ok(Err(findings));
        }
        Ok(Ok(format!(
            "each patch compiles what it touches ({} files; {})",
            done.compiled.len(),
            done.passes.join("; ")
        )))
    }

    /// `off` is a configuration symbol (without `CONFIG_`) to turn off.  Returns what is wrong.
    fn pass(
        &self,
        range: Range<usize>,
        off: Option<&str>,
        done: &mut Done,
        events: Events,
    ) -> Result<Option<String>> {
        let name = match off {
            Some(symbol) => format!("CONFIG_{symbol}=n"),
            None => "the lab's configuration".to_owned(),
        };
        let out = self.out(off);
        let mut symbols_seen = None;
        for count in range.start + 1..=range.end {
            let patch = &self.patches[count - 1];
            events(Step::CompilingPatch { patch: &patch.name, off }.into());
            self.tree.follow(&self.patches[..count])?;
            let unknown = self.symbols(count..self.patches.len());
            if symbols_seen.as_ref() != Some(&unknown) {
                if !self.configure(off, &out, &unknown)? {
                    // Something selects it: there is no such configuration.
                    done.passes.push(format!("{name} cannot be chosen"));
                    return Ok(None);
                }
                symbols_seen = Some(unknown);
            }
            let targets = self.targets(count);
            if let Err(error) = self.compile(&targets, &out) {
                return Ok(Some(format!("{} does not compile with {name}: {error:#}", patch.name)));
            }
            done.compiled.extend(targets.folders);
            done.compiled.extend(targets.selftests);
        }
        done.passes.push(name);
        Ok(None)
    }

    fn out(&self, off: Option<&str>) -> PathBuf {
        match off {
            Some(symbol) => self.tree.out.with_file_name(format!("out-without-{symbol}")),
            None => self.tree.out.clone(),
        }
    }

    fn symbols(&self, patches: Range<usize>) -> BTreeSet<String> {
        self.patches[patches].iter().flat_map(Patch::new_symbols).collect()
    }

    /// False when `off` cannot be turned off.
    fn configure(&self, off: Option<&str>, out: &Path, unknown: &BTreeSet<String>) -> Result<bool> {
        let mut fragments = self.base.config();
        let mut unknown = unknown.clone();
        if let Some(symbol) = off {
            let fragment = out.with_extension("config");
            fs_err::write(&fragment, format!("CONFIG_{symbol}=n\n"))?;
            fragments.push(fragment);
            // What depends on it goes with it.
            unknown.extend(self.symbols(0..self.patches.len()));
        }
        config::configure(&self.tree.src, out, &[], &fragments, &unknown)?;
        let got = config::settings(&fs_err::read_to_string(out.join(".config"))?);
        Ok(off.is_none_or(|symbol| {
            got.get(&format!("CONFIG_{symbol}")).is_none_or(|value| value == "n")
        }))
    }

    /// What the last of the first `count` patches touches.  A header can break any user of it:
    /// then everything that the stack compiles so far is compiled again.
    fn targets(&self, count: usize) -> Targets {
        let touched = self.patches[count - 1].touched();
        let wide = touched.iter().any(|file| file.ends_with(".h") || file.contains("Kconfig"));
        let from = if wide { 0 } else { count - 1 };
        let mut targets = Targets::default();
        for file in self.patches[from..count].iter().flat_map(Patch::touched) {
            if self.tree.src.join(&file).exists() {
                targets.add(&file, "x86");
            }
        }
        targets
    }

    fn compile(&self, targets: &Targets, out: &Path) -> Result<()> {
        let Followed { src, log, .. } = &self.tree;
        let mut goals: Vec<String> = targets.folders.iter().cloned().collect();
        if !targets.selftests.is_empty() {
            goals.push("headers".into());
        }
        if !goals.is_empty() {
            warn_free(make::command(src, out).args(goals), log)?;
        }
        if !targets.selftests.is_empty() {
            let built = out.with_file_name("selftests");
            let programs = targets.selftests.iter().map(String::as_str);
            warn_free(&make::selftests(src, out, &built, programs), log)?;
        }
        Ok(())
    }
}

/// Runs a build; a warning is a failure.
fn warn_free(command: &Command, log: &Path) -> Result<()> {
    let mut warnings = vec![];
    run::logged(command, log, |line| {
        if line.contains("warning:") {
            warnings.push(line.to_owned());
        }
    })?;
    if !warnings.is_empty() {
        anyhow::bail!("{}", warnings.join("\n"));
    }
    Ok(())
}
