// SPDX-License-Identifier: GPL-2.0-only
//! The layouts that user space shares with the BPF programs: `bpf/exits.h`, repeated.

use aya::Pod;

pub const MAX_WINDOWS: u32 = 4096;
/// Slots of the `state` array.
pub const STATE_WINDOWS: u32 = 0;
pub const STATE_LOST: u32 = 2;
pub const STATE_STRAY: u32 = 3;

/// One vCPU's thread, by its thread id.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    pub tgid: u32,
    pub vcpu: u32,
    pub isa: u32,
    pub vm: u32,
    pub total: u64,
    /// The exit whose cause is still open; none if `window` is 0.
    pub window: u32,
    pub reason: u32,
    pub msr: u32,
    pub facts: u32,
    pub wait: u32,
    pub in_timer: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub sequence: u32,
    pub tgid: u32,
    pub id: u32,
    pub pad: u32,
    pub opened_ns: u64,
    /// 0 while it is open, and for ever if it was abandoned.
    pub closed_ns: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub window: u32,
    pub vcpu: u32,
    pub reason: u32,
    pub msr: u32,
    pub facts: u32,
}

// SAFETY: plain integers without padding, in the layout of bpf/exits.h.
unsafe impl Pod for Thread {}
// SAFETY: as above.
unsafe impl Pod for Window {}
// SAFETY: as above.
unsafe impl Pod for Key {}

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::size_of;

    #[test]
    fn the_layouts_are_those_of_the_c_header() {
        assert_eq!(size_of::<Thread>(), 48);
        assert_eq!(size_of::<Window>(), 32);
        assert_eq!(size_of::<Key>(), 20);
    }

    #[test]
    fn the_header_has_the_numbers_used_here() {
        let header = include_str!("../../../../bpf/exits.h");
        assert!(header.contains(&format!("#define MAX_WINDOWS\t{MAX_WINDOWS}")));
    }
}
