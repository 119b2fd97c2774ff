// SPDX-License-Identifier: GPL-2.0-only
//! `emulator/` and `vmm/`: what the emulator is made of, and the key that follows from it.

use crate::{cache, project};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Beside the program, in the emulator's folder.
pub const VERSION: &str = "version";

/// Part of every key: raise it when this code changes in a way that changes the emulator.
const CODE: &str = "emulator 3";

/// Folders of patches, in the order in which they are applied.  Those of `vmm/` are for guests'
/// QEMU, which the same program is inside the lab's host.
const PATCHES: [&str; 2] = ["emulator/patches", "vmm/qemu-7.2"];

/// The patch without which nested guests hang.
const FIX: &str = "emulator/patches/0001-";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    pub source: String,
    /// The package version that the patches were last tested on.
    pub version: String,
    /// What an acceptable version starts with.
    pub series: String,
    pub configure: Vec<String>,
    /// What ninja makes; the program's name.
    pub target: String,
    pub build_needs: Vec<String>,
    /// Package to folder.
    pub firmware: BTreeMap<String, PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// From the top of the project.
    pub path: String,
    pub text: String,
}

impl Patch {
    /// The files that it changes, in the source.
    pub fn touched(&self) -> impl Iterator<Item = &str> {
        self.text.lines().filter_map(|line| line.strip_prefix("--- a/")).map(str::trim_end)
    }
}

/// Everything an emulator is made of, the source's exact version excepted.
#[derive(Clone, Debug)]
pub struct Inputs {
    pub recipe: Recipe,
    pub patches: Vec<Patch>,
    /// The devices it is built with, as QEMU's configuration has them.
    pub devices: String,
}

impl Inputs {
    pub fn read() -> Result<Inputs> {
        Inputs::read_from(&project::root()?)
    }

    fn read_from(root: &Path) -> Result<Inputs> {
        let file = root.join("emulator/recipe.toml");
        let recipe = toml::from_str(&fs_err::read_to_string(&file)?)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let mut patches = Vec::new();
        for folder in PATCHES {
            patches.extend(read_patches(root, folder)?);
        }
        let devices = fs_err::read_to_string(root.join("emulator/devices.mak"))?;
        Ok(Inputs { recipe, patches, devices })
    }

    /// The same emulator with the bug that the first patch is about: for showing what it is good
    /// for.
    pub fn without_fix(mut self) -> Inputs {
        self.patches.retain(|patch| !patch.path.starts_with(FIX));
        self
    }

    /// Names an emulator made of these and of that version of the source.
    pub fn key(&self, version: &str) -> String {
        let recipe = &self.recipe;
        let mut parts: Vec<&[u8]> = vec![CODE.as_bytes(), version.as_bytes()];
        parts.extend(recipe.configure.iter().map(String::as_bytes));
        parts.push(self.devices.as_bytes());
        parts.push(recipe.target.as_bytes());
        parts.extend(self.patches.iter().map(|patch| patch.text.as_bytes()));
        cache::key(parts)
    }
}

/// In the order of their numbers.
fn read_patches(root: &Path, folder: &str) -> Result<Vec<Patch>> {
    let mut patches = Vec::new();
    for entry in fs_err::read_dir(root.join(folder))? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "patch") {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let path = format!("{folder}/{name}");
            patches.push(Patch { path, text: fs_err::read_to_string(&file)? });
        }
    }
    patches.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(patches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checkout_has_a_recipe_and_the_fix_first() {
        let inputs = Inputs::read().unwrap();
        let recipe = &inputs.recipe;
        assert!(recipe.version.starts_with(&recipe.series));
        assert!(inputs.patches[0].path.starts_with(FIX));
        assert_eq!(
            inputs.patches[0].touched().collect::<Vec<_>>(),
            ["target/i386/tcg/sysemu/svm_helper.c"]
        );
    }

    #[test]
    fn the_patches_for_guests_qemu_come_last() {
        let inputs = Inputs::read().unwrap();
        let is_vmm = |patch: &Patch| patch.path.starts_with("vmm/qemu-7.2/");
        let first = inputs.patches.iter().position(is_vmm).unwrap();
        assert!(first > 0 && inputs.patches[first..].iter().all(is_vmm));
    }

    #[test]
    fn the_key_names_version_and_patches() {
        let inputs = Inputs::read().unwrap();
        let key = inputs.key("1:7.2");
        assert_eq!(key, inputs.key("1:7.2"));
        assert_ne!(key, inputs.key("1:7.3"));
        let unfixed = inputs.clone().without_fix();
        assert_eq!(unfixed.patches, inputs.patches[1..]);
        assert_ne!(key, unfixed.key("1:7.2"));
    }
}
