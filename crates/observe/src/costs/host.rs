// SPDX-License-Identifier: GPL-2.0-only
//! What the machine's processor and kernel can do for its VMs.

use paratick_instruments::untold::{Offload, APICV, AVIC};
use std::fs;

/// What the machine says of its processor and its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// None where the processor is neither AMD's nor Intel's.
    pub offload: Option<Offload>,
    /// Whether the processor has it; none: nobody tells.
    pub has_offload: Option<bool>,
    pub offload_is_on: Option<bool>,
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
        let (offload, has_offload) = offload(&read("/proc/cpuinfo").unwrap_or_default()).unzip();
        Host {
            offload,
            has_offload: has_offload.flatten(),
            offload_is_on: offload.and_then(|one| one.is_on(&read)),
            tsc: read(CLOCK).is_some_and(|clock| clock.trim() == "tsc"),
        }
    }
}

/// By the first processor in /proc/cpuinfo; with whether that has it.
fn offload(cpuinfo: &str) -> Option<(Offload, Option<bool>)> {
    let first = cpuinfo.split("\n\n").next()?;
    let words = |name: &str| {
        let line = first.lines().find(|line| line.split(':').next().unwrap().trim() == name)?;
        Some(line.split_once(':')?.1.split_whitespace().collect::<Vec<_>>())
    };
    let flags = words("flags")?;
    if flags.contains(&"svm") {
        Some((AVIC, Some(flags.contains(&"avic"))))
    } else if flags.contains(&"vmx") {
        // Older kernels do not list these.
        Some((APICV, words("vmx flags").map(|flags| flags.contains(&"apicv"))))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_processor_has_is_in_its_flags() {
        let of = |text: &str| offload(text).map(|(found, has)| (found.name, has));
        assert_eq!(of("flags\t\t: fpu svm avic\nbugs\t: x\n\n"), Some(("AVIC", Some(true))));
        assert_eq!(of("flags : fpu svm\n\nflags : svm avic\n"), Some(("AVIC", Some(false))));
        let intel = "flags : vmx\nvmx flags\t: vnmi apicv vid\n";
        assert_eq!(of(intel), Some(("APICv", Some(true))));
        assert_eq!(of("flags : vmx\nvmx flags : vnmi\n"), Some(("APICv", Some(false))));
        assert_eq!(of("flags : vmx\n"), Some(("APICv", None)));
        assert_eq!((of("flags : fpu\n"), of("")), (None, None));
    }
}
