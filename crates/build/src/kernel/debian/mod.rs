// SPDX-License-Identifier: GPL-2.0-only
//! Debian's own kernels, as their packages have them: nothing is built or installed.

mod keep;
mod name;
mod packages;

pub use name::{Name, Stock, PREFIX};

use crate::{
    cache,
    initramfs::modules_of,
    kernel::{
        build::KernelImage,
        source::{build_into, lock},
    },
    progress::Events,
};
use anyhow::{Context, Result};
use name::Wanted;
use packages::About;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Part of every key: raise it when something else of a package is kept.
const RECIPE: &str = "debian 2";

/// What hosts and guests with a stock kernel are told in addition: docs/lab.md has the reasons.
const PARAMETERS: [&str; 2] = ["mitigations=off", "cryptomgr.notests"];
/// Guests have no use for KVM, and most of the time of loading modules goes there.
const GUEST_PARAMETERS: [&str; 1] = ["module_blacklist=irqbypass,kvm,ccp,kvm_amd,kvm_intel"];

/// What is kept beside an image.
#[derive(Serialize, Deserialize)]
struct Info {
    release: String,
    package: String,
    package_version: String,
    /// Whether it has 9p.  Of those that were kept before this was told, each has.
    #[serde(default = "yes")]
    shares: bool,
}

fn yes() -> bool {
    true
}

/// Whether it is a distribution's kernel, with modules of its own.
pub fn is_stock(bzimage: &Path) -> bool {
    modules_of(bzimage).is_some()
}

/// Whether hosts and guests with this image can see the machine's files, as with all of the lab's;
/// else their root has to be on a disk.
pub fn shares_files(bzimage: &Path) -> bool {
    // Of an image of the user's, its configuration was asked.
    bzimage.parent().and_then(|dir| info_of(dir).ok()).is_none_or(|info| info.shares)
}

/// What a host with this image is told in addition.
pub fn host_parameters(bzimage: &Path) -> Vec<String> {
    match is_stock(bzimage) {
        true => PARAMETERS.map(String::from).to_vec(),
        false => Vec::new(),
    }
}

/// The same of a guest.
pub fn guest_parameters(bzimage: &Path) -> Vec<String> {
    match is_stock(bzimage) {
        true => PARAMETERS.into_iter().chain(GUEST_PARAMETERS).map(String::from).collect(),
        false => Vec::new(),
    }
}

/// Whether a package's file is one of `paratick kernel deb`: its kernel has the series that one
/// would mail, and not the lab's.
pub fn has_series(deb: &Path) -> bool {
    About::of(deb).is_ok_and(|about| about.has_series())
}

/// The image of Debian's package; fetched (some 100 MB) unless the cache has it.
pub fn ensure(stock: &Stock, events: Events) -> Result<KernelImage> {
    if let Some(found) = built(stock, events)? {
        return Ok(found);
    }
    let _lock = lock("debian", events)?;
    if let Some(found) = built(stock, events)? {
        return Ok(found);
    }
    let home = cache::dir()?.join("work/debian");
    let stages = home.join("stage");
    if stages.exists() {
        // Left by a run that was killed; the lock says that nobody is in it.
        fs_err::remove_dir_all(&stages)?;
    }
    fs_err::create_dir_all(&stages)?;
    let stage = tempfile::tempdir_in(&stages)?;
    let debs = match stock {
        Stock::Named(name) => packages::fetch(&Wanted::of(name)?, &home, stage.path(), events)?,
        Stock::File(file) => packages::beside(file)?,
    };
    let About { package, version, .. } = About::of(&debs[0])?;
    let key = match stock {
        Stock::Named(_) => key(&package, &version),
        Stock::File(_) => key_of_files(&debs)?,
    };
    let dir = dir_of(&key)?;
    fs_err::create_dir_all(dir.parent().context("in the cache")?)?;
    build_into(&dir, |part| {
        let (release, shares) = keep::keep(&debs, stage.path(), part)
            .with_context(|| format!("cannot take a kernel from {package}"))?;
        let info = Info { release, package, package_version: version, shares };
        fs_err::write(part.join("info.json"), serde_json::to_string_pretty(&info)? + "\n")?;
        Ok(())
    })?;
    read(&dir)
}

/// The same, if the cache has it.
pub fn built(stock: &Stock, events: Events) -> Result<Option<KernelImage>> {
    let dir = match stock {
        Stock::Named(name) => find(&Wanted::of(name)?, events)?,
        Stock::File(file) => Some(dir_of(&key_of_files(&packages::beside(file)?)?)?),
    };
    dir.filter(|dir| dir.is_dir()).map(|dir| read(&dir)).transpose()
}

/// A folder of the cache with a kernel that is wanted.
fn find(wanted: &Wanted, events: Events) -> Result<Option<PathBuf>> {
    let mut found = BTreeMap::new();
    for entry in fs_err::read_dir(cache::dir()?.join("kernel")).into_iter().flatten() {
        let dir = entry?.path();
        let Ok(info) = info_of(&dir) else { continue };
        // Neither a folder that is being written nor one of another recipe or of a file's has this
        // name.  Of the versions of a package any will do.
        if dir_of(&key(&info.package, &info.package_version))? == dir {
            found.insert(info.package, dir);
        }
    }
    let packages: Vec<String> = found.keys().cloned().collect();
    Ok(wanted.take(&packages).map(|package| {
        wanted.warn(&package, events);
        found[&package].clone()
    }))
}

fn key(package: &str, version: &str) -> String {
    cache::key([RECIPE, package, version].map(str::as_bytes))
}

/// Of what is in the files of packages.
fn key_of_files(debs: &[PathBuf]) -> Result<String> {
    let hashes = debs.iter().map(|deb| cache::sha256(deb)).collect::<Result<Vec<_>>>()?;
    Ok(cache::key(
        [RECIPE, "file"].into_iter().chain(hashes.iter().map(String::as_str)).map(str::as_bytes),
    ))
}

fn dir_of(key: &str) -> Result<PathBuf> {
    Ok(cache::dir()?.join("kernel").join(key))
}

fn info_of(dir: &Path) -> Result<Info> {
    Ok(serde_json::from_str(&fs_err::read_to_string(dir.join("info.json"))?)?)
}

fn read(dir: &Path) -> Result<KernelImage> {
    Ok(KernelImage {
        bzimage: dir.join("bzImage"),
        config: dir.join("config"),
        key: dir.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        release: info_of(dir)?.release,
        patches: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::initramfs::MODULES;

    #[test]
    fn only_a_kernel_with_modules_is_told_more() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("bzImage");
        assert!(!is_stock(&image) && host_parameters(&image).is_empty());
        fs_err::write(folder.path().join(MODULES), "").unwrap();
        assert!(is_stock(&image) && !guest_parameters(&image).is_empty());
    }
}
