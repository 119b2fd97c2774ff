// SPDX-License-Identifier: GPL-2.0-only
//! Where built things are kept: outside the tree, keyed by what they are made of.

use anyhow::{bail, Context, Result};
use paratick_service::guest::OWN_FOLDERS;
use sha2::{Digest, Sha256};
use std::{
    env,
    path::{Path, PathBuf},
};

/// `$PARATICK_CACHE`, else `$XDG_CACHE_HOME/paratick`, else `~/.cache/paratick`.
pub fn dir() -> Result<PathBuf> {
    let dir = named()?;
    // Links lead elsewhere in a guest.
    match dir.canonicalize() {
        Ok(found) => Ok(found),
        Err(_) => std::path::absolute(dir).context("the cache's path"),
    }
}

fn named() -> Result<PathBuf> {
    if let Some(dir) = env::var_os("PARATICK_CACHE") {
        return Ok(dir.into());
    }
    if let Some(dir) = env::var_os("XDG_CACHE_HOME") {
        return Ok(PathBuf::from(dir).join("paratick"));
    }
    let home = env::var_os("HOME")
        .context("no place for the cache: HOME is not set\nhint: set PARATICK_CACHE to a folder")?;
    Ok(PathBuf::from(home).join(".cache/paratick"))
}

/// The cache, where hosts and guests can see it.
pub fn shown() -> Result<PathBuf> {
    let dir = dir()?;
    match OWN_FOLDERS.iter().any(|own| dir == Path::new(own)) {
        true => bail!(
            "the cache cannot be {}: guests have their own folder there\n\
            hint: set PARATICK_CACHE to a folder in it, or elsewhere",
            dir.display()
        ),
        false => Ok(dir),
    }
}

/// A key of 16 hex digits for what something is made of; the order of `parts` matters.
pub fn key<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut key = format!("{:x}", hash.finalize());
    key.truncate(16);
    key
}

/// The SHA-256 of a file's content, in hex.
pub fn sha256(file: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    std::io::copy(&mut fs_err::File::open(file)?, &mut hash)?;
    Ok(format!("{:x}", hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_known_hash() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        let hash = sha256(file.path()).unwrap();
        assert!(hash.starts_with("ba7816bf8f01cfea"), "{hash}");
    }
}
