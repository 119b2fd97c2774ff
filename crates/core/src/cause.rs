// SPDX-License-Identifier: GPL-2.0-only
//! Why an exit happened, in timer terms.

use crate::reason::Isa;
use serde::{Deserialize, Serialize};

/// The cause of a VM exit; how each is decided is told in docs/measuring.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
    /// The host's own timer interrupt, with nothing in it for this vCPU.
    HostTick,
    /// The vCPU had nothing to do: HLT (or MWAIT), or the hypercall that halts until a deadline.
    Halt,
    /// An inter-processor interrupt, sent by the guest or received by the host's CPU.
    Ipi,
    /// The guest acknowledged an interrupt (EOI).
    Eoi,
    /// Port or memory-mapped I/O, or a device interrupt of the host.
    Io,
    Other,
}

impl Cause {
    pub const ALL: [Cause; 9] = {
        use Cause::*;
        [Arm, Stop, Expiry, HostTick, Halt, Ipi, Eoi, Io, Other]
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
            Cause::HostTick => "the host's own timer interrupt",
            Cause::Halt => "the vCPU has nothing to do",
            Cause::Ipi => "an interrupt from one vCPU to another",
            Cause::Eoi => "the guest acknowledges an interrupt",
            Cause::Io => "input or output, or a device's interrupt",
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
/// The bits are those that `bpf/exits.h` defines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts(pub u32);

impl Facts {
    /// The MSR is known.
    pub const MSR: Facts = Facts(1 << 0);
    /// An MSR was written, not read.
    pub const WRITE: Facts = Facts(1 << 1);
    /// The value written is not 0.
    pub const NONZERO: Facts = Facts(1 << 2);
    /// A nested page fault on a page of memory-mapped I/O.
    pub const MMIO: Facts = Facts(1 << 3);
    /// The `msr` is really an offset into the page of APIC registers.
    pub const APIC_REGISTER: Facts = Facts(1 << 4);
    /// The first handler that ran was the local timer's.
    pub const TIMER: Facts = Facts(1 << 5);
    /// In which KVM's timer of the vCPU expired.
    pub const VCPU_TIMER: Facts = Facts(1 << 6);
    /// The first handler that ran was an inter-processor interrupt's.
    pub const IPI: Facts = Facts(1 << 7);
    /// The first handler that ran was a device's.
    pub const DEVICE: Facts = Facts(1 << 8);
    /// The hypercall by which the guest halts, with the deadline that it waits for.
    pub const HALT: Facts = Facts(1 << 9);
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

/// Decides the cause of an exit; `register` is the MSR, or the offset of an APIC register.
pub fn decide(isa: Isa, code: u32, register: u32, facts: Facts) -> Cause {
    if facts.has(Facts::APIC_REGISTER) {
        // The value written is not known: xAPIC guests that stop their timer look like arming.
        return apic_register(register, true).unwrap_or(Cause::Io);
    }
    match (isa, code) {
        (Isa::Svm, 0x60) | (Isa::Vmx, 1) => interrupt(facts),
        (Isa::Svm, 0x78 | 0x8b | 0x8c) | (Isa::Vmx, 12 | 36) => Cause::Halt,
        (Isa::Svm, 0x81) | (Isa::Vmx, 18) if facts.has(Facts::HALT) => Cause::Halt,
        (Isa::Svm, 0x7b) | (Isa::Vmx, 30 | 49) => Cause::Io,
        (Isa::Svm, 0x7c) | (Isa::Vmx, 32) => msr_write(register, facts),
        (Isa::Svm, 0x400) if facts.has(Facts::MMIO) => Cause::Io,
        (Isa::Svm, 0x401) => Cause::Ipi,
        (Isa::Vmx, 45) => Cause::Eoi,
        (Isa::Vmx, 52) => Cause::Expiry,
        _ => Cause::Other,
    }
}

fn interrupt(facts: Facts) -> Cause {
    if facts.has(Facts::TIMER | Facts::VCPU_TIMER) {
        Cause::Expiry
    } else if facts.has(Facts::TIMER) {
        Cause::HostTick
    } else if facts.has(Facts::IPI) {
        Cause::Ipi
    } else if facts.has(Facts::DEVICE) {
        Cause::Io
    } else {
        Cause::Other
    }
}

/// The MSR that holds the deadline of the local APIC's timer.
pub const TSC_DEADLINE: u32 = 0x6e0;

fn msr_write(msr: u32, facts: Facts) -> Cause {
    if !facts.has(Facts::MSR | Facts::WRITE) {
        return Cause::Other;
    }
    let nonzero = facts.has(Facts::NONZERO);
    match msr {
        TSC_DEADLINE if nonzero => Cause::Arm,
        TSC_DEADLINE => Cause::Stop,
        // x2APIC: one MSR for each register of the page.
        0x800..=0x8ff => apic_register((msr - 0x800) << 4, nonzero).unwrap_or(Cause::Other),
        _ => Cause::Other,
    }
}

fn apic_register(offset: u32, nonzero: bool) -> Option<Cause> {
    match offset {
        0x0b0 => Some(Cause::Eoi),
        0x300 | 0x310 | 0x3f0 => Some(Cause::Ipi),
        0x380 if nonzero => Some(Cause::Arm),
        0x380 => Some(Cause::Stop),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WRITE: Facts = Facts(Facts::MSR.0 | Facts::WRITE.0);

    fn svm(code: u32, register: u32, facts: Facts) -> Cause {
        decide(Isa::Svm, code, register, facts)
    }

    #[test]
    fn a_deadline_arms_and_a_deadline_of_zero_stops() {
        assert_eq!(svm(0x7c, 0x6e0, WRITE | Facts::NONZERO), Cause::Arm);
        assert_eq!(svm(0x7c, 0x6e0, WRITE), Cause::Stop);
        assert_eq!(svm(0x7c, 0x6e0, Facts::MSR), Cause::Other);
        let vmx = decide(Isa::Vmx, 32, 0x838, WRITE | Facts::NONZERO);
        assert_eq!(vmx, Cause::Arm);
    }

    #[test]
    fn an_interrupt_exit_is_named_by_its_first_handler() {
        assert_eq!(svm(0x60, 0, Facts::TIMER), Cause::HostTick);
        assert_eq!(svm(0x60, 0, Facts::TIMER | Facts::VCPU_TIMER), Cause::Expiry);
        assert_eq!(svm(0x60, 0, Facts::IPI), Cause::Ipi);
        assert_eq!(svm(0x60, 0, Facts::DEVICE), Cause::Io);
        assert_eq!(svm(0x60, 0, Facts::default()), Cause::Other);
    }

    #[test]
    fn a_halt_is_a_halt_whatever_follows() {
        for facts in [Facts::default(), Facts::TIMER | Facts::VCPU_TIMER, Facts::IPI] {
            assert_eq!(svm(0x78, 0, facts), Cause::Halt);
            assert_eq!(decide(Isa::Vmx, 12, 0, facts), Cause::Halt);
        }
    }

    #[test]
    fn a_hypercall_is_a_halt_if_it_is_the_one_that_halts() {
        for (isa, code) in [(Isa::Svm, 0x81), (Isa::Vmx, 18)] {
            assert_eq!(decide(isa, code, 0, Facts::HALT | Facts::IPI), Cause::Halt);
            assert_eq!(decide(isa, code, 0, Facts::IPI), Cause::Other);
        }
        assert_eq!(svm(0x72, 0, Facts::HALT), Cause::Other);
    }

    #[test]
    fn a_nested_page_fault_is_io_only_on_an_io_page() {
        assert_eq!(svm(0x400, 0, Facts::MMIO), Cause::Io);
        assert_eq!(svm(0x400, 0, Facts::default()), Cause::Other);
        assert_eq!(svm(0x400, 0xb0, Facts::MMIO | Facts::APIC_REGISTER), Cause::Eoi);
    }

    #[test]
    fn interrupt_acknowledgement_and_ipis_are_known_by_their_msr() {
        assert_eq!(svm(0x7c, 0x80b, WRITE), Cause::Eoi);
        assert_eq!(svm(0x7c, 0x830, WRITE | Facts::NONZERO), Cause::Ipi);
        assert_eq!(svm(0x7c, 0xc000_0080, WRITE | Facts::NONZERO), Cause::Other);
    }

    proptest! {
        #[test]
        fn only_interrupts_and_the_timers_registers_are_timer_causes(
            code in 0u32..0x410, register: u32, facts: u32,
        ) {
            let facts = Facts(facts & !Facts::APIC_REGISTER.0);
            let cause = svm(code, register, facts);
            if cause.is_timer() {
                prop_assert!(code == 0x60 || code == 0x7c);
            }
        }
    }

    #[test]
    fn a_cause_is_written_in_json_as_its_name() {
        for cause in Cause::ALL {
            let json = serde_json::to_string(&cause).unwrap();
            assert_eq!(json, format!("\"{}\"", cause.name()));
            assert_eq!(serde_json::from_str::<Cause>(&json).unwrap(), cause);
        }
    }
}
