// SPDX-License-Identifier: GPL-2.0-only
//! The ways to get a host, one file each.

mod bochs;
mod emulated;
mod emulator;
mod here;

use crate::spec::Backend;

/// Not one of [`ALL`]: its hosts and guests have only the programs that it is given.
pub use bochs::Bochs;

pub const EMULATED: &dyn Backend = &emulated::Emulated;
pub const HERE: &dyn Backend = &here::Here;

pub const ALL: [&dyn Backend; 2] = [EMULATED, HERE];

/// The one that `--host` means.
pub fn find(name: &str) -> Option<&'static dyn Backend> {
    ALL.into_iter().find(|backend| backend.name() == name)
}
