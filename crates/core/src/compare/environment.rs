// SPDX-License-Identifier: GPL-2.0-only
//! What two measurements depended on, where it differs.

use crate::results::{Configuration, Environment, Machine, Results};
use serde::Serialize;
use std::{collections::BTreeMap, fmt::Display};

/// One thing that is not the same in both files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub what: String,
    pub before: String,
    pub after: String,
}

/// What stands where a file does not say.
const UNKNOWN: &str = "none or unknown";

/// A hash is told apart by its beginning.
const HASH: usize = 12;

struct Differences(Vec<Difference>);

impl Differences {
    fn look<T: PartialEq + Display>(&mut self, what: &str, before: T, after: T) {
        if before != after {
            self.0.push(Difference {
                what: what.into(),
                before: before.to_string(),
                after: after.to_string(),
            });
        }
    }

    fn maybe<T: PartialEq + Display>(&mut self, what: &str, before: Option<T>, after: Option<T>) {
        let text = |value: Option<T>| value.map_or(UNKNOWN.to_string(), |value| value.to_string());
        self.look(what, text(before), text(after));
    }

    /// Compares the whole, shows the beginning.
    fn hash(&mut self, what: &str, before: Option<&str>, after: Option<&str>) {
        if before != after {
            let short = |hash: Option<&str>| hash.map(|hash| hash.chars().take(HASH).collect());
            let (short_before, short_after) = (short(before), short(after));
            match short_before == short_after {
                true => self.maybe::<&str>(what, before, after),
                false => self.maybe::<String>(what, short_before, short_after),
            }
        }
    }
}

/// The plan first, then kernels, configuration, machine, programs, emulator.
pub fn differences(before: &Results, after: &Results) -> Vec<Difference> {
    let mut found = Differences(Vec::new());
    found.look("bench", &before.bench, &after.bench);
    found.look("vCPUs of a guest", before.plan.vcpus, after.plan.vcpus);
    found.look("guests", before.plan.guests, after.plan.guests);
    kernels(&mut found, before, after);
    let (old, new) = (&before.environment, &after.environment);
    configuration(&mut found, &old.configuration, &new.configuration);
    machine(&mut found, &old.machine, &new.machine);
    packages(&mut found, old, new);
    found.maybe("QEMU", old.qemu_version.as_ref(), new.qemu_version.as_ref());
    found.look("paratick", &before.tool_version, &after.tool_version);
    if found.0.is_empty() && old.fingerprint != new.fingerprint {
        // Hashes of these are only in the fingerprint.
        found.hash(
            "the agent, or the emulator's build or plugin (by the fingerprint)",
            Some(&old.fingerprint),
            Some(&new.fingerprint),
        );
    }
    found.0
}

fn kernels(found: &mut Differences, before: &Results, after: &Results) {
    let (old, new) = (&before.environment, &after.environment);
    found.look("guests' kernel", &old.kernel_version, &new.kernel_version);
    found.hash(
        "guests' patches",
        old.patch_set_hash.as_deref(),
        new.patch_set_hash.as_deref(),
    );
    found.hash(
        "guests' kernel image",
        Some(&old.configuration.kernel_sha256),
        Some(&new.configuration.kernel_sha256),
    );
    found.look(
        "host's kernel",
        &old.host_kernel_version,
        &new.host_kernel_version,
    );
    found.hash(
        "host's patches",
        old.host_patch_set_hash.as_deref(),
        new.host_patch_set_hash.as_deref(),
    );
    found.hash(
        "host's kernel image",
        Some(&old.configuration.host_kernel_sha256),
        Some(&new.configuration.host_kernel_sha256),
    );
}

fn configuration(found: &mut Differences, old: &Configuration, new: &Configuration) {
    found.maybe("guests' tick rate", old.hz, new.hz);
    options(found, old, new);
    let bytes = |bytes: u64| format!("{bytes} bytes");
    found.look(
        "memory of a guest",
        bytes(old.guest_memory_bytes),
        bytes(new.guest_memory_bytes),
    );
    found.look("host's CPUs", old.host_cpus, new.host_cpus);
    found.look(
        "host's memory",
        bytes(old.host_memory_bytes),
        bytes(new.host_memory_bytes),
    );
    let ns = |ns: u64| format!("{ns} ns");
    found.maybe(
        "host's halt polling",
        old.halt_poll_ns.map(ns),
        new.halt_poll_ns.map(ns),
    );
    let host = |configuration: &Configuration| match configuration.accelerator.as_deref() {
        _ if configuration.host_is_machine => "the machine itself".to_string(),
        Some(accelerator) => format!("in the lab, by {accelerator}"),
        None => UNKNOWN.to_string(),
    };
    found.look("host", host(old), host(new));
    found.maybe(
        "time of an instruction",
        old.ns_per_instruction.map(|n| ns(n.into())),
        new.ns_per_instruction.map(|n| ns(n.into())),
    );
    // Older files say null where newer ones say 0.
    let cost = |cost: Option<u32>| match cost.unwrap_or(0) {
        0 => "none".to_string(),
        cost => ns(cost.into()),
    };
    found.look(
        "cost of a world switch",
        cost(old.exit_cost_ns),
        cost(new.exit_cost_ns),
    );
    let clock = |parallel: bool| match parallel {
        true => "shared by CPUs that run at once",
        false => "the sum of all CPUs' instructions",
    };
    found.look(
        "lab's clock",
        clock(old.parallel_clock),
        clock(new.parallel_clock),
    );
}

/// Those of the guests' kernel that are not the same, by name.
fn options(found: &mut Differences, old: &Configuration, new: &Configuration) {
    let (Some(old), Some(new)) = (&old.kernel_config, &new.kernel_config) else {
        return;
    };
    let unlike = |one: &BTreeMap<String, String>, other: &BTreeMap<String, String>| {
        let differs = |(name, value): &(&String, &String)| other.get(*name) != Some(*value);
        let written = one.iter().filter(differs);
        let written: Vec<_> = written
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        match written.is_empty() {
            true => "not set".to_string(),
            false => written.join(" "),
        }
    };
    found.look("guests' kernel options", unlike(old, new), unlike(new, old));
}

/// Of those that both files name: one file may hold more programs than the other.
fn packages(found: &mut Differences, old: &Environment, new: &Environment) {
    for (name, version) in &old.packages {
        if let Some(other) = new.packages.get(name) {
            found.look(&format!("package {name}"), version, other);
        }
    }
}

fn machine(found: &mut Differences, old: &Machine, new: &Machine) {
    found.look("machine's processor", &old.cpu, &new.cpu);
    found.look("machine's CPUs", old.cpus, new.cpus);
    found.look("machine's kernel", &old.kernel_version, &new.kernel_version);
}
