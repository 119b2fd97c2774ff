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

use crate::symbols::function_name;
use paratick_core::{
    cause::{About, Cause, Facts, Noted},
    reason::Isa,
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
    /// `fact` says whose hypercall it is; a `value` other than 0 arms a timer.
    #[link_name = "paratick_note_hypercall"]
    pub safe fn note_hypercall(thread: &mut Thread, fact: u32, number: u64, value: u64);
    #[link_name = "paratick_note_mmio"]
    pub safe fn note_mmio(thread: &mut Thread, address: u64, write: u32);
    /// A byte is written to a port.
    #[link_name = "paratick_note_out"]
    pub safe fn note_out(thread: &mut Thread, port: u32, value: u32);
    #[link_name = "paratick_note_apic"]
    pub safe fn note_apic(thread: &mut Thread, write: u32, offset: u32, value: u64);
    #[link_name = "paratick_note_vmgexit"]
    pub safe fn note_vmgexit(thread: &mut Thread, reason: u64, info1: u64, info2: u64);
    /// `fact` says whose handler it is.
    #[link_name = "paratick_note_handler"]
    pub safe fn note_handler(thread: &mut Thread, fact: u32);
    /// `which` is one of TIMER_…; `function` is an address of the host's kernel.
    #[link_name = "paratick_note_timer"]
    pub safe fn note_timer(thread: &mut Thread, which: u32, function: u64);
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
            facts: self.facts,
            detail: self.detail,
        })
    }
}

impl Key {
    pub fn facts(&self) -> Facts {
        Facts(self.facts)
    }

    pub fn explain(&self, isa: Isa) -> Explained {
        explain(isa.number(), self.reason, self.detail, self.facts)
    }
}

/// What an exit was, in words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Explained {
    pub cause: Cause,
    /// As KVM's tracepoint prints it.
    pub reason: String,
    /// What it was about, where more than the reason is known.
    pub about: Option<String>,
}

impl Explained {
    /// The best that is known in few words.
    pub fn words(self) -> String {
        self.about.unwrap_or(self.reason)
    }
}

pub fn explain(isa: u32, code: u32, detail: u64, facts: u32) -> Explained {
    let noted = Noted { isa: Isa::of(isa), code, detail, facts: Facts(facts) };
    let about = noted.about().map(|about| match about {
        About::Text(text) => text,
        About::Function(address) => function_name(address),
    });
    Explained { cause: noted.cause(), reason: noted.reason(), about }
}

#[cfg(test)]
#[path = "../../build/header.rs"]
mod header;
#[cfg(test)]
mod tests;
