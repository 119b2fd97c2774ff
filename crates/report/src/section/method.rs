// SPDX-License-Identifier: GPL-2.0-only
//! How it was measured, what that cannot say, and how to do it again.

use super::{environment, SOURCES};
use crate::{
    number,
    page::{Block, Section},
    paper,
    select::Selection,
    Input,
};
use paratick_core::results::Results;
use std::collections::BTreeMap;

pub fn section(input: &Input, selection: &Selection) -> Section {
    let mut section = Section::new("method", "How this was measured, and what it cannot say");
    section.list(method(input));
    section.heading("environment", "Environment");
    section.table(environment::table(input));
    section.heading("problems", "Problems and doubtful samples");
    problems(&mut section, input);
    section.heading("reproduce", "Measure it again");
    section.text("Each command writes a results file and says where; `paratick report` makes this page from such files. Bench files can be continued after an interruption with `--resume`.");
    section.blocks.push(Block::Command {
        text: commands(input, selection),
    });
    section.text(format!("The paper: {}.", paper::REFERENCE));
    section
}

fn method(input: &Input) -> Vec<String> {
    let configurations = || {
        input
            .results
            .iter()
            .map(|results| &results.environment.configuration)
    };
    let emulated = configurations().any(|c| c.ns_per_instruction.is_some());
    let busy = |results: &&Results| {
        let c = &results.environment.configuration;
        c.ns_per_instruction.is_some() && !c.parallel_clock && results.plan.vcpus > 1
    };
    let mut items = vec![
        "Every VM exit between two marks that the workload itself sets is counted, on the host, by its reason and cause; what could not be counted is “not measured”, never 0.".to_string(),
        "In each round a fresh guest is booted in every mode, in rotating order. Intervals are bootstrap intervals over rounds and runs; modes are compared within the same rounds.".into(),
    ];
    if emulated {
        items.push(counted_twice(input));
        items.push("The host is emulated. Its clock is the number of instructions executed: time here is virtual time, and instructions are not cycles. Caches, pipelines and frequency have no part in it.".into());
        items.push("Exit counts are exact. System throughput and execution time depend on what a world switch is taken to cost; nothing here says what it costs on your processor.".into());
    }
    let in_turn: Vec<String> = input
        .results
        .iter()
        .filter(busy)
        .map(|results| results.bench.clone())
        .collect();
    if !in_turn.is_empty() {
        items.push(format!("Guests with several vCPUs were measured with a clock that busy CPUs advance in turn: each vCPU then gets less work done per tick than on hardware, in every mode (bench {}).", number::list(&in_turn)));
    }
    if configurations().any(|c| c.parallel_clock) {
        items.push("CPUs that run at once share virtual time between them, as if they ran in parallel; the emulator runs them in turn, in slices.".into());
    }
    if input.results.iter().any(|results| results.plan.rounds == 1) {
        items.push(
            "Where there was one round only, differences from boot to boot are in no interval."
                .into(),
        );
    }
    items
}

/// What the emulator's own count says of the kernel's.
fn counted_twice(input: &Input) -> String {
    let cells = input.results.iter().flat_map(|results| &results.cells);
    let samples: Vec<_> = cells.flat_map(|cell| &cell.samples).collect();
    let counted = samples
        .iter()
        .filter(|s| s.world_switches.is_some() && s.exits.is_some());
    let equal = counted
        .clone()
        .filter(|s| s.world_switches == s.exits)
        .count();
    let (counted, all) = (counted.count(), samples.len());
    match (counted, equal) {
        (0, _) => "World switches were not counted independently of the exits.".into(),
        _ if equal == counted && counted == all => format!(
            "The emulator counted world switches independently of the kernel: equal to the exits in all {} samples.",
            number::count(all as f64)
        ),
        _ => format!(
            "The emulator counted world switches independently of the kernel in {} of {} samples: equal to the exits in {}.",
            number::count(counted as f64),
            number::count(all as f64),
            number::count(equal as f64)
        ),
    }
}

/// Sentences of problems that are spelled out, of each file.
const SPELLED_OUT: usize = 8;

fn problems(section: &mut Section, input: &Input) {
    let mut items = Vec::new();
    for results in &input.results {
        let plan = &results.plan;
        let name = format!("{} {}×{}", results.bench, plan.guests, plan.vcpus);
        items.extend(
            results
                .problems
                .iter()
                .map(|problem| format!("{name}: {problem}")),
        );
        if !results.is_complete() {
            items.push(format!(
                "{name}: not everything that was planned has been measured."
            ));
        }
        let mut doubtful: BTreeMap<String, usize> = BTreeMap::new();
        for (workload, mode, sample) in results.doubtful() {
            for problem in &sample.problems {
                *doubtful
                    .entry(format!("{workload}, {mode}: {problem}"))
                    .or_default() += 1;
            }
        }
        let all = doubtful.len();
        let spelled = doubtful.into_iter().take(SPELLED_OUT);
        items.extend(
            spelled.map(|(what, count)| {
                format!("{name}, {}: {what}", number::plural(count, "sample"))
            }),
        );
        if all > SPELLED_OUT {
            items.push(format!(
                "{name}: {} further kinds of problems; the file has them all.",
                all - SPELLED_OUT
            ));
        }
    }
    match items.is_empty() {
        true => {
            section.text("None: every sample that was planned was measured, and none is doubtful.")
        }
        false => section.list(items),
    }
}

/// One command for every section that there is.
fn commands(input: &Input, selection: &Selection) -> String {
    let mut lines = Vec::new();
    for source in &SOURCES {
        for set in selection.of(source.id) {
            let plan = &set.main().plan;
            let mut command = source.command.to_string();
            if matches!(source.id, "multithreaded" | "quick") {
                command += &format!(" --vcpus {}", plan.vcpus);
            }
            if !lines.contains(&command) {
                lines.push(command);
            }
        }
        if source.id == "cycle" && !input.timelines.is_empty() {
            lines.push(source.command.into());
        }
    }
    lines.push("paratick report RESULT…".into());
    lines.join("\n")
}
