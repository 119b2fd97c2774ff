// SPDX-License-Identifier: GPL-2.0-only
//! Which of the files given is for what.

use crate::{
    change::{geometric_mean, Change, Metric, Versus, PAPERS},
    number, paper,
};
use paratick_core::{
    balancing::Balancing,
    catalogue::idle_tables,
    clock_device::ClockDevice,
    disk_device::DiskDevice,
    mode::Mode,
    network::Network,
    results::{Cell, Results},
    units::{Hz, Nanos},
};
use std::collections::BTreeMap;

/// One bench in one size, measured at one or several costs of a world switch.
#[derive(Clone, Debug)]
pub struct Set<'a> {
    /// By cost, the lowest first; never empty.
    pub by_cost: Vec<&'a Results>,
}

impl<'a> Set<'a> {
    /// Of a single result.
    pub fn alone(results: &'a Results) -> Self {
        Set { by_cost: vec![results] }
    }

    /// The one that figures are drawn from: the middle of the costs.
    pub fn main(&self) -> &'a Results {
        self.by_cost[self.by_cost.len() / 2]
    }

    pub fn bench(&self) -> &'a str {
        &self.main().bench
    }

    pub fn vcpus(&self) -> u32 {
        self.main().plan.vcpus
    }

    /// As the paper names its sizes, where it does.
    pub fn name(&self) -> String {
        let (name, plan) = (self.of_its_size(), &self.main().plan);
        match (plan.sockets, plan.disk_latency_ns, plan.disk_device) {
            (Some(sockets), ..) => format!("{name}, {sockets} sockets"),
            (None, Some(ns), _) => format!("{name}, of a disk that takes {}", Nanos(ns)),
            (None, None, DiskDevice::Nvme) => format!("{name}, of an NVMe disk"),
            (None, None, DiskDevice::VirtioBlk) => name,
        }
    }

    fn of_its_size(&self) -> String {
        match (self.bench(), self.vcpus()) {
            ("multithreaded", 4) => "multithreaded, small (4 vCPUs)".into(),
            ("multithreaded", 16) => "multithreaded, medium (16 vCPUs)".into(),
            ("multithreaded", 64) => "multithreaded, large (64 vCPUs)".into(),
            ("sequential", 1) => "sequential".into(),
            ("io", 1) => "input and output".into(),
            ("table1", vcpus) => format!(
                "Table 1, {} with {vcpus} vCPUs",
                number::plural(self.main().plan.guests as usize, "guest")
            ),
            ("quick", vcpus) => {
                format!("small workloads ({})", number::plural(vcpus as usize, "vCPU"))
            }
            ("polling", vcpus) => format!(
                "halt polling, {} with {}",
                number::plural(self.main().plan.guests as usize, "guest"),
                number::plural(vcpus as usize, "vCPU")
            ),
            ("network", _) => {
                let network = self.main().plan.network.unwrap_or_default();
                format!("two guests that talk to each other, over {network}")
            }
            (IDLE, _) => format!(
                "{} side by side",
                number::plural(self.main().plan.guests as usize, "idle guest")
            ),
            ("noise", vcpus) => {
                let plan = &self.main().plan;
                let isolated = plan.isolation.map_or("nothing".into(), |one| one.to_string());
                format!(
                    "noise of a guest of {} on {}, isolated: {isolated}",
                    number::plural(vcpus as usize, "vCPU"),
                    number::plural(plan.host_cpus.unwrap_or(vcpus + 1) as usize, "CPU")
                )
            }
            (MILEAGE, _) if self.main().plan.balances => {
                format!("a busy guest ({})", guest_of(self.main()))
            }
            (MILEAGE, _) => format!("an idle guest ({})", guest_of(self.main())),
            (bench, vcpus) => format!("{bench} ({})", number::plural(vcpus as usize, "vCPU")),
        }
    }

    /// For ids within the page.
    pub fn slug(&self) -> String {
        let plan = &self.main().plan;
        let hz = shown_hz(self.main()).map_or(String::new(), |hz| format!("-{}", hz.0));
        let isolated = plan.isolation.map_or(String::new(), |one| {
            format!("-{one}-{}", plan.host_cpus.unwrap_or(plan.vcpus + 1))
        });
        let kind = match self.bench() {
            MILEAGE => format!("-{}", guest_of(self.main()).replace([' ', ',', '\''], "-")),
            _ => isolated,
        };
        let sockets = plan.sockets.map_or(String::new(), |n| format!("-sockets-{n}"));
        let disk = plan.disk_latency_ns.map_or(String::new(), |ns| format!("-disk-{ns}"));
        let device = match (plan.disk_device, plan.network) {
            (_, Some(network)) => format!("-{network}"),
            (DiskDevice::VirtioBlk, None) => String::new(),
            (device, None) => format!("-{device}"),
        };
        let (bench, guests, vcpus) = (self.bench(), plan.guests, plan.vcpus);
        format!("{bench}-{guests}x{vcpus}{hz}{kind}{sockets}{disk}{device}")
    }

    /// Cells by workload, in the results' order.
    pub fn workloads(&self) -> Vec<(&'a str, Vec<&'a Cell>)> {
        let mut groups: Vec<(&str, Vec<&Cell>)> = Vec::new();
        for cell in &self.main().cells {
            match groups.iter_mut().find(|(name, _)| *name == cell.workload) {
                Some((_, cells)) => cells.push(cell),
                None => groups.push((&cell.workload, vec![cell])),
            }
        }
        groups
    }

    /// Each workload that has both modes, with its cells of the mode and of its baseline.
    pub fn pairs(&self, versus: Versus) -> Vec<(&'a str, &'a Cell, &'a Cell)> {
        let results = self.main();
        let cell = |name, mode| results.cell(name, mode);
        let cells = |name| Some((name, cell(name, versus.mode)?, cell(name, versus.baseline)?));
        self.workloads().into_iter().filter_map(|(name, _)| cells(name)).collect()
    }

    /// Those of our modes that were measured beside `baseline`, with it.
    pub fn versus(&self, baseline: Mode) -> Vec<Versus> {
        let all = Versus::against(baseline).into_iter();
        all.filter(|versus| !self.pairs(*versus).is_empty()).collect()
    }

    /// What the mode changes against its baseline.
    pub fn changes(&self, metric: Metric, versus: Versus) -> Vec<(&'a str, Option<Change>)> {
        let pairs = self.pairs(versus).into_iter();
        pairs.map(|(name, mode, _)| (name, metric.of(mode, versus.baseline))).collect()
    }

    pub fn average(&self, metric: Metric, versus: Versus) -> Option<Change> {
        average(&self.changes(metric, versus))
    }

    /// The paper's average; it has none of our mode, and none against today's kernel.
    pub fn printed(&self, metric: Metric, versus: Versus) -> Option<f64> {
        let average = paper::average(self.bench(), self.vcpus(), metric);
        average.filter(|_| versus == PAPERS)
    }

    /// A benchmark with the workload of the paper's suite that it stands for.
    pub fn label(&self, name: &str) -> String {
        let mut planned = self.main().plan.workloads.iter();
        let planned = planned.find(|planned| planned.workload == name);
        let program = planned.and_then(|planned| planned.program.as_ref());
        match program.and_then(|program| program.stands_for.as_ref()) {
            Some(other) if other != name => format!("{name} (for {other})"),
            _ => name.into(),
        }
    }

    /// `2 boots × 2 runs` of each workload and mode.
    pub fn samples(&self) -> String {
        counts(self.main())
    }

    /// Whether the paper averages its metrics.
    pub fn is_evaluated(&self) -> bool {
        ["sequential", "multithreaded", "io"].contains(&self.bench())
    }

    pub fn is_emulated(&self) -> bool {
        let configuration = &self.main().environment.configuration;
        configuration.ns_per_instruction.is_some()
    }

    /// The metric's name, and whether its time is virtual.
    pub fn name_of(&self, metric: Metric) -> &'static str {
        match metric {
            Metric::Time if self.is_emulated() => "Execution time (virtual)",
            _ => metric.name(),
        }
    }
}

