// SPDX-License-Identifier: GPL-2.0-only
//! Why an exit happened, in timer terms.

mod x86;

pub use x86::{About, Noted, TIMERS, TSC_DEADLINE};

use serde::{Deserialize, Serialize};

/// The cause of a VM exit; how each is decided is told in docs/measuring.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Cause {
    /// The guest armed its timer (TSC_DEADLINE or TMICT written with a value).
    Arm,
    /// The guest stopped its timer (the same registers written with 0).
    Stop,
    /// The vCPU's timer expired while the vCPU ran.
    Expiry,
    /// The host's own tick.
    HostTick,
    /// A timer interrupt of the host's for something else: a task's slice, a timer of a driver's.
    HostTimer,
    /// The vCPU had nothing to do: HLT (or MWAIT), or the hypercall that halts until a deadline.
    Halt,
    /// An inter-processor interrupt, sent by the guest or received by the host's CPU.
    Ipi,
    /// The guest acknowledged an interrupt (EOI).
    Eoi,
    /// The guest read a clock that is not the TSC alone, or set it up.
    Clock,
    /// Port or memory-mapped I/O, or a device interrupt of the host.
    Io,
    /// An exit of a guest's guest, which its own hypervisor deals with.
    Nested,
    /// Anything else.
    Other,
}

impl Cause {
    pub const ALL: [Cause; 12] = {
        use Cause::*;
        [Arm, Stop, Expiry, HostTick, HostTimer, Halt, Ipi, Eoi, Clock, Io, Nested, Other]
    };

    pub fn name(self) -> &'static str {
        self.into()
    }

    /// One clause for documents and reports.
    pub fn about(self) -> &'static str {
        match self {
            Cause::Arm => "the guest arms its timer",
            Cause::Stop => "the guest stops its timer",
            Cause::Expiry => "the guest's timer expires while the guest runs",
            Cause::HostTick => "the host's own tick",
            Cause::HostTimer => "another timer of the host's",
            Cause::Halt => "the vCPU has nothing to do",
            Cause::Ipi => "an interrupt from one CPU to another",
            Cause::Eoi => "the guest acknowledges an interrupt",
            Cause::Clock => "the guest reads a clock, or sets it up",
            Cause::Io => "input or output, or a device's interrupt",
            Cause::Nested => "an exit of a guest's guest, for its own hypervisor",
            Cause::Other => "anything else",
        }
    }

    /// Whether a tick technique could have removed the exit.
    pub fn is_timer(self) -> bool {
        matches!(self, Cause::Arm | Cause::Stop | Cause::Expiry | Cause::HostTick)
    }
}

/// What was observed of one exit besides its reason, from the exit to the vCPU's next one.
///
/// The bits are those that `bpf/exits.h` defines, which says more of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts(pub u32);

impl Facts {
    /// The detail is an MSR.
    pub const MSR: Facts = Facts(1 << 0);
    /// It was written, not read.
    pub const WRITE: Facts = Facts(1 << 1);
    /// The value written is not 0.
    pub const NONZERO: Facts = Facts(1 << 2);
    /// The detail is an address of memory-mapped I/O.
    pub const MMIO: Facts = Facts(1 << 3);
    /// The detail is an offset into the page of APIC registers.
    pub const APIC_REGISTER: Facts = Facts(1 << 4);
    /// The first handler that ran was a timer's.
    pub const TIMER: Facts = Facts(1 << 5);
    /// In which KVM's timer of a vCPU expired: the detail says which.
    pub const VCPU_TIMER: Facts = Facts(1 << 6);
    /// The first handler that ran was an inter-processor interrupt's.
    pub const IPI: Facts = Facts(1 << 7);
    /// The first handler that ran was a device's.
    pub const DEVICE: Facts = Facts(1 << 8);
    /// The detail is the number of a hypercall of KVM's.
    pub const HYPERCALL: Facts = Facts(1 << 9);
    /// … of Hyper-V's.
    pub const HV_CALL: Facts = Facts(1 << 10);
    /// … of Xen's, with the command above 32 bits.
    pub const XEN_CALL: Facts = Facts(1 << 11);
    /// The detail is a port; above 16 bits, the byte that says what it is about.
    pub const PORT: Facts = Facts(1 << 12);
    /// The host's tick expired.
    pub const HOST_TICK: Facts = Facts(1 << 13);
    /// The end of a task's slice came.
    pub const HRTICK: Facts = Facts(1 << 14);
    /// Another timer expired: the detail is its function.
    pub const OTHER_TIMER: Facts = Facts(1 << 15);
    /// Of a guest's guest.
    pub const NESTED: Facts = Facts(1 << 16);
    /// … whose own hypervisor deals with it.
    pub const REFLECTED: Facts = Facts(1 << 17);
    /// The guest told the reason itself (SEV-ES).
    pub const VMGEXIT: Facts = Facts(1 << 18);
    /// Whether an APIC's register was written 0 is known.
    pub const VALUE: Facts = Facts(1 << 19);
    /// The detail and the other facts were left out: the vCPU has too many of them.
    pub const MANY: Facts = Facts(1 << 20);
    /// Not an exit, but something about a virtual tick.
    pub const TICK: Facts = Facts(1 << 31);

    pub fn has(self, fact: Facts) -> bool {
        self.0 & fact.0 == fact.0
    }
}

impl std::ops::BitOr for Facts {
    type Output = Facts;

    fn bitor(self, other: Facts) -> Facts {
        Facts(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_written_in_json_as_its_name() {
        for cause in Cause::ALL {
            let json = serde_json::to_string(&cause).unwrap();
            assert_eq!(json, format!("\"{}\"", cause.name()));
            assert_eq!(serde_json::from_str::<Cause>(&json).unwrap(), cause);
        }
    }
}
