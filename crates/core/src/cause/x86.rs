// SPDX-License-Identifier: GPL-2.0-only
//! Causes on x86: a row for each register, port, address and hypercall that is a timer's or a
//! clock's (arch/x86/include/uapi/asm, arch/x86/kvm; the devices' data sheets).

use super::{Cause, Facts};
use crate::reason::{self, Isa};

/// The MSR that holds the deadline of the local APIC's timer.
pub const TSC_DEADLINE: u32 = 0x6e0;

/// All that was noted of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    pub isa: Isa,
    pub code: u32,
    /// What the exit was about; the facts say what that is.
    pub detail: u64,
    pub facts: Facts,
}

/// What an exit was about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    Text(String),
    /// The function, at that address of the host's kernel, of a timer that expired.
    Function(u64),
}

impl Noted {
    /// As KVM's tracepoint prints it.
    pub fn reason(&self) -> String {
        let name = reason::name(self.isa, self.code, self.has(Facts::WRITE));
        match self.has(Facts::VMGEXIT) {
            true => format!("vmgexit: {name}"),
            false => name,
        }
    }

    pub fn cause(&self) -> Cause {
        let reason = (self.isa, reason::bare(self.isa, self.code));
        // An interrupt is the host's, also if what it brings takes the guest's guest off.
        let is_interrupt = matches!(reason, (Isa::Svm, 0x60) | (Isa::Vmx, 1));
        if self.has(Facts::REFLECTED) && !is_interrupt {
            return Cause::Nested;
        }
        if self.has(Facts::MANY) {
            return Cause::Other;
        }
        if self.has(Facts::APIC_REGISTER) {
            return self.apic_register(self.detail, self.has(Facts::WRITE)).unwrap_or(Cause::Io);
        }
        match reason {
            (Isa::Svm, 0x60) | (Isa::Vmx, 1) => self.interrupt(),
            // HLT, MWAIT, idle HLT; and the loop of a processor that waits to be started.
            (Isa::Svm, 0x78 | 0x8b | 0x8c | 0xa6 | 0x8000_0004) | (Isa::Vmx, 12 | 36) => {
                Cause::Halt
            }
            (Isa::Svm, 0x81) | (Isa::Vmx, 18) => self.hypercall(),
            (Isa::Svm, 0x7b) | (Isa::Vmx, 30) => self.port(),
            (Isa::Svm, 0x7c) | (Isa::Vmx, 31 | 32 | 84 | 85) => self.msr(),
            (Isa::Vmx, 49) => self.mmio(),
            (Isa::Svm, 0x400 | 0x8000_0001 | 0x8000_0002) | (Isa::Vmx, 48)
                if self.has(Facts::MMIO) =>
            {
                self.mmio()
            }
            (Isa::Svm, 0x401) => Cause::Ipi,
            (Isa::Vmx, 45) => Cause::Eoi,
            (Isa::Vmx, 52) => Cause::Expiry,
            // RDTSC, RDTSCP.
            (Isa::Svm, 0x6e | 0x87) | (Isa::Vmx, 16 | 51) => Cause::Clock,
            _ => Cause::Other,
        }
    }

    /// None where the reason says all that is known.
    pub fn about(&self) -> Option<About> {
        let detail = self.detail;
        let text = if self.has(Facts::MANY) {
            "too many to keep apart".into()
        } else if self.has(Facts::MSR) {
            // No index has more bits.
            reason::msr_name(detail as u32)
        } else if self.has(Facts::APIC_REGISTER) {
            format!("APIC, {}", name(APIC, detail).unwrap_or(&format!("{detail:#x}")))
        } else if self.has(Facts::PORT) {
            let port = detail & 0xffff;
            match device(PORTS, port) {
                Some(device) => format!("{device}, port {port:#x}"),
                None => format!("port {port:#x}"),
            }
        } else if self.has(Facts::MMIO) && detail != 0 {
            let device = [("HPET", HPET), ("I/O APIC", IO_APIC)];
            match device.iter().find(|(_, addresses)| addresses.contains(&detail)) {
                Some((device, _)) => format!("{device}, {detail:#x}"),
                None => format!("page {detail:#x}"),
            }
        } else if self.has(Facts::HYPERCALL) {
            call("KVM", KVM_CALLS, detail)
        } else if self.has(Facts::HV_CALL) {
            call("Hyper-V", HV_CALLS, detail)
        } else if self.has(Facts::XEN_CALL) {
            call("Xen", XEN_CALLS, detail & 0xffff_ffff)
        } else if self.has(Facts::TIMER | Facts::VCPU_TIMER) {
            let nth = usize::try_from(detail).ok()?.checked_sub(1)?;
            (*TIMERS.get(nth)?.first()?).into()
        } else if self.has(Facts::TIMER | Facts::HOST_TICK) {
            return None;
        } else if self.has(Facts::TIMER | Facts::HRTICK) {
            "hrtick".into()
        } else if self.has(Facts::TIMER | Facts::OTHER_TIMER) {
            return Some(About::Function(detail));
        } else {
            return None;
        };
        Some(About::Text(text))
    }

