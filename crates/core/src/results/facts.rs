// SPDX-License-Identifier: GPL-2.0-only
//! The facts that numbers depend on: one table decides what is printed of them, what keeps a
//! measurement from being continued, and what keeps two from being compared.

use super::{Configuration, Environment, Results};
use crate::size::Size;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

pub struct Fact {
    pub name: &'static str,
    value: fn(&Results) -> Value,
    pub meets: Meets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meets {
    /// A report prints it.
    pub printed: bool,
    /// Samples where it differs do not belong into one file.
    pub resume: bool,
    /// What a difference is to a comparison of two files.
    pub compare: Compare,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// It may explain what changed.
    Explains,
    /// Counts say nothing about each other.
    Blocks,
    /// It is no difference between what was measured.
    Ignores,
}

/// As a file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Text(String),
    /// Compared as a whole; its beginning is shown.
    Hash(String),
    Unknown,
    /// Differs in what is not the same on both sides; not printed.
    Options(BTreeMap<String, String>),
    /// Differs where both sides name something and do not agree: one file may hold more than the
    /// other.
    Named(BTreeMap<String, String>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub what: String,
    pub before: String,
    pub after: String,
}

const UNKNOWN: &str = "none or unknown";
/// A hash is told apart by its beginning.
const HASH: usize = 12;
/// Kernels of different origin differ in hundreds of options.
const OPTIONS: usize = 12;

const PRINTED: Meets = Meets { printed: true, resume: false, compare: Compare::Explains };
const EXPLAINS: Meets = Meets { printed: false, ..PRINTED };
const BINDS: Meets = Meets { resume: true, ..PRINTED };
const HIDDEN: Meets = Meets { printed: false, ..BINDS };

const fn fact(name: &'static str, meets: Meets, value: fn(&Results) -> Value) -> Fact {
    Fact { name, value, meets }
}

/// The plan first, then kernels, configuration, machine, programs, emulator.
pub const FACTS: [Fact; 32] = [
    fact("bench", HIDDEN, |r| text(&r.bench)),
    fact("vCPUs of a guest", HIDDEN, |r| text(r.plan.vcpus)),
    fact("sockets of a guest", HIDDEN, |r| text(r.plan.sockets.unwrap_or(1))),
    fact("latency of a guest's disk", HIDDEN, |r| {
        // Each ns counts, where a time is rounded for its reader.
        maybe(r.plan.disk_latency_ns.map(|ns| format!("{ns} ns")))
    }),
    fact("who moves guests' packets", HIDDEN, |r| {
        maybe(r.plan.network.map(|network| network.to_string()))
    }),
    fact("device of a guest's disk", HIDDEN, |r| text(r.plan.disk_device)),
    fact("guests", Meets { compare: Compare::Blocks, ..HIDDEN }, |r| text(r.plan.guests)),
    fact("guests' kernel", PRINTED, |r| said(&r.environment.kernel_version)),
    fact("guests' patches", PRINTED, |r| hash(r.environment.patch_set_hash.as_deref())),
    fact("guests' kernel image", HIDDEN, |r| hash(Some(&of(r).kernel_sha256))),
    fact("host's kernel", PRINTED, |r| said(&r.environment.host_kernel_version)),
    fact("host's patches", PRINTED, |r| hash(r.environment.host_patch_set_hash.as_deref())),
    fact("host's kernel image", HIDDEN, |r| hash(Some(&of(r).host_kernel_sha256))),
    fact("guests' tick rate", PRINTED, |r| maybe(of(r).hz)),
    fact("host's tick rate", PRINTED, |r| maybe(of(r).host_hz)),
    fact("guests' kernel options", EXPLAINS, |r| {
        of(r).kernel_config.clone().map_or(Value::Unknown, Value::Options)
    }),
    fact("memory of a guest", BINDS, |r| text(Size(of(r).guest_memory_bytes))),
    fact("host's CPUs", BINDS, |r| text(of(r).host_cpus)),
    fact("host's memory", BINDS, |r| text(Size(of(r).host_memory_bytes))),
    fact("host", BINDS, |r| host(of(r))),
    fact("time of an instruction", BINDS, |r| maybe(of(r).ns_per_instruction.map(ns))),
    fact("cost of a world switch", BINDS, |r| {
        match of(r).exit_cost_ns.unwrap_or(0) {
            // Older files say null where newer ones say 0.
            0 => text("none"),
            cost => text(ns(cost)),
        }
    }),
    fact("lab's clock", BINDS, |r| match of(r).parallel_clock {
        true => text("shared by CPUs that run at once"),
        false => text("the sum of all CPUs' instructions"),
    }),
    fact("package", BINDS, |r| Value::Named(r.environment.packages.clone())),
    fact("QEMU", BINDS, |r| maybe(r.environment.qemu_version.as_ref())),
    fact("agent", HIDDEN, |r| known(r, "agent")),
    fact("QEMU's program", HIDDEN, |r| known(r, "qemu")),
    fact("processor, kernel and KVM of the host", HIDDEN, |r| known(r, "host")),
    fact("paratick", EXPLAINS, |r| text(&r.tool_version)),
    fact("machine's processor", PRINTED, |r| said(&r.environment.machine.cpu)),
    fact("machine's CPUs", PRINTED, |r| text(r.environment.machine.cpus)),
    fact("machine", Meets { compare: Compare::Ignores, ..PRINTED }, |r| machine(&r.environment)),
];

fn of(results: &Results) -> &Configuration {
    &results.environment.configuration
}

fn text(value: impl Display) -> Value {
    Value::Text(value.to_string())
}

fn said(value: &str) -> Value {
    match value.is_empty() {
        true => Value::Unknown,
        false => text(value),
    }
}

fn maybe(value: Option<impl Display>) -> Value {
    value.map_or(Value::Unknown, text)
}

fn hash(value: Option<&str>) -> Value {
    value.map_or(Value::Unknown, |hash| Value::Hash(hash.into()))
}

/// A hash that older files do not have.
fn known(results: &Results, name: &str) -> Value {
    hash(results.environment.hashes.get(name).map(String::as_str))
}

fn ns(value: u32) -> String {
    format!("{value} ns")
}

fn host(configuration: &Configuration) -> Value {
    match configuration.accelerator.as_deref() {
        _ if configuration.host_is_machine => text("the machine itself"),
        Some(accelerator) => text(format!("in the lab, by {accelerator}")),
        None => Value::Unknown,
    }
}

fn machine(environment: &Environment) -> Value {
    let machine = &environment.machine;
    let or = |known: Option<String>, what: &str| known.unwrap_or(format!("{what} not known"));
    let gib = machine.memory_bytes as f64 / f64::from(1 << 30);
    let memory = (machine.memory_bytes > 0).then(|| format!("{gib:.1} GiB"));
    let kernel = Some(machine.kernel_version.clone()).filter(|version| !version.is_empty());
    let distribution = or(machine.distribution.clone(), "distribution");
    text(format!("{}, {}, {distribution}", or(memory, "memory"), or(kernel, "kernel")))
}

impl Fact {
    pub fn shown(&self, results: &Results) -> String {
        match (self.value)(results) {
            Value::Text(text) => text,
            Value::Hash(hash) => beginning(&hash),
            Value::Named(all) if !all.is_empty() => {
                let all: Vec<_> =
                    all.iter().map(|(name, value)| format!("{name} {value}")).collect();
                all.join(", ")
            }
            Value::Unknown | Value::Named(_) | Value::Options(_) => UNKNOWN.into(),
        }
    }

