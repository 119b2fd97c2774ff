// SPDX-License-Identifier: GPL-2.0-only
//! The commands that made a report's files, as the files record them.

use crate::{input::Input, set::Selection};
use paratick_core::{results::Results, shell::quote};

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