    fn has(&self, facts: Facts) -> bool {
        self.facts.has(facts)
    }

    fn interrupt(&self) -> Cause {
        if self.has(Facts::TIMER | Facts::VCPU_TIMER) {
            Cause::Expiry
        } else if self.has(Facts::TIMER | Facts::HOST_TICK) {
            Cause::HostTick
        } else if self.has(Facts::TIMER) {
            Cause::HostTimer
        } else if self.has(Facts::IPI) {
            Cause::Ipi
        } else if self.has(Facts::DEVICE) {
            Cause::Io
        } else {
            Cause::Other
        }
    }

    /// A register that arms a timer with a value, and stops it with 0.
    fn armed(&self) -> Cause {
        match self.has(Facts::NONZERO) {
            true => Cause::Arm,
            false => Cause::Stop,
        }
    }

    fn msr(&self) -> Cause {
        if !self.has(Facts::MSR) {
            return Cause::Other;
        }
        let write = self.has(Facts::WRITE);
        match (self.detail, write) {
            (0x6e0, true) => self.armed(),
            // x2APIC: an MSR for each register of the page.
            (msr @ 0x800..=0x8ff, _) => {
                self.apic_register((msr - 0x800) << 4, write).unwrap_or(Cause::Other)
            }
            // Hyper-V's: EOI, ICR, EOM, and pairs of a timer's configuration and count.
            (0x4000_0070 | 0x4000_0084, true) => Cause::Eoi,
            (0x4000_0071, true) => Cause::Ipi,
            (0x4000_00b0..=0x4000_00b7, true) => self.armed(),
            (0x4000_00f0, false) => Cause::Halt,
            (msr, _) if CLOCK_MSRS.contains(&msr) => Cause::Clock,
            _ => Cause::Other,
        }
    }

    fn apic_register(&self, offset: u64, write: bool) -> Option<Cause> {
        match offset {
            0x0b0 => Some(Cause::Eoi),
            0x300 | 0x310 | 0x3f0 => Some(Cause::Ipi),
            // Of an MSR, the value is known; of the page, on kernels that tell it.
            0x380 if write && self.has(Facts::APIC_REGISTER) && !self.has(Facts::VALUE) => {
                Some(Cause::Arm)
            }
            0x380 if write => Some(self.armed()),
            0x390 => Some(Cause::Clock),
            _ => None,
        }
    }

    fn port(&self) -> Cause {
        let value = self.detail >> 16;
        match (self.detail & 0xffff, self.has(Facts::WRITE)) {
            // The PIT's first channel is the timer; the third measures time.
            (0x40, true) => Cause::Arm,
            (0x40, false) | (0x42, _) => Cause::Clock,
            // Its command: to latch a count, to read back, or for the third channel.
            (0x43, true) if value & 0x30 == 0 || value >> 6 >= 2 => Cause::Clock,
            (0x43, true) => Cause::Arm,
            // The RTC's register: of the alarm, B's interrupts or A's rate, C's flags; above are
            // a PC's settings.
            (0x71, true) if matches!(value, 1 | 3 | 5 | 0xa | 0xb) => Cause::Arm,
            (0x70 | 0x71, _) if value == 0xc => Cause::Eoi,
            // The time, and the century where QEMU has it.
            (0x70 | 0x71, _) if value < 0xe || value == 0x32 => Cause::Clock,
            // Commands to a PIC, of which a running guest gives that for the end of an interrupt.
            (0x20 | 0xa0, true) => Cause::Eoi,
            (port, false) if PM_TIMERS.contains(&port) => Cause::Clock,
            _ => Cause::Io,
        }
    }

    fn mmio(&self) -> Cause {
        if !HPET.contains(&self.detail) {
            return Cause::Io;
        }
        match (self.detail - HPET.start, self.has(Facts::WRITE)) {
            // The status of its interrupts.
            (0x20..=0x27, _) => Cause::Eoi,
            // A timer's configuration and comparator.
            (0x100.., true) => Cause::Arm,
            _ => Cause::Clock,
        }
    }

    fn hypercall(&self) -> Cause {
        let command = self.detail >> 32;
        if self.has(Facts::HYPERCALL) {
            return match self.detail {
                20 => Cause::Halt,
                5 | 10 => Cause::Ipi,
                9 => Cause::Clock,
                _ => Cause::Other,
            };
        }
        if self.has(Facts::HV_CALL) {
            return match self.detail {
                0x0b | 0x15 => Cause::Ipi,
                0x5c | 0x5d => Cause::Io,
                _ => Cause::Other,
            };
        }
        if !self.has(Facts::XEN_CALL) {
            return Cause::Other;
        }
        match (self.detail & 0xffff_ffff, command) {
            (15, _) => self.armed(),
            (24, 6 | 8) => Cause::Arm,
            (24, 7 | 9) => Cause::Stop,
            (29, 1 | 3) => Cause::Halt,
            (32, 4) => Cause::Ipi,
            _ => Cause::Other,
        }
    }
}

fn name<'a>(rows: &[(u64, &'a str)], number: u64) -> Option<&'a str> {
    rows.iter().find(|row| row.0 == number).map(|row| row.1)
}

