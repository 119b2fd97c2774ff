// SPDX-License-Identifier: GPL-2.0-only
//! `paratick kernel`: the series as a git tree, as folders of patches, and as an image.

use crate::{errors::usage, options::Format, print::outln, progress};
use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use paratick_build::kernel::{
    self,
    deb::{self, Flavour},
    export, tree, Changes, Check, Extra, Outcome, Person, Variant,
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Keep, check and build the kernel series
#[derive(Subcommand)]
pub enum Verb {
    /// Make a git tree: Debian's source with the stack of series applied
    ///
    /// Tag `base` is Debian's source. Each series is a branch on top of the one below. Work there,
    /// then write it back with `paratick kernel export`.
    Tree(Place),
    /// Rewrite the patches in kernel/series from the tree
    ///
    /// What is kept there is signed off by nobody: that is for whoever sends a patch, with
    /// --signoff.
    Export {
        #[command(flatten)]
        at: Place,
        /// Write a copy to send instead: every patch from, and signed off by, this person
        #[arg(long, value_name = "'NAME <MAIL>'", requires = "output")]
        signoff: Option<Person>,
        /// Where that copy goes: a new folder, which gets a folder for each series
        #[arg(long, value_name = "DIR", requires = "signoff")]
        output: Option<PathBuf>,
    },
    /// Check each series: files, exact application, round trip, checkpatch, and that each patch
    /// compiles; then the whole stack with each configuration of kernel/matrix.toml
    Check {
        #[arg(default_value = kernel::DEFAULT_BASE)]
        base: String,
        /// Do not compile
        #[arg(long, conflicts_with = "config")]
        quick: bool,
        /// Only compile the whole stack with this row of kernel/matrix.toml; can be repeated
        #[arg(long, value_name = "NAME")]
        config: Vec<String>,
    },
    /// Build the image that is host and guest in the lab (4 to 7 minutes on 2 cores, once)
    ///
    /// Debian's own images, as `--kernel debian:6.12`, are not built: what first wants one fetches
    /// it.
    Build {
        #[arg(default_value = kernel::DEFAULT_BASE)]
        base: String,
        /// Build Debian's source without the series
        #[arg(long = "base", conflicts_with = "up_to")]
        unpatched: bool,
        /// Apply the series only up to this one, without those on top of it
        #[arg(long, value_name = "SERIES")]
        up_to: Option<String>,
        /// Configuration fragment to merge into tinyconfig instead of those of the base
        #[arg(long, value_name = "FILE", value_parser = fragment)]
        config: Option<PathBuf>,
        /// Rate of the tick [default: 250]; kernel/config/hzN.config has what that takes
        #[arg(long, value_name = "HZ")]
        hz: Option<u32>,
        #[command(flatten)]
        extras: Extras,
        /// Account for CPU time by sampling at each tick, or for that of interrupts apart:
        /// kernel/config/HOW-accounting.config
        #[arg(long, value_name = "HOW", value_parser = ["tick", "irq"])]
        accounting: Option<String>,
    },
    /// Make Debian packages of the kernel with the series: linux-image and linux-headers
    ///
    /// Of the series that one would mail, without the lab's own. They are installed beside Debian's
    /// kernels, and removed like these. They stay in the cache, too.
    Deb {
        #[arg(default_value = kernel::DEFAULT_BASE)]
        base: String,
        /// The configuration: Debian's for all machines, Debian's for virtual machines, or the
        /// lab's, with the drivers of a paravirtual machine and no others
        #[arg(long, value_enum, default_value_t = Config::Debian)]
        config: Config,
        /// Copy the packages to this folder
        #[arg(long, value_name = "DIR", conflicts_with = "dry_run")]
        output: Option<PathBuf>,
        /// Make the configuration, check each option of it that the series need, and compile
        /// nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        format: Format,
    },
    /// Build a KVM selftest from the patched source and print where the program is
    Selftest {
        /// Such as x86_64/kvm_pv_test
        test: String,
        #[arg(long, default_value = kernel::DEFAULT_BASE)]
        base: String,
    },
}

fn fragment(text: &str) -> Result<PathBuf, String> {
    std::fs::read_to_string(text)
        .map(|_| text.into())
        .map_err(|error| format!("{error}\nhint: name a file with lines such as CONFIG_SMP=y"))
}

/// Fragments of kernel/config beyond the base's.
#[derive(Args)]
pub struct Extras {
    /// Let the kernel look for mistakes of its own: kernel/config/debug.config
    #[arg(long)]
    debug: bool,
    /// Make it PREEMPT_RT, for real-time guests and hosts: kernel/config/rt.config
    #[arg(long, conflicts_with = "debug")]
    rt: bool,
    /// Give it a driver of NVMe disks, which `--disk-device nvme` needs: kernel/config/nvme.config
    #[arg(long)]
    nvme: bool,
    /// Give it what guests need to talk to each other, as in `bench network`:
    /// kernel/config/net.config
    #[arg(long)]
    net: bool,
}

impl Extras {
    fn chosen(&self) -> BTreeSet<Extra> {
        let Extras { debug, rt, nvme, net } = *self;
        [(debug, Extra::Debug), (rt, Extra::Rt), (nvme, Extra::Nvme), (net, Extra::Net)]
            .into_iter()
            .filter_map(|(is_chosen, extra)| is_chosen.then_some(extra))
            .collect()
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Config {
    Debian,
    Cloud,
    Lab,
}

impl From<Config> for Flavour {
    fn from(config: Config) -> Flavour {
        match config {
            Config::Debian => Flavour::Debian,
            Config::Cloud => Flavour::Cloud,
            Config::Lab => Flavour::Lab,
        }
    }
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
        Verb::Tree(at) => make_tree(&at.base, &at.dir()?)?,
        Verb::Export { at, signoff, output } => {
            let copy = signoff.zip(output);
            export(&at.base, &at.dir()?, copy)?;
        }
        Verb::Check { base, quick, config } => return check(&base, quick, &config),
        Verb::Build { base, unpatched, up_to, config, hz, extras, accounting } => {
            let variant = if unpatched { Variant::Unpatched } else { Variant::Patched };
            let changes = Changes { up_to, config, hz, extras: extras.chosen(), accounting };
            build(&base, variant, &changes)?;
        }
        Verb::Deb { base, config, output: _, dry_run: true, format } => {
            plan(&base, config.into(), format)?
        }
        Verb::Deb { base, config, output, dry_run: false, format } => {
            packages(&base, config.into(), output.as_deref(), format)?
        }
        Verb::Selftest { test, base } => selftest(&base, &test)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn make_tree(base: &str, dir: &Path) -> Result<()> {
    progress::during(|events| tree::create(base, dir, events))?;
    outln!("{}", dir.display())?;
    Ok(())
}

/// `copy` says who sends one, and where it goes.
fn export(base: &str, dir: &Path, copy: Option<(Person, PathBuf)>) -> Result<()> {
    let exported = progress::during(|events| match copy {
        Some((sender, to)) => {
            export::for_sending(base, dir, &sender, &std::path::absolute(to)?, events)
        }
        None => export::export(base, dir, events),
    })?;
    for folder in exported {
        outln!("{}:", folder.dir.display())?;
        for name in folder.patches {
            outln!("  {name}")?;
        }
    }
    Ok(())
}

fn check(base: &str, quick: bool, rows: &[String]) -> Result<ExitCode> {
    if !rows.is_empty() {
        refuse_unknown_rows(base, rows)?;
    }
    let checks = progress::during(|events| match rows {
        [] => kernel::check::check(base, quick, events),
        rows => kernel::check::check_rows(base, rows, events),
    })?;
    for check in &checks {
        outln!("{}", line(check))?;
    }
    let failed = checks.iter().any(|check| check.outcome.failed());
    Ok(ExitCode::from(u8::from(failed)))
}

fn refuse_unknown_rows(base: &str, wanted: &[String]) -> Result<()> {
    let rows = kernel::matrix::rows(base)?;
    let Some(unknown) = wanted.iter().find(|name| rows.iter().all(|row| row.name != **name)) else {
        return Ok(());
    };
    let known: Vec<_> = rows.iter().map(|row| format!("  {:<16} {}", row.name, row.what)).collect();
    Err(usage(format!(
        "kernel/matrix.toml has no configuration {unknown}\nhint: it has\n{}",
        known.join("\n")
    )))
}

fn line(Check { subject, name, outcome }: &Check) -> String {
    let indented = |text: &str| text.replace('\n', "\n         ");
    match outcome {
        Outcome::Passed(what) => format!("ok       {subject}: {name}: {what}"),
        Outcome::Skipped(why) => format!("skipped  {subject}: {name}: {}", indented(why)),
        Outcome::Failed(findings) => {
            format!("FAILED   {subject}: {name}:\n         {}", indented(&findings.join("\n")))
        }
    }
}

fn build(base: &str, variant: Variant, changes: &Changes) -> Result<()> {
    let image = progress::during(|events| kernel::ensure_changed(base, variant, changes, events))?;
    outln!("release  {}", image.release)?;
    outln!("key      {}", image.key)?;
    outln!("patches  {}", image.patches.as_deref().unwrap_or("none"))?;
    outln!("image    {}", image.bzimage.display())?;
    outln!("config   {}", image.config.display())?;
    Ok(())
}

fn plan(base: &str, flavour: Flavour, format: Format) -> Result<()> {
    let (plan, config) = progress::during(|events| deb::plan(base, flavour, events))?;
    format.print(&plan, || lines(&plan, &[("config", &config)]))
}

fn packages(base: &str, flavour: Flavour, to: Option<&Path>, format: Format) -> Result<()> {
    let mut found = progress::during(|events| deb::ensure(base, flavour, events))?;
    if let Some(to) = to {
        found = deb::copy(found, &std::path::absolute(to)?)?;
    }
    let files = [("config", &found.config), ("headers", &found.headers), ("image", &found.image)];
    format.print(&found, || lines(&found.plan, &files))
}

fn lines(plan: &deb::Plan, files: &[(&str, &PathBuf)]) -> String {
    let btf = if plan.btf { "yes" } else { "no" };
    let mut text = format!(
        "release  {}\nversion  {}\nkey      {}\npatches  {}\nBTF      {btf}\n",
        plan.release, plan.version, plan.key, plan.patches
    );
    for (name, file) in files {
        text.push_str(&format!("{name:<8} {}\n", file.display()));
    }
    text
}

fn selftest(base: &str, test: &str) -> Result<()> {
    let program = progress::during(|events| kernel::selftest(base, test, events))?;
    outln!("{}", program.display())?;
    Ok(())
}
