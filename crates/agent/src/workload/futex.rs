// SPDX-License-Identifier: GPL-2.0-only
//! The futex system call, for workloads that must never spin.

use std::sync::atomic::AtomicU32;

/// Sleeps while the word has this value.  May return for no reason: the caller looks again.
pub fn wait(word: &AtomicU32, value: u32) {
    futex(word, libc::FUTEX_WAIT, value);
}

pub fn wake_all(word: &AtomicU32) {
    futex(word, libc::FUTEX_WAKE, i32::MAX as u32);
}

pub fn wake_one(word: &AtomicU32) {
    futex(word, libc::FUTEX_WAKE, 1);
}

/// The result does not matter: whoever waits looks at the word again.
fn futex(word: &AtomicU32, operation: libc::c_int, value: u32) {
    // SAFETY: the word outlives the call; no timeout, no second word.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            std::ptr::null::<libc::timespec>(),
        );
    }
}
