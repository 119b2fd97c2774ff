// SPDX-License-Identifier: GPL-2.0-only
//! How a guest marks a window of exits: a CPUID that only the counting host understands.
//! It costs one VM exit on any hardware, which is counted in no window.

use crate::{
    clock::tsc,
    facts::raw::{MARKER_CLOSE, MARKER_CLOSE_ALL, MARKER_LEAF, MARKER_OPEN, MARKER_OPEN_ALL},
};
use std::arch::asm;

/// Returns the time stamp counter just after it.
pub fn open(window: u32) -> u64 {
    mark(window << 8 | MARKER_OPEN);
    tsc()
}

/// Returns the time stamp counter just before it.
pub fn close(window: u32) -> u64 {
    let before = tsc();
    mark(window << 8 | MARKER_CLOSE);
    before
}

/// The same of all guests of the host at once.
pub fn open_all(window: u32) -> u64 {
    mark(window << 8 | MARKER_OPEN_ALL);
    tsc()
}

/// As [`close`].
pub fn close_all(window: u32) -> u64 {
    let before = tsc();
    mark(window << 8 | MARKER_CLOSE_ALL);
    before
}

fn mark(subleaf: u32) {
    // SAFETY: CPUID reads two registers and writes four; LLVM keeps rbx for itself, so it is
    // put back.  Not `__cpuid_count`: the compiler may drop that one where its result is unused.
    unsafe {
        asm!(
            "mov {saved}, rbx",
            "cpuid",
            "mov rbx, {saved}",
            saved = out(reg) _,
            inout("eax") MARKER_LEAF => _,
            inout("ecx") subleaf => _,
            out("edx") _,
            options(nostack),
        );
    }
}
