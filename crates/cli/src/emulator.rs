// SPDX-License-Identifier: GPL-2.0-only
//! `paratick emulator`: the QEMU that the lab runs hosts and guests with.

use crate::{options::KernelName, print::outln, progress};
use anyhow::{anyhow, Result};
use clap::Subcommand;
use paratick_bench::stress::{Stress, Verdict};
use paratick_build::{
    emulator::{self, Emulator, Variant},
    kernel::DEFAULT_BASE,
};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Build the lab's emulator, and show that its fix is needed
#[derive(Subcommand)]
pub enum Verb {
    /// Build QEMU from Debian's source with the fix (3 to 6 minutes on 2 CPUs, once)
    Build {
        /// Build it without the fix: what the stress test fails on
        #[arg(long)]
        unfixed: bool,
    },
    /// Show whether an emulator delivers each injected interrupt to a nested guest once
    ///
    /// Exit codes: 0 it does, 1 it does not.
    Stress {
        /// The QEMU to try [default: the lab's]
        #[arg(long, value_name = "PROGRAM", conflicts_with = "unfixed")]
        qemu: Option<PathBuf>,
        /// Try the lab's QEMU without the fix
        #[arg(long)]
        unfixed: bool,
        /// Kernel of host and guest: a bzImage, or a base that the lab builds
        #[arg(long, value_name = "KERNEL", default_value = DEFAULT_BASE)]
        kernel: KernelName,
    },
    /// Show which emulator the lab uses, and whether it is built
    Status,
}

pub fn run(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Build { unfixed } => build(if unfixed { Variant::Unfixed } else { Variant::Fixed }),
        Verb::Status => status(),
        Verb::Stress { qemu, unfixed, kernel } => try_hard(qemu, unfixed, kernel),
    }
}

fn build(variant: Variant) -> Result<ExitCode> {
    show(&progress::during(|events| emulator::ensure_variant(variant, events))?)?;
    Ok(ExitCode::SUCCESS)
}

fn try_hard(qemu: Option<PathBuf>, unfixed: bool, kernel: KernelName) -> Result<ExitCode> {
    let (stress, outcome) = progress::during(|events| {
        let emulator = match (qemu, unfixed) {
            (Some(qemu), _) => emulator::named(program(&qemu)?)?,
            (None, true) => emulator::ensure_variant(Variant::Unfixed, events)?,
            (None, false) => emulator::ensure(events)?,
        };
        let stress = Stress { emulator, kernel: kernel.ensure(events)?.image };
        let outcome = stress.run(events)?;
        Ok((stress, outcome))
    })?;
    outln!("program   {}", stress.emulator.qemu.display())?;
    // A guest that hung in its first step, or before it, has told nothing.
    if outcome.counts.injected > 0 {
        outln!("injected  {} interrupts", outcome.counts.injected)?;
        outln!("taken     {} interrupts", outcome.counts.taken)?;
    }
    outln!("took      {} s", outcome.took.as_secs())?;
    let (what, lacks) = match outcome.verdict {
        Verdict::Sound => {
            outln!("sound: no interrupt was delivered twice, and nothing hung")?;
            return Ok(ExitCode::SUCCESS);
        }
        Verdict::Duplicates => ("took more interrupts than KVM had injected".to_string(), "lacks"),
        Verdict::Hung(why) => (format!("hung: {why}"), "may lack"),
    };
    outln!(
        "BROKEN: the nested guest {what}\n\
         hint: this QEMU {lacks} emulator/patches/0001-*.patch; see emulator/README.md"
    )?;
    Ok(ExitCode::FAILURE)
}

fn program(qemu: &Path) -> Result<PathBuf> {
    qemu.canonicalize().map_err(|error| {
        anyhow!(
            "cannot try {}: {error}\n\
             hint: name a qemu-system-x86_64, or omit --qemu to try the lab's",
            qemu.display()
        )
    })
}

fn status() -> Result<ExitCode> {
    if let Some(named) = paratick_build::qemu::named_qemu()? {
        outln!("named by PARATICK_QEMU")?;
        show(&emulator::named(named)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    match emulator::built(Variant::Fixed)? {
        Some(built) => show(&built)?,
        None => outln!("not built\nhint: paratick emulator build")?,
    }
    for patch in emulator::patches()? {
        outln!("patch     {patch}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(emulator: &Emulator) -> Result<()> {
    let or = |value: &Option<String>, other: &str| value.clone().unwrap_or(other.to_owned());
    outln!("version   {}", or(&emulator.version, "unknown"))?;
    outln!("key       {}", or(&emulator.key, "none"))?;
    outln!("program   {}", emulator.qemu.display())?;
    if !emulator.counts {
        outln!("counts    none: world switches are not counted")?;
    }
    for folder in &emulator.firmware {
        outln!("firmware  {}", folder.display())?;
    }
    Ok(())
}
