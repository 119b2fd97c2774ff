// SPDX-License-Identifier: GPL-2.0-only
//! The micro guest's code: 64-bit, at privilege 0, with interrupts but without an operating system.
//! It works wherever it lies.
//!
//! r15 has the vCPU's [`Command`], r14 its samples.  An entry gets the number of samples in rdi and
//! their place in rsi.  Interrupts may change rax, rcx and rdx, and leave r9 with what they saw.

use std::arch::global_asm;

/// Physical addresses that both sides know.
pub const SHARED: u64 = 0x6000;
/// EOIs written in spite of PV EOI are counted here.
pub const EOIS: u64 = 0x140;
pub const COMMANDS: u64 = 0x7000;
/// The second series of samples is so far behind the first.
pub const SERIES: usize = 1 << 20;
/// OUT to it ends a session.
pub const DONE: u16 = 0x81;
/// Another port that KVM does not know.
pub const NOBODY_S: u16 = 0x80;

/// Vectors, in the order of [`Entry`]'s last ones.
pub const FIRST_VECTOR: usize = 0x40;

/// What a vCPU does next.
#[repr(C)]
pub struct Command {
    pub entry: u64,
    pub samples: u64,
    /// Cycles.
    pub delay: u64,
}

/// Where the code can be entered; the table at its begin is in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    Main,
    Prepare,
    PreparePvEoi,
    Empty,
    Cpuid,
    PioKernel,
    PioUser,
    TscDeadline,
    HltTimer,
    HltIpi,
    Waker,
    Ipi,
    Receiver,
    Eoi,
    PvEoi,
    OnWake,
    OnIpi,
    OnEoi,
    OnPvEoi,
}

/// Interrupt handlers: the first has the first vector.
pub const HANDLERS: [Entry; 4] = [Entry::OnWake, Entry::OnIpi, Entry::OnEoi, Entry::OnPvEoi];

/// The code, to be copied.
pub fn code() -> &'static [u8] {
    // SAFETY: both are labels in read-only data, the first before the second.
    unsafe {
        let begin = &raw const paratick_micro_begin;
        let length = (&raw const paratick_micro_end).offset_from(begin) as usize;
        std::slice::from_raw_parts(begin, length)
    }
}

/// Where in the code an entry is.
pub fn offset(entry: Entry) -> u64 {
    let place = entry as usize * 4;
    u64::from(u32::from_le_bytes(code()[place..place + 4].try_into().expect("four bytes")))
}

extern "C" {
    static paratick_micro_begin: u8;
    static paratick_micro_end: u8;
}

global_asm!(
    include_str!("code.s"),
    DONE = const DONE,
    NOBODY_S = const NOBODY_S,
    SERIES = const SERIES,
    PV_EOI = const SHARED,
    PV_EOI_ENABLED = const SHARED | 1,
    // A cache line each.
    TURN = const SHARED + 0x80,
    STAMP = const SHARED + 0xc0,
    READY = const SHARED + 0x100,
    EOIS = const SHARED + EOIS,
    TSC_DEADLINE = const 0x6e0,
    X2APIC_EOI = const 0x80b,
    X2APIC_SPIV = const 0x80f,
    X2APIC_ICR = const 0x830,
    X2APIC_LVTT = const 0x832,
    X2APIC_SELF_IPI = const 0x83f,
    KVM_PV_EOI_EN = const 0x4b56_4d04_u32,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_leads_into_the_code() {
        let code = code();
        let table = (Entry::OnPvEoi as u64 + 1) * 4;
        assert_eq!(offset(Entry::Main), table);
        let at = |entry: Entry, bytes: &[u8]| code[offset(entry) as usize..].starts_with(bytes);
        // lfence; rdtsc
        let now = [0x0f, 0xae, 0xe8, 0x0f, 0x31];
        for entry in [Entry::Empty, Entry::Cpuid, Entry::PioUser, Entry::OnWake, Entry::OnPvEoi] {
            assert!(at(entry, &now), "{entry:?}");
        }
        // sti
        assert!(at(Entry::Eoi, &[0xfb]) && at(Entry::PvEoi, &[0xfb]));
        // iretq ends it.
        assert!(code.ends_with(&[0x48, 0xcf]) && code.len() < 0x1000);
    }
}
