// SPDX-License-Identifier: GPL-2.0-only
//! The report's sections, in order.  One whose input is missing is not there; the first section
//! names it with the command that measures it.

mod causes;
mod cycle;
mod environment;
mod idle_entries;
mod method;
mod quick;
mod relative;
mod sensitivity;
pub mod summary;
pub mod table1;

use crate::{page::Page, select::Selection, Input};

/// What the sections are made from, and by which command.
struct Source {
    id: &'static str,
    what: &'static str,
    command: &'static str,
}

const SOURCES: [Source; 6] = [
    Source {
        id: "table1",
        what: "Table 1",
        command: "paratick bench table1",
    },
    Source {
        id: "sequential",
        what: "sequential programs (Figure 4, Table 2)",
        command: "paratick bench sequential",
    },
    Source {
        id: "multithreaded",
        what: "multithreaded programs (Figure 5, Table 3)",
        command: "paratick bench multithreaded",
    },
    Source {
        id: "io",
        what: "input and output (Figure 6, Table 4)",
        command: "paratick bench io",
    },
    Source {
        id: "cycle",
        what: "the time line of an idle cycle",
        command: "paratick bench timeline",
    },
    Source {
        id: "quick",
        what: "the small workloads",
        command: "paratick bench quick",
    },
];

pub fn page(input: &Input, selection: &Selection) -> Page {
    let mut sections = vec![summary::section(selection, missing(input, selection))];
    sections.extend(table1::section(selection, &input.predictions));
    sections.extend(relative::sections(selection));
    sections.extend(causes::section(selection));
    sections.extend(cycle::section(&input.timelines));
    sections.extend(sensitivity::section(selection));
    sections.extend(quick::section(selection));
    sections.push(method::section(input, selection));
    Page {
        title: "Virtual scheduler ticks, measured".into(),
        subtitle: subtitle(input),
        sections,
    }
}

fn subtitle(input: &Input) -> String {
    let began: Vec<&str> = input
        .results
        .iter()
        .map(|results| results.started.get(..10).unwrap_or(&results.started))
        .collect();
    let when = match (began.iter().min(), began.iter().max()) {
        (Some(first), Some(last)) if first == last => format!(", measured {first}"),
        (Some(first), Some(last)) => format!(", measured {first} to {last}"),
        _ => String::new(),
    };
    // A date is not to be broken over lines.
    let when = when.replace('-', "\u{2011}");
    format!("The evaluation of paratick (ICPP 2021) on real kernels{when}")
}

/// Sections that are not in this report.
fn missing<'a>(
    input: &'a Input,
    selection: &'a Selection,
) -> impl Iterator<Item = &'static Source> + 'a {
    SOURCES.iter().filter(|source| match source.id {
        "cycle" => input.timelines.is_empty(),
        bench => selection.of(bench).next().is_none(),
    })
}
