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
    /// What follows `-cpu host`.
    pub cpu: &'static str,
    pub hpet: bool,
    /// Further words for the guest's QEMU.
    pub qemu: &'static [&'static str],
    /// Proof that it is in effect: a file below /sys/devices/system/clockevents, and what the
    /// device's name there begins with.
    pub proof: (&'static str, &'static str),
}

/// A CPU whose timer works in every idle state needs neither a broadcast nor an HPET.
const NO_ARAT: &str = ",-arat";

/// In the order of [`ClockDevice`]: from 2007's worst to today's.
pub const CLOCK_DEVICES: [ClockDeviceRow; 5] = [
    ClockDeviceRow {
        device: ClockDevice::Pit,
        name: "pit",
        about:
            "one PIT for all CPUs, which the host's kernel emulates; it tells one CPU, and that \
                one the others",
        parameters: &["nolapic_timer"],
        cpu: NO_ARAT,
        hpet: false,
        qemu: &[],
        proof: ("broadcast/current_device", "pit"),
    },
    ClockDeviceRow {
        device: ClockDevice::Hpet,
        name: "hpet",
        about: "the same with an HPET, which QEMU emulates",
        parameters: &["nolapic_timer"],
        cpu: NO_ARAT,
        hpet: true,
        qemu: &[],
        proof: ("broadcast/current_device", "hpet"),
    },
    ClockDeviceRow {
        device: ClockDevice::HpetPerCpu,
        name: "hpet-per-cpu",
        about: "a channel of the HPET for each CPU, with an interrupt of its own (MSI)",
        parameters: &["nolapic_timer"],
        cpu: NO_ARAT,
        hpet: true,
        qemu: &["-global", "hpet.msi=on", "-global", "hpet.timers=32"],
        proof: ("clockevent0/current_device", "hpet"),
    },
    ClockDeviceRow {
        device: ClockDevice::Lapic,
        name: "lapic",
        about: "each CPU's APIC timer, one-shot, by its initial count",
        parameters: &["lapic=notscdeadline"],
        cpu: "",
        hpet: false,
        qemu: &[],
        proof: ("clockevent0/current_device", "lapic"),
    },
    ClockDeviceRow {
        device: ClockDevice::TscDeadline,
        name: "tsc-deadline",
        about: "each CPU's APIC timer, armed with a TSC deadline, as today",
        parameters: &[],
        cpu: "",
        hpet: false,
        qemu: &[],
        proof: ("clockevent0/current_device", "lapic-deadline"),
    },
];

impl ClockDevice {
    pub fn row(self) -> &'static ClockDeviceRow {
        &CLOCK_DEVICES[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.row().name
    }

    pub fn is_default(&self) -> bool {
        *self == ClockDevice::default()
    }

    /// Whether a device of this name, in the file of [`ClockDeviceRow::proof`], is it.
    pub fn is_proved_by(self, name: &str) -> bool {
        let is = |device: ClockDevice| name.starts_with(device.row().proof.1);
        // One name begins with the other's.
        is(self) && (self != ClockDevice::Lapic || !is(ClockDevice::TscDeadline))
    }
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
    fn one_apic_timer_is_not_taken_for_the_other() {
        let [lapic, deadline] = [ClockDevice::Lapic, ClockDevice::TscDeadline];
        assert!(lapic.is_proved_by("lapic") && !lapic.is_proved_by("lapic-deadline"));
        assert!(deadline.is_proved_by("lapic-deadline") && !deadline.is_proved_by("lapic"));
        assert!(ClockDevice::HpetPerCpu.is_proved_by("hpet2"));
        assert!(!ClockDevice::Pit.is_proved_by(""));
    }
}
