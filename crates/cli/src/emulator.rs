// SPDX-License-Identifier: GPL-2.0-only
//! `paratick emulator`: the QEMU that the lab runs hosts and guests with.

use crate::progress::Progress;
use anyhow::Result;
use clap::Subcommand;
use paratick_lab::emulator::{self, Emulator, Variant};
use std::process::ExitCode;

/// Build the lab's emulator, and show that its fix is needed
#[derive(Subcommand)]
pub enum Verb {
    /// Build QEMU from Debian's source with the fix (3 to 6 minutes on 2 CPUs, once)
    Build {
        /// Build it as Debian ships it: what the stress test fails on
        #[arg(long)]
        unfixed: bool,
    },
    /// Say which emulator the lab uses, and whether it is built
    Status,
}

pub fn run(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Build { unfixed } => build(match unfixed {
            true => Variant::Unfixed,
            false => Variant::Fixed,
        }),
        Verb::Status => status(),
    }
}

fn build(variant: Variant) -> Result<ExitCode> {
    let mut progress = Progress::new();
    let built = emulator::ensure_variant(variant, &mut |event| progress.show(event))?;
    drop(progress);
    show(&built);
    Ok(ExitCode::SUCCESS)
}

fn status() -> Result<ExitCode> {
    if let Some(named) = paratick_lab::tools::named_qemu()? {
        println!("named by PARATICK_QEMU");
        show(&emulator::named(named)?);
        return Ok(ExitCode::SUCCESS);
    }
    match emulator::built(Variant::Fixed)? {
        Some(built) => show(&built),
        None => println!("not built\nhint: paratick emulator build"),
    }
    for patch in emulator::patches()? {
        println!("patch     {patch}");
    }
    Ok(ExitCode::SUCCESS)
}

fn show(emulator: &Emulator) {
    let or = |value: &Option<String>, other: &str| value.clone().unwrap_or(other.to_owned());
    println!("version   {}", or(&emulator.version, "unknown"));
    println!("key       {}", or(&emulator.key, "none"));
    println!("program   {}", emulator.qemu.display());
    match &emulator.plugin {
        Some(plugin) => println!("plugin    {}", plugin.display()),
        None => println!("plugin    none: world switches are not counted"),
    }
    for folder in &emulator.firmware {
        println!("firmware  {}", folder.display());
    }
}