type Ports = (std::ops::RangeInclusive<u64>, &'static str);

fn device(rows: &[Ports], number: u64) -> Option<&'static str> {
    rows.iter().find(|row| row.0.contains(&number)).map(|row| row.1)
}

fn call(whose: &str, rows: &[(u64, &str)], number: u64) -> String {
    match name(rows, number) {
        Some(name) => format!("{whose}'s {name}"),
        None => format!("{whose}'s hypercall {number:#x}"),
    }
}

/// The functions in which a timer expires, of which a kernel has the first that it knows; in the
/// order of bpf/exits.h, from 1 on.  Those of vCPUs, the host's tick, the end of a task's slice.
pub const TIMERS: [&[&str]; 8] = [
    &["apic_timer_fn"],
    &["kvm_pv_tick_timer_fn"],
    &["stimer_timer_callback"],
    &["xen_timer_callback"],
    &["pit_timer_fn"],
    &["vmx_preemption_timer_fn"],
    // Where there is the one, before Linux 6.8, the other is no timer's.
    &["tick_sched_timer", "tick_nohz_handler"],
    &["hrtick"],
];

/// TSC and its adjustment, KVM's clock (old and new numbers), and Hyper-V's: reference counter and
/// page, frequencies, what a guest that migrates is told of them.
#[rustfmt::skip]
const CLOCK_MSRS: [u64; 14] = [
    0x10, 0x3b, 0x11, 0x12, 0x4b56_4d00, 0x4b56_4d01, 0x4000_0020, 0x4000_0021, 0x4000_0022,
    0x4000_0023, 0x4000_0106, 0x4000_0107, 0x4000_0108, 0x4000_0118,
];

/// The address of the only HPET that VMMs have.
const HPET: std::ops::Range<u64> = 0xfed0_0000..0xfed0_1000;

/// Of the first I/O APIC; its lines are masked and ended there.
const IO_APIC: std::ops::Range<u64> = 0xfec0_0000..0xfec0_1000;

/// ACPI's PM timer where QEMU and Cloud Hypervisor have it, and where QEMU had it and Xen does.
/// A guest that moves it makes it a port like others.
const PM_TIMERS: [u64; 2] = [0x608, 0xb008];

#[rustfmt::skip]
const PORTS: &[Ports] = &[
    (0x20..=0x21, "PIC"), (0xa0..=0xa1, "PIC"), (0x40..=0x43, "PIT"), (0x60..=0x60, "i8042"),
    (0x64..=0x64, "i8042"), (0x61..=0x61, "system control"), (0x70..=0x71, "RTC"),
    (0x2f8..=0x2ff, "serial"), (0x3f8..=0x3ff, "serial"), (0x608..=0x60b, "PM timer"),
    (0xb008..=0xb00b, "PM timer"), (0xcf8..=0xcff, "PCI"), (0x80..=0x80, "delay"),
];

#[rustfmt::skip]
const APIC: &[(u64, &str)] = &[
    (0x020, "ID"), (0x030, "LVR"), (0x080, "TPR"), (0x0b0, "EOI"), (0x0d0, "LDR"), (0x0e0, "DFR"),
    (0x0f0, "SPIV"), (0x280, "ESR"), (0x300, "ICR"), (0x310, "ICR2"), (0x320, "LVTT"),
    (0x340, "LVTPC"), (0x350, "LVT0"), (0x360, "LVT1"), (0x370, "LVTERR"), (0x380, "TMICT"),
    (0x390, "TMCCT"), (0x3e0, "TDCR"), (0x3f0, "SELF_IPI"),
];

#[rustfmt::skip]
const KVM_CALLS: &[(u64, &str)] = &[
    (1, "VAPIC_POLL_IRQ"), (5, "KICK_CPU"), (9, "CLOCK_PAIRING"), (10, "SEND_IPI"),
    (11, "SCHED_YIELD"), (12, "MAP_GPA_RANGE"), (20, "HALT_UNTIL"),
];

#[rustfmt::skip]
const HV_CALLS: &[(u64, &str)] = &[
    (0x02, "FLUSH_VIRTUAL_ADDRESS_SPACE"), (0x03, "FLUSH_VIRTUAL_ADDRESS_LIST"),
    (0x08, "NOTIFY_LONG_SPIN_WAIT"), (0x0b, "SEND_IPI"), (0x13, "FLUSH_VIRTUAL_ADDRESS_SPACE_EX"),
    (0x14, "FLUSH_VIRTUAL_ADDRESS_LIST_EX"), (0x15, "SEND_IPI_EX"), (0x5c, "POST_MESSAGE"),
    (0x5d, "SIGNAL_EVENT"),
];

#[rustfmt::skip]
const XEN_CALLS: &[(u64, &str)] = &[
    (12, "memory_op"), (15, "set_timer_op"), (17, "xen_version"), (20, "grant_table_op"),
    (24, "vcpu_op"), (29, "sched_op"), (32, "event_channel_op"), (34, "hvm_op"),
];

#[cfg(test)]
#[path = "x86_tests.rs"]
mod tests;
