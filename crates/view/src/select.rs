// SPDX-License-Identifier: GPL-2.0-only
//! Which of the files given is for what.

use crate::number;
use paratick_core::results::{Cell, Results};
use std::collections::BTreeMap;

/// One bench in one size, measured at one or several costs of a world switch.
#[derive(Clone, Debug)]
pub struct Set<'a> {
    /// By cost, the lowest first; never empty.
    by_cost: Vec<&'a Results>,
}

impl<'a> Set<'a> {
    /// Of a single result.
    pub fn alone(results: &'a Results) -> Self {
        Set {
            by_cost: vec![results],
        }
    }

    /// The one that figures are drawn from: the middle of the costs.
    pub fn main(&self) -> &'a Results {
        self.by_cost[self.by_cost.len() / 2]
    }

    pub fn by_cost(&self) -> &[&'a Results] {
        &self.by_cost
    }

    pub fn bench(&self) -> &'a str {
        &self.main().bench
    }

    pub fn vcpus(&self) -> u32 {
        self.main().plan.vcpus
    }

    /// As the paper names its sizes, where it does.
    pub fn name(&self) -> String {
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
            ("quick", vcpus) => format!(
                "small workloads ({})",
                number::plural(vcpus as usize, "vCPU")
            ),
            (bench, vcpus) => format!("{bench} ({})", number::plural(vcpus as usize, "vCPU")),
        }
    }

    /// For ids within the page.
    pub fn slug(&self) -> String {
        let plan = &self.main().plan;
        format!("{}-{}x{}", self.bench(), plan.guests, plan.vcpus)
    }

    /// Cells by workload, in the results' order.
    pub fn workloads(&self) -> Vec<(&'a str, Vec<&'a Cell>)> {
        workloads(self.main())
    }
}

pub fn workloads(results: &Results) -> Vec<(&str, Vec<&Cell>)> {
    let mut groups: Vec<(&str, Vec<&Cell>)> = Vec::new();
    for cell in &results.cells {
        match groups.iter_mut().find(|(name, _)| *name == cell.workload) {
            Some((_, cells)) => cells.push(cell),
            None => groups.push((&cell.workload, vec![cell])),
        }
    }
    groups
}

/// What the emulator was told to charge for a world switch; 0 where it was told nothing.
pub fn cost_ns(results: &Results) -> u32 {
    results.environment.configuration.exit_cost_ns.unwrap_or(0)
}

#[derive(Clone, Debug, Default)]
pub struct Selection<'a> {
    sets: Vec<Set<'a>>,
}

impl<'a> Selection<'a> {
    /// Of results of which no two are [`alike`].
    pub fn new(results: &'a [Results]) -> Self {
        let mut groups: BTreeMap<_, Vec<&Results>> = BTreeMap::new();
        for result in results {
            let (plan, bench) = (&result.plan, result.bench.as_str());
            let order = BENCHES.iter().position(|name| *name == bench);
            let key = (order, plan.vcpus, plan.guests, bench);
            groups.entry(key).or_default().push(result);
        }
        let sets = groups.into_values().map(|mut by_cost| {
            by_cost.sort_by_key(|result| cost_ns(result));
            Set { by_cost }
        });
        Selection {
            sets: sets.collect(),
        }
    }

    pub fn of<'s>(&'s self, bench: &'s str) -> impl Iterator<Item = &'s Set<'a>> + 's {
        self.sets.iter().filter(move |set| set.bench() == bench)
    }

    pub fn all(&self) -> &[Set<'a>] {
        &self.sets
    }

    /// Every file that is shown.
    pub fn results(&self) -> impl Iterator<Item = &'a Results> + '_ {
        let results = self.sets.iter().flat_map(|set| &set.by_cost);
        results.copied()
    }

    /// Those whose metrics the paper averages.
    pub fn evaluated(&self) -> Vec<&Set<'a>> {
        EVALUATED.iter().flat_map(|bench| self.of(bench)).collect()
    }
}

/// The benches whose metrics the paper averages.
pub const EVALUATED: [&str; 3] = ["sequential", "multithreaded", "io"];
const BENCHES: [&str; 5] = ["table1", "sequential", "multithreaded", "io", "quick"];

/// Whether a section can show a result of `bench`.
pub fn is_known(bench: &str) -> bool {
    BENCHES.contains(&bench)
}

/// Whether a report can show only one of them.
pub fn alike(one: &Results, other: &Results) -> bool {
    let what = |results: &Results| (results.plan.vcpus, results.plan.guests, cost_ns(results));
    one.bench == other.bench && what(one) == what(other)
}
