// SPDX-License-Identifier: GPL-2.0-only
//! Where the project's own files are at run time: series, configurations, the emulator's recipe.
//!
//! In a checkout they are the checkout's, so that edits count.  Elsewhere they are those that were
//! built in, unpacked to the cache: git, gcc and others want files.  What is built is named by what
//! the files say, so both ways find the same in the cache.

use crate::cache;
use anyhow::{bail, Context, Result};
use std::{
    env,
    path::{Path, PathBuf},
};

/// What only the root of a checkout has.
const MARK: &str = "kernel/bases.toml";

/// Names, relative to the root, and contents; `build.rs` lists them.
const BUILT_IN: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/built_in.rs"));

/// The checkout, if there is one; else the files that were built in.
pub fn root() -> Result<PathBuf> {
    match find_checkout()? {
        Some(root) => Ok(root),
        None => unpacked(&cache::dir()?.join("built-in")),
    }
}

/// For work on the files themselves.
pub fn checkout() -> Result<PathBuf> {
    find_checkout()?.with_context(|| {
        format!(
            "no checkout of paratick found: {MARK} is in no folder above this one\n\
             hint: run it inside a checkout, or set PARATICK_ROOT to one"
        )
    })
}

/// `$PARATICK_ROOT`, else the checkout around the current folder.
fn find_checkout() -> Result<Option<PathBuf>> {
    if let Some(root) = env::var_os("PARATICK_ROOT") {
        let root = PathBuf::from(root);
        if root.join(MARK).is_file() {
            return Ok(Some(root));
        }
        bail!(
            "PARATICK_ROOT is {}, but {MARK} is not in it\n\
             hint: point it to a checkout of paratick, or unset it",
            root.display()
        );
    }
    let here = env::current_dir().unwrap_or_default();
    let mut folders = here.ancestors();
    let found = folders.find(|folder| folder.join(MARK).is_file());
    Ok(found.map(Path::to_path_buf))
}

/// The built-in files, in a folder of `home` that is named by their contents.
fn unpacked(home: &Path) -> Result<PathBuf> {
    let parts = BUILT_IN.iter().flat_map(|(name, contents)| [name.as_bytes(), contents]);
    let dir = home.join(cache::key(parts));
    if dir.is_dir() {
        return Ok(dir);
    }
    fs_err::create_dir_all(home)?;
    let part = tempfile::tempdir_in(home).with_context(|| format!("writing {}", home.display()))?;
    for (name, contents) in BUILT_IN {
        let file = part.path().join(name);
        fs_err::create_dir_all(file.parent().expect("a file has a folder"))?;
        fs_err::write(file, contents)?;
    }
    match fs_err::rename(part.path(), &dir) {
        // Another process was faster.
        Err(_) if dir.is_dir() => Ok(dir),
        renamed => Ok(renamed.map(|()| dir)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_in_is_what_the_checkout_has() {
        let home = tempfile::tempdir().unwrap();
        let unpacked_to = unpacked(home.path()).unwrap();
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (name, _) in BUILT_IN {
            let [found, wanted] =
                [&unpacked_to, &checkout].map(|root| fs_err::read(root.join(name)).unwrap());
            assert!(found == wanted, "{name} differs");
        }
        for needed in [
            "emulator/recipe.toml",
            "emulator/devices.mak",
            "vmm/qemu-7.2/0001-linux-headers-Add-paravirtual-timers-of-KVM.patch",
            MARK,
        ] {
            assert!(unpacked_to.join(needed).is_file(), "{needed}");
        }
        assert_eq!(unpacked(home.path()).unwrap(), unpacked_to);
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
    }
}