/// Whether CPUs that are busy at once slow each other down, as those of the lab's serial clock do.
pub fn takes_turns(results: &Results) -> bool {
    let configuration = &results.environment.configuration;
    let serial = configuration.ns_per_instruction.is_some() && !configuration.parallel_clock;
    serial && results.plan.vcpus > 1
}

pub fn average(changes: &[(&str, Option<Change>)]) -> Option<Change> {
    let measured: Vec<Change> = changes.iter().filter_map(|(_, change)| *change).collect();
    geometric_mean(&measured)
}

/// Names of the metrics in these sets: time is called virtual where it is so in every set.
pub fn metrics(sets: &[&Set]) -> [&'static str; 3] {
    let real = sets.iter().find(|set| !set.is_emulated());
    let any = real.or(sets.first());
    Metric::ALL.map(|metric| any.map_or(metric.name(), |set| set.name_of(metric)))
}

/// `2 boots × 2 runs` of each workload and mode, as there are: where a bench was interrupted or
/// continued, some have more than others.
fn counts(results: &Results) -> String {
    let (mut boots, mut runs) = (Vec::new(), Vec::new());
    for cell in &results.cells {
        let mut by_round: BTreeMap<u32, usize> = BTreeMap::new();
        for sample in cell.samples() {
            *by_round.entry(sample.round).or_default() += 1;
        }
        boots.push(by_round.len());
        runs.extend(by_round.into_values());
    }
    format!("{} × {}", least_to_most(&boots, "boot"), least_to_most(&runs, "run"))
}

fn least_to_most(counts: &[usize], what: &str) -> String {
    let least = counts.iter().min().copied().unwrap_or(0);
    let most = counts.iter().max().copied().unwrap_or(0);
    match least == most {
        true => number::plural(most, what),
        false => format!("{least} to {most} {what}s"),
    }
}

