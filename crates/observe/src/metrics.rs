// SPDX-License-Identifier: GPL-2.0-only
//! What was counted, as Prometheus reads it.  Pure.

use crate::names::is_uuid;
use paratick_core::{
    cause::Cause,
    observed::{Observed, Spent, Vm},
};
use prometheus_client::{
    collector::Collector,
    encoding::{prometheus_text, text, DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge, MetricType},
    registry::{Registry, Unit},
};
use std::{collections::BTreeMap, fmt};

/// Whoever may start a program may name it: no more of a name is told, in characters.
const LONGEST: usize = 200;

/// Formats of the text, as their readers ask for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    OpenMetrics,
    /// Prometheus' own, version 0.0.4, which everybody reads.
    Plain,
}

impl Format {
    /// By the header Accept of a request.
    pub fn accepted(accept: &str) -> Format {
        match accept.contains("application/openmetrics-text") {
            true => Format::OpenMetrics,
            false => Format::Plain,
        }
    }

    /// The header Content-Type of the answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Plain => prometheus_text::CONTENT_TYPE,
        }
    }
}

/// Sums by cause, in which VMs that have ended stay.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    causes: BTreeMap<Cause, Spent>,
    lost: u64,
}

impl Sums {
    pub fn add<'a>(&mut self, vms: impl IntoIterator<Item = &'a Vm>) {
        for vm in vms {
            self.lost += vm.lost;
            for exits in &vm.exits {
                *self.causes.entry(exits.kind.cause).or_default() += &exits.spent;
            }
        }
    }
}

/// One reading, ready to be told.
pub struct Metrics(Registry);

impl Metrics {
    /// `past` is of the VMs that `seen` does not have any more.
    pub fn of(seen: Observed, past: &Sums, by_vcpu: bool) -> Metrics {
        let mut sums = past.clone();
        sums.add(&seen.vms);
        sums.lost += seen.lost;
        let running = seen.vms.into_iter().filter(|vm| !vm.ended);
        let vms = running.map(|vm| Live::of(vm, by_vcpu)).collect();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Scrape { vms, sums }));
        Metrics(registry)
    }

    pub fn text(&self, format: Format) -> String {
        let mut told = String::new();
        let done = match format {
            Format::OpenMetrics => text::encode(&mut told, &self.0),
            Format::Plain => prometheus_text::encode(&mut told, &self.0),
        };
        done.expect("a string takes everything");
        told
    }
}

type Labels = Vec<(&'static str, String)>;

/// A VM that runs.
#[derive(Debug)]
struct Live {
    labels: Labels,
    /// What else it is called.
    info: Labels,
    lost: u64,
    /// By cause, and by vCPU if that was asked for.
    spent: Vec<(Labels, Spent)>,
}

impl Live {
    fn of(vm: Vm, by_vcpu: bool) -> Live {
        let cut = |name: &str| name.chars().take(LONGEST).collect::<String>();
        let labels = vec![("vm", cut(&vm.name)), ("pid", vm.process.to_string())];
        let (uuid, id): (Vec<_>, Vec<_>) = vm.others.iter().partition(|name| is_uuid(name));
        let other = |names: Vec<&String>| names.first().map_or_else(String::new, |name| cut(name));
        let info = [&labels[..], &[("uuid", other(uuid)), ("id", other(id))]].concat();
        let mut sums: BTreeMap<(Option<u32>, Cause), Spent> = BTreeMap::new();
        for exits in &vm.exits {
            let key = (by_vcpu.then_some(exits.vcpu), exits.kind.cause);
            *sums.entry(key).or_default() += &exits.spent;
        }
        let row = |((vcpu, cause), spent): ((Option<u32>, Cause), Spent)| {
            let vcpu = vcpu.map(|vcpu| ("vcpu", vcpu.to_string()));
            let more = vcpu.into_iter().chain([("cause", cause.name().into())]);
            (labels.iter().cloned().chain(more).collect(), spent)
        };
        let spent = sums.into_iter().map(row).collect();
        Live { labels, info, lost: vm.lost, spent }
    }
}

#[derive(Debug)]
struct Scrape {
    vms: Vec<Live>,
    sums: Sums,
}

impl Collector for Scrape {
    fn encode(&self, mut to: DescriptorEncoder) -> fmt::Result {
        let info = self.vms.iter().map(|vm| (&vm.info, 1));
        gauges(&mut to, "paratick_vm_info", "A VM that runs, and what else it is called", info)?;
        let rows = || self.vms.iter().flat_map(|vm| &vm.spent);
        let counts = rows().map(|(labels, spent)| (labels, spent.count));
        counters(&mut to, "paratick_vm_exits", "Exits of a VM that runs", counts)?;
        seconds(&mut to, "paratick_vm_exit", "From a VM's exits to the entries after", rows())?;
        let lost = self.vms.iter().map(|vm| (&vm.labels, vm.lost));
        counters(&mut to, "paratick_vm_lost", "Exits of a VM that found no room", lost)?;

        let causes = self.sums.causes.iter();
        let host: Vec<(Labels, Spent)> = causes
            .map(|(cause, spent)| (vec![("cause", cause.name().into())], spent.clone()))
            .collect();
        let counts = host.iter().map(|(labels, spent)| (labels, spent.count));
        let help = "Exits of all VMs, also those that have ended";
        counters(&mut to, "paratick_host_exits", help, counts)?;
        let help = "From all exits to the entries after";
        seconds(&mut to, "paratick_host_exit", help, &host)?;

        let help = "Exits of all VMs that found no room: no count of exits has them";
        counters(&mut to, "paratick_lost", help, [(&vec![], self.sums.lost)])?;
        let version = vec![("version", env!("CARGO_PKG_VERSION").into())];
        gauges(&mut to, "paratick_build_info", "The version of paratick", [(&version, 1)])
    }
}

fn gauges<'a>(
    to: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    rows: impl IntoIterator<Item = (&'a Labels, i64)>,
) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in rows {
        ConstGauge::new(value).encode(family.encode_family(labels)?)?;
    }
    Ok(())
}

fn counters<'a>(
    to: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    rows: impl IntoIterator<Item = (&'a Labels, u64)>,
) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, count) in rows {
        ConstCounter::new(count).encode(family.encode_family(labels)?)?;
    }
    Ok(())
}

/// Five series for each row: the parts are disjoint, and together they are all the time.
fn seconds<'a>(
    to: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    rows: impl IntoIterator<Item = &'a (Labels, Spent)>,
) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Counter)?;
    for (labels, spent) in rows {
        for (place, ns) in [
            ("kvm", spent.kvm_ns),
            ("vmm", spent.vmm_ns),
            ("interrupts", spent.interrupts_ns),
            ("blocked", spent.blocked_ns),
            ("steal", spent.steal_ns),
        ] {
            let labels = (labels.as_slice(), [("place", place)]);
            ConstCounter::new(ns as f64 / 1e9).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
