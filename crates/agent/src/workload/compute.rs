// SPDX-License-Identifier: GPL-2.0-only
//! What a CPU does that is to be busy: instructions that the emulator runs fast.

use std::arch::asm;

/// A microsecond of the lab's time, for a CPU that is to be busy until some moment.  A loop that
/// does nothing but read the clock takes the emulator twice as long.
pub fn microsecond() {
    loops(250);
}

/// Of four instructions each.  Sixteen of them are one block of the emulator's, and a few such
/// blocks are all that it needs, wherever a CPU's turn ends.
pub fn loops(count: u64) {
    const AT_ONCE: u64 = 16;
    let mut x = 1u64;
    if count >= AT_ONCE {
        // SAFETY: works on registers only.
        unsafe {
            asm!(
                "2:",
                ".rept 15",
                "imul {x}, {x}, 1664525",
                "add {x}, 1013904223",
                "nop",
                "nop",
                ".endr",
                "imul {x}, {x}, 1664525",
                "add {x}, 1013904223",
                "dec {n}",
                "jnz 2b",
                x = inout(reg) x,
                n = inout(reg) count / AT_ONCE => _,
                options(nomem, nostack),
            );
        }
    }
    if count % AT_ONCE > 0 {
        // SAFETY: the same.
        unsafe {
            asm!(
                "2:",
                "imul {x}, {x}, 1664525",
                "add {x}, 1013904223",
                "dec {n}",
                "jnz 2b",
                x = inout(reg) x => _,
                n = inout(reg) count % AT_ONCE => _,
                options(nomem, nostack),
            );
        }
    }
}
