// SPDX-License-Identifier: GPL-2.0-only
//! What decides how much an exit costs on this machine.

use paratick_core::calibration::{Machine, Meaning};
use paratick_service::guest::is_emulated;
use std::{arch::x86_64::__cpuid, fs};

/// Parameters of KVM's modules that change what exits there are, or what they take.
const PARAMETERS: [&str; 13] = [
    "halt_poll_ns",
    "lapic_timer_advance",
    "lapic_timer_advance_ns",
    "enable_pmu",
    "ple_gap",
    "ple_window",
    "ple_window_max",
    "enable_apicv",
    "enable_ipiv",
    "pause_filter_count",
    "pause_filter_thresh",
    "avic",
    "nested",
];

/// Words of the kernel's command line that begin so decide, too.
const WORDS: [&str; 9] =
    ["mitigations", "spectre", "spec_", "nospec", "retbleed", "mds", "l1tf", "pti", "nopti"];

pub fn machine() -> Machine {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        pairs.map(|(key, value)| (key.trim(), value.trim())).find(|(key, _)| *key == name)
    };
    let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let decides = |word: &&str| WORDS.iter().any(|begin| word.starts_with(begin));
    let folder = fs::read_dir("/sys/devices/system/cpu/vulnerabilities");
    let mitigation = |file: fs::DirEntry| {
        let name = file.file_name().to_string_lossy().into_owned();
        Some((name, fs::read_to_string(file.path()).ok()?.trim().to_string()))
    };
    let parameter = |module: &str, name: &str| {
        let file = format!("/sys/module/{module}/parameters/{name}");
        Some((format!("{module}.{name}"), fs::read_to_string(file).ok()?.trim().to_string()))
    };
    let vendor = field("vendor_id").map(|(_, value)| value.to_string());
    let modules = modules(vendor.as_deref().unwrap_or_default());
    let all = modules.iter();
    let all = all.flat_map(|module| PARAMETERS.iter().map(move |name| (module, name)));
    Machine {
        parameters: all.filter_map(|(module, name)| parameter(module, name)).collect(),
        vendor,
        cpu: field("model name").map(|(_, value)| value.into()),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        command_line: line.split_whitespace().filter(decides).map(String::from).collect(),
        mitigations: folder.into_iter().flatten().flatten().filter_map(mitigation).collect(),
        modules,
    }
}

/// KVM's.  Where they are built in, the other vendor's is there, too, and does nothing.
fn modules(vendor: &str) -> Vec<String> {
    let unused = match vendor {
        "GenuineIntel" => "kvm_amd",
        _ => "kvm_intel",
    };
    let all = fs::read_dir("/sys/module").into_iter().flatten().flatten();
    let names = all.map(|one| one.file_name().to_string_lossy().into_owned());
    let mut kvm: Vec<_> = names.filter(|name| name == "kvm" || name.starts_with("kvm_")).collect();
    kvm.retain(|name| name != unused);
    kvm.sort();
    kvm
}

pub fn meaning() -> Meaning {
    match hypervisor() {
        _ if is_emulated() => Meaning::Emulated,
        Some(name) => Meaning::Nested(name),
        None => Meaning::Hardware,
    }
}

/// What CPUID calls the hypervisor below this machine.
fn hypervisor() -> Option<String> {
    // SAFETY: every x86-64 processor has CPUID.  Newer compilers know that.
    #[allow(unused_unsafe)]
    let (features, leaf) = unsafe { (__cpuid(1), __cpuid(0x4000_0000)) };
    let name = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat();
    let name = String::from_utf8_lossy(&name).trim_end_matches('\0').to_string();
    // Only a hypervisor has such a leaf.
    (features.ecx >> 31 == 1).then_some(if name.is_empty() {
        "without a name".into()
    } else {
        name
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described() {
        let machine = machine();
        assert!(!machine.kernel.is_empty() && machine.cpu.is_some() && machine.vendor.is_some());
        assert!(machine.parameters.keys().all(|name| name.starts_with("kvm")));
        // The kernel writes the same bit as a flag.
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap();
        let flag = cpuinfo.lines().any(|line| {
            line.starts_with("flags") && line.split_whitespace().any(|word| word == "hypervisor")
        });
        assert_eq!(hypervisor().is_some(), flag);
    }
}
