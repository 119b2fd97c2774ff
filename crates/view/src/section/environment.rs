// SPDX-License-Identifier: GPL-2.0-only
//! What the numbers depend on, as a table: first what all files share.

use crate::{input::Input, table::Table};
use paratick_core::results::{Results, FACTS};

/// One environment and which files have it.
struct Known<'a> {
    names: Vec<String>,
    results: &'a Results,
}

pub fn table(input: &Input) -> Table {
    let known = known(input);
    let mut table = Table::new(
        "What the numbers depend on. 4×16: four guests with 16 vCPUs each",
        ["What", "Value"],
    )
    .words(..);
    let facts = || FACTS.iter().filter(|fact| fact.meets.printed);
    let mut differ = Vec::new();
    if known.len() > 1 {
        table.group("The same for all");
    }
    for fact in facts() {
        let mut values = known.iter().map(|known| fact.shown(known.results));
        match values.next() {
            Some(first) if values.all(|value| value == first) => table.row(fact.name, vec![first]),
            _ => differ.push(fact),
        }
    }
    for known in known.iter().filter(|_| !differ.is_empty()) {
        table.group(known.names.join(", "));
        for fact in &differ {
            table.row(fact.name, vec![fact.shown(known.results)]);
        }
    }
    table
}

fn known(input: &Input) -> Vec<Known<'_>> {
    let results = input.results.iter().map(|results| {
        let plan = &results.plan;
        (format!("{} {}×{}", results.bench, plan.guests, plan.vcpus), results)
    });
    let timelines = input.timelines.iter().map(|timeline| ("time line".to_string(), timeline));
    let mut known: Vec<Known> = Vec::new();
    for (name, results) in results.chain(timelines) {
        let shown = |results: &Results| -> Vec<String> {
            let printed = FACTS.iter().filter(|fact| fact.meets.printed);
            printed.map(|fact| fact.shown(results)).collect()
        };
        let same = known.iter_mut().find(|known| shown(known.results) == shown(results));
        match same {
            Some(same) if same.names.contains(&name) => {}
            Some(same) => same.names.push(name),
            None => known.push(Known { names: vec![name], results }),
        }
    }
    known
}
