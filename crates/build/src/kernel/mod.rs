// SPDX-License-Identifier: GPL-2.0-only
//! The kernels: Debian's source plus the stack of series in `kernel/series/`, as git trees and as
//! images.

mod answer;
mod base;
mod build;
pub mod check;
mod compile;
mod config;
pub mod deb;
pub mod debian;
pub mod export;
mod git;
mod image;
pub(crate) mod make;
pub mod matrix;
mod modules;
pub(crate) mod run;
mod selftest;
mod series;
pub(crate) mod source;
mod targets;
pub mod tree;
mod warnings;

pub use answer::{Check, Outcome};
pub use build::{built, ensure, ensure_changed, Changes, Extra, KernelImage, Variant};
pub use git::Person;
pub use image::{is_bzimage, is_packaged, is_realtime, keeps_its_turn, lacks};
pub use selftest::ensure as selftest;

/// The base that is meant when none is named.
pub const DEFAULT_BASE: &str = "6.12";
