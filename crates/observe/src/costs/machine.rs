// SPDX-License-Identifier: GPL-2.0-only
//! What QEMU's command line says of a VM's clocks.  Pure.

use crate::names::{option, options, parts};
use serde_json::Value;
use std::path::Path;

/// In ns, where an iothread's options do not say.
const POLL_MAX_NS: u64 = 32768;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub hpet: bool,
    /// Whether there is any of Hyper-V's features.
    pub hyperv: bool,
    /// Hyper-V's timer.
    pub stimer: bool,
    /// Its end of an interrupt without an exit.
    pub vapic: bool,
    /// The guest may rely on its TSC.
    pub invariant_tsc: bool,
    /// The word by which a guest has no paravirtual EOI.
    pub no_pv_eoi: Option<&'static str>,
    /// … and no kvm-clock.
    pub no_kvm_clock: Option<&'static str>,
    pub iothreads: Vec<Iothread>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iothread {
    pub id: String,
    pub poll_max_ns: u64,
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
        let all = feature(&cpu, "hv-passthrough") == Some(true);
        let off = |one: &'static str| {
            let mut both = ["kvm=off", one].into_iter();
            both.find(|word| feature(&cpu, word.trim_end_matches("=off")) == Some(false))
        };
        let host = cpu.first().is_some_and(|model| ["host", "max"].contains(&model.as_str()));
        let stays = feature(&cpu, "migratable") == Some(false);
        Some(Machine {
            hpet: !is_micro && !no_hpet,
            hyperv: all || cpu.iter().any(|word| word.trim_start_matches('+').starts_with("hv")),
            stimer: all || feature(&cpu, "hv-stimer") == Some(true),
            vapic: all || feature(&cpu, "hv-vapic") == Some(true),
            invariant_tsc: feature(&cpu, "invtsc").unwrap_or(host && stays),
            no_pv_eoi: off("kvm-pv-eoi=off"),
            no_kvm_clock: off("kvmclock=off"),
            iothreads: options(line, "object").filter_map(|value| iothread(&value)).collect(),
        })
    }
}

/// As people write it, or in JSON, as libvirt does.
fn iothread(object: &str) -> Option<Iothread> {
    if let Ok(Value::Object(object)) = serde_json::from_str(object) {
        let poll = object.get("poll-max-ns").and_then(Value::as_u64);
        let id = object.get("id")?.as_str()?.to_string();
        let is_one = object.get("qom-type").is_some_and(|kind| kind == "iothread");
        return is_one.then_some(Iothread { id, poll_max_ns: poll.unwrap_or(POLL_MAX_NS) });
    }
    let parts = parts(object);
    if !["iothread", "qom-type=iothread"].contains(&parts.first()?.as_str()) {
        return None;
    }
    let value = |name: &str| parts.iter().find_map(|part| part.strip_prefix(name));
    let poll = value("poll-max-ns=").map_or(Some(POLL_MAX_NS), |ns| ns.parse().ok());
    Some(Iothread { id: value("id=")?.to_string(), poll_max_ns: poll? })
}

/// The last word about a feature counts: `NAME`, `NAME=on`, `+NAME`, and their opposites; with
/// `_` or with `-`.
fn feature(cpu: &[String], name: &str) -> Option<bool> {
    let said = |word: &String| {
        let (plain, sign) = match word.split_at_checked(1)? {
            ("+", rest) => (rest, Some(true)),
            ("-", rest) => (rest, Some(false)),
            _ => (word.as_str(), None),
        };
        let (found, value) = plain.split_once('=').unwrap_or((plain, "on"));
        let is_on = matches!(value, "on" | "yes" | "true");
        (found.replace('_', "-") == name).then(|| sign.unwrap_or(is_on))
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
        let plain = Machine {
            hpet: true,
            hyperv: false,
            stimer: false,
            vapic: false,
            invariant_tsc: false,
            no_pv_eoi: None,
            no_kvm_clock: None,
            iothreads: Vec::new(),
        };
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

    #[test]
    fn what_takes_the_paravirtual_eoi_away_is_named() {
        let seen = |cpu: &str| of(&format!("qemu-kvm -cpu {cpu}")).unwrap().no_pv_eoi;
        assert_eq!(seen("host,kvm=off"), Some("kvm=off"));
        assert_eq!(seen("host,-kvm_pv_eoi"), Some("kvm-pv-eoi=off"));
        assert_eq!(seen("host,kvm-pv-eoi=on,kvm=on"), None);
        let clock = |cpu: &str| of(&format!("qemu-kvm -cpu {cpu}")).unwrap().no_kvm_clock;
        assert_eq!(clock("host,kvm=off,-kvmclock"), Some("kvm=off"));
        assert_eq!((clock("host,-kvmclock"), clock("host")), (Some("kvmclock=off"), None));
    }

    #[test]
    fn iothreads_are_found_in_both_spellings() {
        let line = [
            "qemu-kvm",
            "-object",
            "iothread,id=a,poll-max-ns=0",
            "-object",
            r#"{"qom-type":"iothread","id":"b"}"#,
            "-object",
            r#"{"qom-type":"rng-random","id":"c"}"#,
            "--object=iothread,id=d",
            "-object",
            "iothread,id=e,poll-max-ns=1ms",
        ];
        let found = Machine::of(&line.map(String::from)).unwrap().iothreads;
        let found: Vec<_> = found.iter().map(|one| (one.id.as_str(), one.poll_max_ns)).collect();
        assert_eq!(found, [("a", 0), ("b", 32768), ("d", 32768)]);
    }
}
