// SPDX-License-Identifier: GPL-2.0-only
//! What the machine's processor and kernel can do for its VMs.

use std::fs;

/// AVIC or APICv, which deliver interrupts to guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    pub name: &'static str,
    /// The module of KVM's with the switch, and the switch.
    pub switch: [&'static str; 2],
    /// None: nobody tells.
    pub processor_has: Option<bool>,
    pub is_on: Option<bool>,
}

/// What the machine says of its processor and its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// None where the processor is neither AMD's nor Intel's.
    pub offload: Option<Offload>,
    /// Its clock is the TSC, so the kernel trusts that.
    pub tsc: bool,
}

impl Host {
    pub fn here() -> Host {
        Host::of(|file| fs::read_to_string(file).ok())
    }

    /// By the texts of its files.
    pub fn of(read: impl Fn(&str) -> Option<String>) -> Host {
        const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let offload = offload(&read("/proc/cpuinfo").unwrap_or_default()).map(|found| {
            let [module, switch] = found.switch;
            let value = read(&format!("/sys/module/{module}/parameters/{switch}"));
            let is_on = value.map(|value| matches!(value.trim(), "Y" | "1"));
            Offload { is_on, ..found }
        });
        Host { offload, tsc: read(CLOCK).is_some_and(|clock| clock.trim() == "tsc") }
    }
}

/// By the first processor in /proc/cpuinfo.
fn offload(cpuinfo: &str) -> Option<Offload> {
    let first = cpuinfo.split("\n\n").next()?;
    let words = |name: &str| {
        let line = first.lines().find(|line| line.split(':').next().unwrap().trim() == name)?;
        Some(line.split_once(':')?.1.split_whitespace().collect::<Vec<_>>())
    };
    let flags = words("flags")?;
    let (name, switch, processor_has) = if flags.contains(&"svm") {
        ("AVIC", ["kvm_amd", "avic"], Some(flags.contains(&"avic")))
    } else if flags.contains(&"vmx") {
        // Older kernels do not list these.
        let has = words("vmx flags").map(|flags| flags.contains(&"apicv"));
        ("APICv", ["kvm_intel", "enable_apicv"], has)
    } else {
        return None;
    };
    Some(Offload { name, switch, processor_has, is_on: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_processor_has_is_in_its_flags() {
        let of = |text: &str| offload(text).map(|found| (found.name, found.processor_has));
        assert_eq!(of("flags\t\t: fpu svm avic\nbugs\t: x\n\n"), Some(("AVIC", Some(true))));
        assert_eq!(of("flags : fpu svm\n\nflags : svm avic\n"), Some(("AVIC", Some(false))));
        let intel = "flags : vmx\nvmx flags\t: vnmi apicv vid\n";
        assert_eq!(of(intel), Some(("APICv", Some(true))));
        assert_eq!(of("flags : vmx\nvmx flags : vnmi\n"), Some(("APICv", Some(false))));
        assert_eq!(of("flags : vmx\n"), Some(("APICv", None)));
        assert_eq!((of("flags : fpu\n"), of("")), (None, None));
    }
}
