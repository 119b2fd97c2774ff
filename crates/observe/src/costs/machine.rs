// SPDX-License-Identifier: GPL-2.0-only
//! What QEMU's command line says of a VM's clocks.  Pure.

use crate::names::{option, parts};
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub hpet: bool,
    /// Whether there is any of Hyper-V's features.
    pub hyperv: bool,
    /// Hyper-V's timer.
    pub stimer: bool,
    /// The guest may rely on its TSC.
    pub invariant_tsc: bool,
}

impl Machine {
    /// None: it is no QEMU, whose options these are.
    pub fn of(line: &[String]) -> Option<Machine> {
        let program = Path::new(line.first()?).file_name()?.to_str()?;
        if !program.starts_with("qemu") && program != "kvm" {
            return None;
        }
        let values = |name| option(line, name).map(|value| parts(&value)).unwrap_or_default();
        let machine = [values("machine"), values("M")].concat();
        // libvirt gives only this: the type comes first, with a version or without.
        let is_micro = machine.iter().any(|word| word.trim_start_matches("type=") == "microvm");
        let off = ["hpet=off", "hpet=no", "hpet=false"];
        let no_hpet = machine.iter().any(|word| off.contains(&word.as_str()))
            || line.iter().any(|word| word.trim_start_matches('-') == "no-hpet");
        let cpu = values("cpu");
        let hyperv = |name: &str| {
            let names = [format!("hv-{name}"), format!("hv_{name}")];
            names.iter().any(|name| feature(&cpu, name) == Some(true))
        };
        let all = hyperv("passthrough");
        let host = cpu.first().is_some_and(|model| ["host", "max"].contains(&model.as_str()));
        let stays = feature(&cpu, "migratable") == Some(false);
        Some(Machine {
            hpet: !is_micro && !no_hpet,
            hyperv: all || cpu.iter().any(|word| word.trim_start_matches('+').starts_with("hv")),
            stimer: all || hyperv("stimer"),
            invariant_tsc: feature(&cpu, "invtsc").unwrap_or(host && stays),
        })
    }
}

/// The last word about a feature counts: `NAME`, `NAME=on`, `+NAME`, and their opposites.
fn feature(cpu: &[String], name: &str) -> Option<bool> {
    let said = |word: &String| {
        let (plain, sign) = match word.split_at_checked(1)? {
            ("+", rest) => (rest, Some(true)),
            ("-", rest) => (rest, Some(false)),
            _ => (word.as_str(), None),
        };
        let (found, value) = plain.split_once('=').unwrap_or((plain, "on"));
        let is_on = matches!(value, "on" | "yes" | "true");
        (found == name).then(|| sign.unwrap_or(is_on))
    };
    // The first word is the model.
    cpu.iter().skip(1).filter_map(said).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<Machine> {
        Machine::of(&line.split(' ').map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_plain_machine_has_an_hpet_and_no_promise_of_its_tsc() {
        let plain = Machine { hpet: true, hyperv: false, stimer: false, invariant_tsc: false };
        assert_eq!(of("/usr/bin/qemu-system-x86_64 -m 64"), Some(plain.clone()));
        assert_eq!(of("kvm -machine type=pc-q35-7.2,accel=kvm -cpu host"), Some(plain));
        assert_eq!(of("firecracker --id 7"), None);
        assert_eq!(Machine::of(&[]), None);
    }

    #[test]
    fn each_way_to_leave_the_hpet_out_is_known() {
        for line in
            ["-machine q35,hpet=off", "-M pc,accel=kvm,hpet=off", "-no-hpet", "-M microvm,rtc=on"]
        {
            assert!(!of(&format!("qemu-kvm {line}")).unwrap().hpet, "{line}");
        }
        assert!(of("qemu-kvm -machine q35,hpet=on").unwrap().hpet);
    }

    #[test]
    fn features_of_the_cpu_are_read_in_each_spelling() {
        let seen = |cpu: &str| {
            let found = of(&format!("qemu-kvm -cpu {cpu}")).unwrap();
            (found.hyperv, found.stimer, found.invariant_tsc)
        };
        assert_eq!(seen("host,migratable=off"), (false, false, true));
        assert_eq!(seen("host,migratable=on,+invtsc"), (false, false, true));
        assert_eq!(seen("Skylake-Server,invtsc=on"), (false, false, true));
        assert_eq!(seen("host,migratable=off,-invtsc"), (false, false, false));
        assert_eq!(seen("host,hv-time,hv_relaxed"), (true, false, false));
        assert_eq!(seen("host,hv_time,hv_stimer,hv-synic=on"), (true, true, false));
        assert_eq!(seen("host,hv-time,hv-stimer=off"), (true, false, false));
        assert_eq!(seen("host,hv-passthrough"), (true, true, false));
    }
}
