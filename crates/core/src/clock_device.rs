// SPDX-License-Identifier: GPL-2.0-only
//! Clock event devices that a guest's timers can be given, and how.

use std::{fmt, str::FromStr};

/// What a guest's kernel arms for its next timer; [`CLOCK_DEVICES`] says the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClockDevice {
    Pit,
    Hpet,
    HpetPerCpu,
    Lapic,
    #[default]
    TscDeadline,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockDeviceRow {
    pub device: ClockDevice,
    pub name: &'static str,
    pub about: &'static str,
    /// The guest's kernel parameters.
    pub parameters: &'static [&'static str],
    pub hpet: bool,
    /// Further words for the guest's QEMU.
    pub qemu: &'static [&'static str],
    /// What the kernel calls it, without a number.
    device_name: &'static str,
    /// One for all CPUs.
    pub shared: bool,
}

/// A TSC deadline would be armed all the same, and a CPU whose timer works in every idle state
/// gets no channel of an HPET; of AMD's the kernel knows that without being told.
const NO_LAPIC: &[&str] = &["nolapic_timer", "lapic=notscdeadline", "clearcpuid=arat"];

/// In the order of [`ClockDevice`]: from 2007's worst to today's.
pub const CLOCK_DEVICES: [ClockDeviceRow; 5] = [
    ClockDeviceRow {
        device: ClockDevice::Pit,
        name: "pit",
        about: "one PIT for all CPUs, which the host's kernel emulates",
        parameters: NO_LAPIC,
        hpet: false,
        qemu: &[],
        device_name: "pit",
        shared: true,
    },
    ClockDeviceRow {
        device: ClockDevice::Hpet,
        name: "hpet",
        about: "the same with an HPET, which QEMU emulates",
        parameters: NO_LAPIC,
        hpet: true,
        qemu: &[],
        device_name: "hpet",
        shared: true,
    },
    ClockDeviceRow {
        device: ClockDevice::HpetPerCpu,
        name: "hpet-per-cpu",
        about: "a channel of the HPET for each CPU, with an interrupt of its own (MSI)",
        parameters: NO_LAPIC,
        hpet: true,
        qemu: &["-global", "hpet.msi=on", "-global", "hpet.timers=32"],
        device_name: "hpet",
        shared: false,
    },
    ClockDeviceRow {
        device: ClockDevice::Lapic,
        name: "lapic",
        about: "each CPU's APIC timer, one-shot, by its initial count",
        parameters: &["lapic=notscdeadline"],
        hpet: false,
        qemu: &[],
        device_name: "lapic",
        shared: false,
    },
    ClockDeviceRow {
        device: ClockDevice::TscDeadline,
        name: "tsc-deadline",
        about: "each CPU's APIC timer, armed with a TSC deadline, as today",
        parameters: &[],
        hpet: false,
        qemu: &[],
        device_name: "lapic-deadline",
        shared: false,
    },
];

impl ClockDevice {
    pub fn row(self) -> &'static ClockDeviceRow {
        &CLOCK_DEVICES[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// As the kernel calls it, without a number.
    pub fn device_name(self) -> &'static str {
        self.row().device_name
    }

    /// Proof that it is in effect with so many CPUs: a file below
    /// /sys/devices/system/clockevents, and what device it names.
    pub fn proof(self, vcpus: u32) -> (&'static str, &'static str) {
        let row = self.row();
        // Of several CPUs, each has its APIC timer as a dummy.
        let file = match row.shared && vcpus > 1 {
            true => "broadcast/current_device",
            false => "clockevent0/current_device",
        };
        (file, row.device_name)
    }

    pub fn is_default(&self) -> bool {
        *self == ClockDevice::default()
    }
}

/// Whether a kernel's device is the one of this name: those of an HPET's channels have numbers.
pub fn is_device(found: &str, name: &str) -> bool {
    found.trim_end_matches(|c: char| c.is_ascii_digit()) == name
}

impl fmt::Display for ClockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ClockDevice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let row = CLOCK_DEVICES.iter().find(|row| row.name == text);
        row.map(|row| row.device).ok_or_else(|| {
            let names = CLOCK_DEVICES.map(|row| row.name).join(", ");
            format!("no clock device '{text}'\nhint: the devices are {names}")
        })
    }
}

crate::serde_as_text!(ClockDevice);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_has_its_own_row_and_name() {
        for row in CLOCK_DEVICES {
            assert_eq!(row.device.row(), &row);
            assert_eq!(row.name.parse(), Ok(row.device));
        }
        assert!("acpi_pm".parse::<ClockDevice>().unwrap_err().contains("hint: "));
    }

    #[test]
    fn a_device_is_known_by_its_whole_name_without_its_number() {
        assert!(is_device("hpet2", "hpet") && is_device("lapic", "lapic"));
        assert!(!is_device("lapic-deadline", "lapic") && !is_device("", "pit"));
    }
}
