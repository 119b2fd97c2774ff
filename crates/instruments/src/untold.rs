// SPDX-License-Identifier: GPL-2.0-only
//! What a host's kernel does not tell of its guests.

/// A processor's part of delivering interrupts, and the switch of KVM's for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    pub name: &'static str,
    pub module: &'static str,
    pub switch: &'static str,
}

pub const AVIC: Offload = Offload { name: "AVIC", module: "kvm_amd", switch: "avic" };
pub const APICV: Offload = Offload { name: "APICv", module: "kvm_intel", switch: "enable_apicv" };

impl Offload {
    /// By the texts of the machine's files; none: the module does not say.
    pub fn is_on(&self, read: impl Fn(&str) -> Option<String>) -> Option<bool> {
        let value = read(&format!("/sys/module/{}/parameters/{}", self.module, self.switch))?;
        Some(matches!(value.trim(), "Y" | "1"))
    }
}

/// KVM's own count of exits, of all guests; it needs no tracepoint.
const EXITS: &str = "/sys/kernel/debug/kvm/exits";

/// The processor delivers interrupts to guests itself, without an exit.
pub fn offload() -> Option<String> {
    let is_on = |one: &Offload| one.is_on(|file| std::fs::read_to_string(file).ok());
    let mut both = [AVIC, APICV].into_iter();
    both.find(|one| is_on(one) == Some(true)).map(|one| one.name.to_string())
}

/// All exits so far, as KVM counts them; none where debugfs does not say.
pub fn exits() -> Option<u64> {
    std::fs::read_to_string(EXITS).ok()?.trim().parse().ok()
}
