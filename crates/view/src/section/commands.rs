// SPDX-License-Identifier: GPL-2.0-only
//! The commands that made a report's files, as the files record them, and those that would make
//! what it lacks.

use crate::{input::Input, set::Selection};
use paratick_core::{catalogue::sets::GuestSize, results::Results, shell::quote};

/// One for every file that is shown, and one for the report.
pub fn commands(input: &Input, selection: &Selection) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for results in selection.results().chain(&input.timelines) {
        // Several files may come from one command.
        let command = of_results(results);
        if !lines.contains(&command) {
            lines.push(command);
        }
    }
    lines.push("paratick report RESULT…".into());
    lines
}

fn of_results(results: &Results) -> String {
    match results.command.as_slice() {
        [] => format!("# bench {}: the command was not recorded", results.bench),
        command => command.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "),
    }
}

pub struct Source {
    /// The bench's, or the section's where that has none.
    id: &'static str,
    /// Of the guests, where the bench has several sizes.
    vcpus: Option<u32>,
    pub what: String,
    pub command: String,
}

fn source(id: &'static str, what: &str) -> Source {
    Source { id, vcpus: None, what: what.into(), command: format!("paratick bench {id}") }
}

fn multithreaded(size: GuestSize) -> Source {
    let what = format!("multithreaded programs, {} vCPUs (Figure 5, Table 3)", size.0);
    let command = format!("paratick bench multithreaded --sizes {size}");
    Source { vcpus: Some(size.0), what, command, ..source("multithreaded", "") }
}

fn all() -> impl Iterator<Item = Source> {
    [source("table1", "Table 1"), source("sequential", "sequential programs (Figure 4, Table 2)")]
        .into_iter()
        .chain(GuestSize::PAPERS.map(multithreaded))
        .chain([
            source("io", "input and output (Figure 6, Table 4)"),
            source("timeline", "the time line of an idle cycle"),
            source("quick", "the small workloads"),
            source("polling", "halt polling"),
            source("idle", "idle guests side by side"),
            source("noise", "the noise of a busy guest"),
            source("idle-tables", "an idle guest by mode, sampler and clock device"),
        ])
}

/// Sections, or parts of one, that are not in this report.
pub fn missing<'a>(
    input: &'a Input,
    selection: &'a Selection,
) -> impl Iterator<Item = Source> + 'a {
    all().filter(|source| match source.id {
        "timeline" => input.timelines.is_empty(),
        bench => {
            let mut sets = selection.of(bench);
            !sets.any(|set| source.vcpus.is_none_or(|vcpus| set.vcpus() == vcpus))
        }
    })
}
