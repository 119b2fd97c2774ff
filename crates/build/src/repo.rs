// SPDX-License-Identifier: GPL-2.0-only
//! Where the project's own files (patches, configurations, sources) are at run time.

use anyhow::{bail, Result};
use std::{
    env,
    path::{Path, PathBuf},
};

/// What only the root of a checkout has.
const MARK: &str = "kernel/bases.toml";

/// `$PARATICK_ROOT`, else the checkout around the current folder, else the one this was built from.
pub fn root() -> Result<PathBuf> {
    if let Some(root) = env::var_os("PARATICK_ROOT") {
        let root = PathBuf::from(root);
        if root.join(MARK).is_file() {
            return Ok(root);
        }
        bail!(
            "PARATICK_ROOT is {}, but {MARK} is not in it\nhint: point it to a checkout of paratick",
            root.display()
        );
    }
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    env::current_dir()
        .ok()
        .as_deref()
        .and_then(|here| here.ancestors().find(|dir| dir.join(MARK).is_file()))
        .map(Path::to_path_buf)
        .or_else(|| built_from.canonicalize().ok().filter(|dir| dir.join(MARK).is_file()))
        .ok_or_else(|| {
            anyhow::anyhow!(
                "no checkout of paratick found: {MARK} is in no folder above this one\nhint: run it inside a checkout, or set PARATICK_ROOT"
            )
        })
}
