// SPDX-License-Identifier: GPL-2.0-only
//! Hosts and guests: booted, spoken to, ended.

pub mod accel;
pub mod backend;
mod booted;
pub mod console;
pub mod exec;
pub mod failure;
mod first_root;
pub mod guest;
pub mod host;
mod link;
pub mod micro;
pub mod run_folder;
pub mod snapshot;
pub mod spec;

pub use link::ConsoleSink;
