// SPDX-License-Identifier: GPL-2.0-only
//! What a host's kernel does not tell of its guests.

/// Switches of KVM's, and what the processor's part of the work is called.
const OFFLOADS: [(&str, &str); 2] = [
    ("/sys/module/kvm_amd/parameters/avic", "AVIC"),
    ("/sys/module/kvm_intel/parameters/enable_apicv", "APICv"),
];

/// KVM's own count of exits, of all guests; it needs no tracepoint.
const EXITS: &str = "/sys/kernel/debug/kvm/exits";

/// The processor delivers interrupts to guests itself, without an exit.
pub fn offload() -> Option<String> {
    let is_on = |file: &str| {
        let value = std::fs::read_to_string(file).unwrap_or_default();
        matches!(value.trim(), "Y" | "1")
    };
    OFFLOADS.iter().find(|(file, _)| is_on(file)).map(|(_, name)| name.to_string())
}

/// All exits so far, as KVM counts them; none where debugfs does not say.
pub fn exits() -> Option<u64> {
    std::fs::read_to_string(EXITS).ok()?.trim().parse().ok()
}
