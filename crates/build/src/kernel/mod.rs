// SPDX-License-Identifier: GPL-2.0-only
//! The kernels: Debian's source plus the stack of series in `kernel/series/`, as git trees and as
//! images.

mod base;
mod build;
pub mod check;
mod compile;
mod config;
pub mod export;
mod git;
pub(crate) mod make;
pub(crate) mod run;
mod selftest;
mod series;
pub(crate) mod source;
pub mod tree;

pub use build::ensure_changed;
pub use selftest::ensure as selftest;

use crate::progress::Events;
use anyhow::Result;
use std::path::PathBuf;

/// The base that is meant when none is named.
pub const DEFAULT_BASE: &str = "6.12";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// The whole stack: one image for host and guest in every mode.
    Patched,
    /// Debian's source as it is, with the same configuration.
    Unpatched,
}

/// A built kernel in the cache.
#[derive(Debug, Clone)]
pub struct KernelImage {
    pub bzimage: PathBuf,
    pub config: PathBuf,
    pub system_map: PathBuf,
    /// Names the inputs: source, patches, configuration, compiler.
    pub key: String,
    /// What `uname -r` says, e.g. `6.12.117-paratick`.
    pub release: String,
    /// Hash of the patches it is built with; none on an unpatched kernel.
    pub patches: Option<String>,
}

/// The image of `base` (e.g. [`DEFAULT_BASE`]); builds it (4–7 minutes on 2 cores) unless the
/// cache has it.
pub fn ensure(base: &str, variant: Variant, events: Events) -> Result<KernelImage> {
    ensure_changed(base, variant, &Changes::default(), events)
}

/// What an image may have otherwise than the base says.
#[derive(Debug, Default)]
pub struct Changes {
    /// The series to end the stack with.
    pub up_to: Option<String>,
    /// A fragment to merge into tinyconfig instead of the base's.
    pub config: Option<PathBuf>,
}
