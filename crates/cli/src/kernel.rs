// SPDX-License-Identifier: GPL-2.0-only
//! `paratick kernel`: the series as a git tree, as a folder of patches, and as an image.

use crate::progress::Progress;
use crate::stdout::outln;
use anyhow::Result;
use clap::{Args, Subcommand};
use paratick_build::kernel::{
    self,
    check::{Check, Outcome},
    tree, Variant,
};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Keep, check and build the kernel series
#[derive(Subcommand)]
pub enum Verb {
    /// Make a git tree: Debian's source with the series applied
    ///
    /// Tag `base` is Debian's source; work on branch `paratick`, then write it back with `paratick kernel export`.
    Tree {
        #[command(flatten)]
        at: Place,
        /// Also apply the lab's patches, on branch `lab` on top of the series
        #[arg(long)]
        lab: bool,
    },
    /// Rewrite kernel/patches and kernel/lab-patches from the tree
    Export {
        #[command(flatten)]
        at: Place,
    },
    /// Check the series: files, exact application, round trip, checkpatch, and that each patch compiles
    Check {
        #[arg(default_value = kernel::DEFAULT_BASE)]
        base: String,
        /// Do not compile
        #[arg(long)]
        quick: bool,
    },
    /// Build the image that is host and guest in the lab (4 to 7 minutes on 2 cores, once)
    Build {
        #[arg(default_value = kernel::DEFAULT_BASE)]
        base: String,
        /// Build Debian's source without the series
        #[arg(long = "base")]
        unpatched: bool,
        /// Configuration fragment to put on top of tinyconfig instead of kernel/config/lab.config
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Build a KVM selftest from the patched source and print where the program is
    Selftest {
        /// Such as x86_64/kvm_pv_test
        test: String,
        #[arg(long, default_value = kernel::DEFAULT_BASE)]
        base: String,
    },
}

#[derive(Args)]
pub struct Place {
    #[arg(default_value = kernel::DEFAULT_BASE)]
    base: String,
    /// Where the tree is [default: tree/BASE in the cache]
    #[arg(long)]
    dir: Option<PathBuf>,
}

impl Place {
    fn dir(&self) -> Result<PathBuf> {
        match &self.dir {
            Some(dir) => Ok(std::path::absolute(dir)?),
            None => tree::default_dir(&self.base),
        }
    }
}

pub fn run(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Tree { at, lab } => make_tree(&at.base, &at.dir()?, lab)?,
        Verb::Export { at } => export(&at.base, &at.dir()?)?,
        Verb::Check { base, quick } => return check(&base, quick),
        Verb::Build {
            base,
            unpatched,
            config,
        } => {
            let variant = if unpatched {
                Variant::Unpatched
            } else {
                Variant::Patched
            };
            build(&base, variant, config.as_deref())?;
        }
        Verb::Selftest { test, base } => selftest(&base, &test)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn make_tree(base: &str, dir: &Path, lab: bool) -> Result<()> {
    let mut progress = Progress::new();
    tree::create(base, dir, lab, &mut |event| progress.show(event))?;
    drop(progress);
    outln!("{}", dir.display())?;
    Ok(())
}

fn export(base: &str, dir: &Path) -> Result<()> {
    let mut progress = Progress::new();
    let exported = tree::export(base, dir, &mut |event| progress.show(event))?;
    drop(progress);
    for folder in exported {
        outln!("{}: {} patches", folder.dir.display(), folder.patches.len())?;
        for name in folder.patches {
            outln!("  {name}")?;
        }
    }
    Ok(())
}

fn check(base: &str, quick: bool) -> Result<ExitCode> {
    let mut progress = Progress::new();
    let checks = kernel::check::check(base, quick, &mut |event| progress.show(event))?;
    drop(progress);
    for check in &checks {
        outln!("{}", line(check))?;
    }
    let failed = checks
        .iter()
        .any(|check| matches!(check.outcome, Outcome::Failed(_)));
    Ok(ExitCode::from(u8::from(failed)))
}

fn line(check: &Check) -> String {
    match &check.outcome {
        Outcome::Passed(what) => format!("ok       {}: {what}", check.name),
        Outcome::Skipped(why) => format!("skipped  {}: {why}", check.name),
        Outcome::Failed(findings) => {
            let indented = findings.join("\n").replace('\n', "\n         ");
            format!("FAILED   {}:\n         {indented}", check.name)
        }
    }
}

fn build(base: &str, variant: Variant, config: Option<&Path>) -> Result<()> {
    let mut progress = Progress::new();
    let mut events = |event| progress.show(event);
    let image = match config {
        Some(fragment) => kernel::ensure_with_config(base, variant, fragment, &mut events)?,
        None => kernel::ensure(base, variant, &mut events)?,
    };
    drop(progress);
    outln!("release  {}", image.release)?;
    outln!("key      {}", image.key)?;
    outln!("patches  {}", image.patches.as_deref().unwrap_or("none"))?;
    outln!("image    {}", image.bzimage.display())?;
    outln!("config   {}", image.config.display())?;
    Ok(())
}

fn selftest(base: &str, test: &str) -> Result<()> {
    let mut progress = Progress::new();
    let program = kernel::selftest(base, test, &mut |event| progress.show(event))?;
    drop(progress);
    outln!("{}", program.display())?;
    Ok(())
}
