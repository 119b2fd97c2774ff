// SPDX-License-Identifier: GPL-2.0-only
//! Hosts and guests: booted, spoken to, ended.

pub mod accel;
pub mod console;
pub mod exec;
pub mod failure;
pub mod guest;
pub mod host;
mod link;
mod qemu;
pub mod run_folder;

pub use link::ConsoleSink;
