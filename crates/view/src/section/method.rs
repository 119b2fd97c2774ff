// SPDX-License-Identifier: GPL-2.0-only
//! How it was measured, what that cannot say, and how to do it again.

use super::{commands::commands, environment};
use crate::{
    input::Input,
    number,
    page::{Block, Section},
    paper, samples,
    set::{takes_turns, Selection, Set},
};
use std::collections::BTreeMap;

pub fn section(input: &Input, selection: &Selection) -> Section {
    let mut section = Section::new("method", "How this was measured, and what it cannot say");
    section.list(method(input, selection));
    section.heading("environment", "Environment");
    section.table(environment::table(input));
    section.heading("problems", "Problems and doubtful samples");
    problems(&mut section, input);
    section.heading("reproduce", "Measure it again");
    section.text(
        "Each command writes a results file and says where; `paratick report` makes this \
        page from such files. Kernels, memory and host are those of the environment above where an \
        option does not say otherwise. Bench files can be continued after an interruption with \
        `--resume`.",
    );
    section.list(lengths(selection));
    section.blocks.push(Block::Command { text: commands(input, selection).join("\n") });
    section.text(format!("The paper: {}.", paper::REFERENCE));
    section
}

fn method(input: &Input, selection: &Selection) -> Vec<String> {
    let configurations = || input.results.iter().map(|results| &results.environment.configuration);
    let emulated = configurations().any(|c| c.ns_per_instruction.is_some());
    let mut items = vec![
        "Every VM exit between two marks that the workload itself sets is counted, on the host, by \
         its reason and cause; what could not be counted is “–”, never 0.".to_string(),
    ];
    items.extend(samples::method(selection));
    if emulated {
        let counted = samples::world_switches(input.results.iter().flat_map(|r| &r.cells));
        items.push(counted + &not_counted(input));
        items.push(
            "The host is emulated. Its clock is the number of instructions executed: time \
            here is virtual time, and instructions are not cycles. Caches, pipelines and frequency \
            have no part in it."
                .into(),
        );
        items.push(
            "Exit counts are exact. System throughput and execution time depend on the \
            stated cost of a world switch; nothing here says what it costs on your \
            processor."
                .into(),
        );
    }
    let in_turn = input.results.iter().filter(|results| takes_turns(results));
    let in_turn: Vec<String> = in_turn.map(|results| results.bench.clone()).collect();
    if !in_turn.is_empty() {
        items.push(format!(
            "Guests with several vCPUs were measured with a clock that busy CPUs \
            advance in turn: each vCPU then gets less work done per tick than on hardware, in \
            every mode (bench {}).",
            number::list(&in_turn)
        ));
    }
    if configurations().any(|c| c.parallel_clock) {
        items.push(
            "CPUs that run at once share virtual time between them, as if they ran in \
            parallel; the emulator runs them in turn, in slices."
                .into(),
        );
    }
    items
}

/// Whose world switches the emulator did not count.
fn not_counted(input: &Input) -> String {
    let without = input.results.iter().filter_map(|results| {
        let samples = results.cells.iter().flat_map(|cell| cell.samples());
        let without = samples.filter(|s| s.world_switches.is_none() || s.exits.is_none());
        let count = without.count();
        let several = match results.plan.guests {
            1 => "",
            _ => ", where several guests ran at once",
        };
        let name = Set::alone(results).name();
        (count > 0).then(|| format!("{name} ({}{several})", number::plural(count, "sample")))
    });
    let without: Vec<String> = without.collect();
    // Where none were counted, that is said already.
    let some = input.results.iter().flat_map(|results| &results.cells);
    let some = some.flat_map(|cell| cell.samples()).any(|s| s.world_switches.is_some());
    match without.is_empty() || !some {
        true => String::new(),
        false => format!(" It did not in {}.", without.join("; ")),
    }
}

/// Sentences of problems that are spelled out, of each file.
const SPELLED_OUT: usize = 8;

fn problems(section: &mut Section, input: &Input) {
    let mut items = Vec::new();
    for results in &input.results {
        let plan = &results.plan;
        let name = format!("{} {}×{}", results.bench, plan.guests, plan.vcpus);
        items.extend(results.problems.iter().map(|problem| format!("{name}: {problem}")));
        if !results.is_complete() {
            items.push(format!("{name}: not everything that was planned has been measured."));
        }
        let mut doubtful: BTreeMap<String, usize> = BTreeMap::new();
        for (cell, sample) in results.doubtful() {
            for problem in &sample.problems {
                *doubtful
                    .entry(format!("{}, {}: {problem}", cell.workload, cell.subject))
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

/// How long Table 1's guests ran, which a command does not say.
fn lengths(selection: &Selection) -> Vec<String> {
    let sets = selection.of("table1").map(|set| {
        let workloads = set.main().plan.workloads.iter();
        let works = workloads.map(|w| {
            let work = number::count(w.work as f64);
            format!("{} {work} {}", w.workload, w.unit)
        });
        format!(
            "{} did {}. No option sets that, and it is not the same with and without `--quick`, \
             nor in every version of paratick: compare what is equally long.",
            set.name(),
            number::list(&works.collect::<Vec<_>>())
        )
    });
    sets.collect()
}
