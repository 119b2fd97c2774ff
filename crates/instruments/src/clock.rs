// SPDX-License-Identifier: GPL-2.0-only
//! The clock of BPF's timestamps.

/// CLOCK_MONOTONIC, in ns.
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
