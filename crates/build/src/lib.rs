// SPDX-License-Identifier: GPL-2.0-only
//! What a lab is made of, built from source and kept in the cache: kernels and the emulator.

mod apt;
pub mod cache;
pub mod emulator;
pub mod initramfs;
pub mod kernel;
pub mod project;
pub mod qemu;
pub mod requirements;
pub mod root;
pub mod tools;

pub use paratick_core::event as progress;