/// What the emulator was told to charge for a world switch; 0 where it was told nothing.
pub fn cost_ns(results: &Results) -> u32 {
    results.environment.configuration.exit_cost_ns.unwrap_or(0)
}

#[derive(Clone, Debug, Default)]
pub struct Selection<'a> {
    pub sets: Vec<Set<'a>>,
}

impl<'a> Selection<'a> {
    /// Of results of which no two are [`alike`].
    pub fn new(results: &'a [Results]) -> Self {
        let mut groups: BTreeMap<_, Vec<&Results>> = BTreeMap::new();
        for result in results {
            let (plan, bench) = (&result.plan, result.bench.as_str());
            let order = BENCHES.iter().position(|name| *name == bench);
            let tuned = (plan.host_cpus, plan.isolation, kind(result), hardware(result));
            let key = (order, plan.vcpus, plan.guests, shown_hz(result), tuned, bench);
            groups.entry(key).or_default().push(result);
        }
        let sets = groups.into_values().map(|mut by_cost| {
            by_cost.sort_by_key(|result| cost_ns(result));
            Set { by_cost }
        });
        Selection { sets: sets.collect() }
    }

    pub fn of<'s>(&'s self, bench: &'s str) -> impl Iterator<Item = &'s Set<'a>> + 's {
        self.sets.iter().filter(move |set| set.bench() == bench)
    }

    pub fn results(&self) -> impl Iterator<Item = &'a Results> + '_ {
        let results = self.sets.iter().flat_map(|set| &set.by_cost);
        results.copied()
    }

    /// Those whose metrics the paper averages.
    pub fn evaluated(&self) -> Vec<&Set<'a>> {
        self.sets.iter().filter(|set| set.is_evaluated()).collect()
    }
}

const BENCHES: [&str; 10] = [
    "table1",
    "sequential",
    "multithreaded",
    "io",
    "network",
    "quick",
    "polling",
    IDLE,
    "noise",
    MILEAGE,
];
/// Whose sets belong together, of several tick rates.
const IDLE: &str = "idle";
/// The same, and of several kinds of guests.
const MILEAGE: &str = idle_tables::BENCH;

/// What a guest's timers are armed with, how its sampler is set, and who balances its load.
fn kind(results: &Results) -> (ClockDevice, Option<bool>, bool, Option<Balancing>) {
    let plan = &results.plan;
    let deferrable = plan.sampler.map(|sampler| sampler.deferrable);
    (plan.clock_device, deferrable, plan.balances, plan.balancing)
}

/// `2 vCPUs, tsc-deadline, deferrable sampler`.
fn guest_of(results: &Results) -> String {
    let vcpus = number::plural(results.plan.vcpus as usize, "vCPU");
    let (device, deferrable, balances, balancing) = kind(results);
    if balances {
        let who = balancing.map_or("each vCPU's tick".into(), |policy| policy.to_string());
        return format!("{vcpus}, load balanced by {who}");
    }
    let sampler = match deferrable {
        None => "",
        Some(false) => ", sampler",
        Some(true) => ", deferrable sampler",
    };
    format!("{vcpus}, {device}{sampler}")
}

/// The guests' tick rate, where a report shows several.
fn shown_hz(results: &Results) -> Option<Hz> {
    results
        .environment
        .configuration
        .hz
        .filter(|_| [IDLE, MILEAGE].contains(&results.bench.as_str()))
}

/// What a guest has of its own: packages of CPUs, a disk that takes a time, what that is, and a
/// network.
fn hardware(results: &Results) -> (Option<u32>, Option<u64>, DiskDevice, Option<Network>) {
    let plan = &results.plan;
    (plan.sockets, plan.disk_latency_ns, plan.disk_device, plan.network)
}

pub fn is_known(bench: &str) -> bool {
    BENCHES.contains(&bench)
}

/// Whether a report can show only one of them.
pub fn alike(one: &Results, other: &Results) -> bool {
    let what = |results: &Results| {
        let plan = &results.plan;
        let tuned = (plan.host_cpus, plan.isolation, kind(results), hardware(results));
        (plan.vcpus, plan.guests, shown_hz(results), cost_ns(results), tuned)
    };
    one.bench == other.bench && what(one) == what(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_another_disk_are_another_set() {
        let quick = include_str!("../../../tests/results/quick.json");
        let one = paratick_core::results::read(quick).unwrap();
        let mut other = one.clone();
        other.plan.disk_device = DiskDevice::Nvme;
        assert!(alike(&one, &one) && !alike(&one, &other));
        let both = [other, one];
        let sets = Selection::new(&both).sets;
        assert_eq!(sets[1].name(), format!("{}, of an NVMe disk", sets[0].name()));
        assert_eq!(sets[1].slug(), format!("{}-nvme", sets[0].slug()));
    }
}