    fn differences(&self, before: &Results, after: &Results) -> Vec<Difference> {
        let (old, new) = ((self.value)(before), (self.value)(after));
        let one = |what: String, before, after| vec![Difference { what, before, after }];
        let name = self.name.to_string();
        match (&old, &new) {
            _ if old == new => Vec::new(),
            (Value::Options(old), Value::Options(new)) => {
                one(name, unlike(old, new), unlike(new, old))
            }
            (Value::Options(_), _) | (_, Value::Options(_)) => Vec::new(),
            (Value::Named(old), Value::Named(new)) => {
                let names: BTreeSet<_> =
                    old.keys().filter(|name| new.contains_key(*name)).collect();
                let differ = names.into_iter().filter(|name| old[*name] != new[*name]);
                differ
                    .flat_map(|it| one(format!("{name} {it}"), old[it].clone(), new[it].clone()))
                    .collect()
            }
            // The beginnings may be alike.
            (Value::Hash(old), Value::Hash(new)) if beginning(old) == beginning(new) => {
                one(name, old.clone(), new.clone())
            }
            _ => one(name, self.shown(before), self.shown(after)),
        }
    }
}

fn beginning(hash: &str) -> String {
    hash.chars().take(HASH).collect()
}

fn unlike(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) -> String {
    let differs = |(name, value): &(&String, &String)| other.get(*name) != Some(*value);
    let mut written: Vec<_> =
        one.iter().filter(differs).map(|(name, value)| format!("{name}={value}")).collect();
    if written.len() > OPTIONS {
        let more = written.len() - OPTIONS;
        written.truncate(OPTIONS);
        written.push(format!("and {more} more"));
    }
    match written {
        none if none.is_empty() => "not set".to_string(),
        written => written.join(" "),
    }
}

/// In the facts that `wanted` picks.
pub fn differences(
    before: &Results,
    after: &Results,
    wanted: impl Fn(Meets) -> bool,
) -> Vec<Difference> {
    let wanted = FACTS.iter().filter(|fact| wanted(fact.meets));
    wanted.flat_map(|fact| fact.differences(before, after)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_options_the_first_ones_are_told() {
        let options = |n: usize| (0..n).map(|i| (format!("O{i:02}"), "y".to_string())).collect();
        let none = BTreeMap::new();
        assert_eq!(unlike(&none, &options(2)), "not set");
        assert_eq!(unlike(&options(2), &none), "O00=y O01=y");
        assert!(unlike(&options(OPTIONS), &none).ends_with(" O11=y"));
        let many = unlike(&options(OPTIONS + 30), &none);
        assert!(many.starts_with("O00=y ") && many.ends_with(" O11=y and 30 more"), "{many}");
    }
}
