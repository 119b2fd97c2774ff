// SPDX-License-Identifier: GPL-2.0-only
//! The futex system call, for workloads that must never spin.
//!
//! No result matters: whoever waits looks at the word again.

use rustix::thread::futex::{self, Flags};
use std::sync::atomic::AtomicU32;

/// Sleeps while the word has this value.  May return for no reason: the caller looks again.
pub fn wait(word: &AtomicU32, value: u32) {
    futex::wait(word, Flags::PRIVATE, value, None).ok();
}

pub fn wake_all(word: &AtomicU32) {
    wake(word, i32::MAX as u32);
}

pub fn wake_one(word: &AtomicU32) {
    wake(word, 1);
}

fn wake(word: &AtomicU32, threads: u32) {
    futex::wake(word, Flags::PRIVATE, threads).ok();
}
