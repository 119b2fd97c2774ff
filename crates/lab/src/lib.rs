// SPDX-License-Identifier: GPL-2.0-only
//! The lab's machinery on the machine: emulator, kernels, and booting a host.

pub mod cache;
pub mod kernel;
pub mod progress;
pub mod repo;
