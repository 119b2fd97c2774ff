// SPDX-License-Identifier: GPL-2.0-only
//! The lab's emulator: Debian's QEMU with the fix that nested guests need, which counts world
//! switches.  `emulator/README.md` says why.

mod build;
mod recipe;

use crate::{cache, progress::Events, qemu};
use anyhow::{bail, Result};
use recipe::{Inputs, Recipe, VERSION};
use std::path::{Path, PathBuf};

/// A QEMU to run hosts and guests with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emulator {
    pub qemu: PathBuf,
    /// Whether it counts world switches, which a user's own QEMU may not.
    pub counts: bool,
    /// Folders for `-L`.
    pub firmware: Vec<PathBuf>,
    /// Version of the source package it was built from; absent for the user's own.
    pub version: Option<String>,
    /// Names its inputs: source, patches, configuration; absent for the user's own.
    pub key: Option<String>,
}

/// With every patch, or without the fix of event injection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    Fixed,
    Unfixed,
}

/// The lab's emulator: the one named by `$PARATICK_QEMU`, else our own, built (3 to 6 minutes on 2
/// CPUs) unless the cache has it.
pub fn ensure(events: Events) -> Result<Emulator> {
    match qemu::named_qemu()? {
        Some(qemu) => named(qemu),
        None => ensure_variant(Variant::Fixed, events),
    }
}

/// One of our own.  The second of the two takes seconds: only what the patches change is compiled.
pub fn ensure_variant(variant: Variant, events: Events) -> Result<Emulator> {
    let inputs = inputs(variant)?;
    if let Some(found) = find(&inputs)? {
        return Ok(found);
    }
    let base = cache::dir()?;
    let work = build::Work::open(&base, &inputs, events)?;
    // Another process may have built it while this one waited for the lock.
    if let Some(found) = find(&inputs)? {
        return Ok(found);
    }
    let key = inputs.key(&work.version);
    let dir = base.join("emulator").join(&key);
    work.build(&inputs, &dir, events)?;
    at(&inputs.recipe, &dir, work.version.clone(), key)
}

pub fn built(variant: Variant) -> Result<Option<Emulator>> {
    find(&inputs(variant)?)
}

/// A QEMU of the user's: taken as it is.
pub fn named(qemu: PathBuf) -> Result<Emulator> {
    let recipe = Inputs::read()?.recipe;
    Ok(Emulator {
        counts: qemu::counts(&qemu),
        firmware: firmware(&recipe).unwrap_or_default(),
        qemu,
        version: None,
        key: None,
    })
}

/// The patches that are applied, from the top of the project.
pub fn patches() -> Result<Vec<String>> {
    let patches = Inputs::read()?.patches;
    Ok(patches.into_iter().map(|patch| patch.path).collect())
}

fn inputs(variant: Variant) -> Result<Inputs> {
    let inputs = Inputs::read()?;
    Ok(match variant {
        Variant::Fixed => inputs,
        Variant::Unfixed => inputs.without_fix(),
    })
}

/// An emulator of these inputs, whatever the version of its source; the tested one first.
fn find(inputs: &Inputs) -> Result<Option<Emulator>> {
    let home = cache::dir()?.join("emulator");
    let tested = home.join(inputs.key(&inputs.recipe.version));
    let others = match fs_err::read_dir(&home) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
        Err(_) => Vec::new(),
    };
    for dir in std::iter::once(tested).chain(others) {
        let Ok(version) = fs_err::read_to_string(dir.join(VERSION)) else { continue };
        let key = inputs.key(&version);
        // A folder that is being written has another name than its key.
        if dir.file_name().is_some_and(|name| name == key.as_str()) {
            return at(&inputs.recipe, &dir, version, key).map(Some);
        }
    }
    Ok(None)
}

fn at(recipe: &Recipe, dir: &Path, version: String, key: String) -> Result<Emulator> {
    Ok(Emulator {
        qemu: dir.join(&recipe.target),
        counts: true,
        firmware: firmware(recipe)?,
        version: Some(version),
        key: Some(key),
    })
}

fn firmware(recipe: &Recipe) -> Result<Vec<PathBuf>> {
    for (package, folder) in &recipe.firmware {
        if !folder.is_dir() {
            bail!(
                "the emulator's firmware is missing: there is no folder {}\n\
                 hint: apt-get install {package}",
                folder.display()
            );
        }
    }
    Ok(recipe.firmware.values().cloned().collect())
}
