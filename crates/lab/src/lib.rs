// SPDX-License-Identifier: GPL-2.0-only
//! The lab's machinery on the machine: emulator, kernels, and booting a host.

pub mod accel;
pub mod bench;
pub mod cache;
pub mod console;
pub mod emulator;
pub mod exec;
pub mod failure;
pub mod guest;
pub mod host;
pub mod kernel;
mod link;
pub mod progress;
mod qemu;
pub mod repo;
pub mod requirements;
pub mod run_folder;
pub mod tools;

pub use link::ConsoleSink;

/// CPUs of this machine that are online.
pub fn cpus() -> u32 {
    paratick_host::online_cpus()
}
