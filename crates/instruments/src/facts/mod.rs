// SPDX-License-Identifier: GPL-2.0-only
//! What is noted of one exit, from the exit to the vCPU's next one, and what it means
//! ([`paratick_core::cause`]).
//!
//! Facts are noted by the code of bpf/note.h alone: the BPF programs run it as an exit happens, and
//! whoever reads a trace calls it here.  So a cycle names an exit as the counts do.

/// What bpf/exits.h defines.
#[allow(dead_code)]
pub mod raw {
    include!(concat!(env!("OUT_DIR"), "/exits.rs"));
}

use paratick_core::{
    cause::{decide, Cause, Facts},
    reason::{self, Isa},
};
use raw::{Arguments, Key, Thread};

// SAFETY: bpf/native.c has these signatures; the structs are made of the header that it includes,
// and no pointer is kept.
unsafe extern "C" {
    #[link_name = "paratick_note_exit"]
    pub safe fn note_exit(thread: &mut Thread, reason: u32, arguments: &Arguments);
    #[link_name = "paratick_awaits_msr"]
    safe fn awaits(thread: &Thread) -> u32;
    #[link_name = "paratick_note_msr"]
    pub safe fn note_msr(thread: &mut Thread, msr: u32, value: u64);
    #[link_name = "paratick_note_hypercall"]
    pub safe fn note_hypercall(thread: &mut Thread, number: u64);
    /// `fact` says whose handler it is.
    #[link_name = "paratick_note_handler"]
    pub safe fn note_handler(thread: &mut Thread, fact: u32);
    #[link_name = "paratick_note_vcpu_timer"]
    pub safe fn note_vcpu_timer(thread: &mut Thread);
}

/// Whether an MSR access now would be the exit's own.
pub fn awaits_msr(thread: &Thread) -> bool {
    awaits(thread) != 0
}

impl Thread {
    /// Where the exit whose cause is still open will be counted.
    pub fn pending(&self) -> Option<Key> {
        (self.window != 0).then_some(Key {
            window: self.window,
            vcpu: self.vcpu,
            reason: self.reason,
            msr: self.msr,
            facts: self.facts,
        })
    }
}

impl Key {
    pub fn facts(&self) -> Facts {
        Facts(self.facts)
    }

    /// The exit's reason, its MSR, and its cause.
    pub fn explain(&self, isa: Isa) -> (String, Option<u32>, Cause) {
        let name = reason::name(isa, self.reason, self.facts().has(Facts::WRITE));
        let msr = self.facts().has(Facts::MSR).then_some(self.msr);
        (name, msr, decide(isa, self.reason, self.msr, self.facts()))
    }
}

#[cfg(test)]
#[path = "../../build/header.rs"]
mod header;
#[cfg(test)]
mod tests;
