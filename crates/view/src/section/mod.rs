// SPDX-License-Identifier: GPL-2.0-only
//! The report's sections, in order.  One whose input is missing is not there; the first section
//! names it with the command that measures it.

mod causes;
mod clock;
mod commands;
mod cycle;
mod environment;
mod explain;
mod idle_entries;
mod method;
mod quick;
mod relative;
pub mod samples;
mod sensitivity;
pub mod summary;
pub mod table1;

use crate::{page::Page, select::Selection, Input};

/// What the sections are made from, and by which command.
struct Source {
    /// The bench's, or the section's where that has none.
    id: &'static str,
    /// Of the guests, where the bench has several sizes.
    vcpus: Option<u32>,
    what: &'static str,
    command: &'static str,
}

const fn source(id: &'static str, what: &'static str, command: &'static str) -> Source {
    Source {
        id,
        vcpus: None,
        what,
        command,
    }
}

const fn multithreaded(vcpus: u32, what: &'static str, command: &'static str) -> Source {
    Source {
        vcpus: Some(vcpus),
        ..source("multithreaded", what, command)
    }
}

const SOURCES: [Source; 8] = [
    source("table1", "Table 1", "paratick bench table1"),
    source(
        "sequential",
        "sequential programs (Figure 4, Table 2)",
        "paratick bench sequential",
    ),
    multithreaded(
        4,
        "multithreaded programs, 4 vCPUs (Figure 5, Table 3)",
        "paratick bench multithreaded --sizes small",
    ),
    multithreaded(
        16,
        "multithreaded programs, 16 vCPUs (Figure 5, Table 3)",
        "paratick bench multithreaded --sizes medium",
    ),
    multithreaded(
        64,
        "multithreaded programs, 64 vCPUs (Figure 5, Table 3)",
        "paratick bench multithreaded --sizes large",
    ),
    source(
        "io",
        "input and output (Figure 6, Table 4)",
        "paratick bench io",
    ),
    source(
        "cycle",
        "the time line of an idle cycle",
        "paratick bench timeline",
    ),
    source("quick", "the small workloads", "paratick bench quick"),
];

pub fn page(input: &Input, selection: &Selection) -> Page {
    let mut sections = vec![summary::section(
        input,
        selection,
        missing(input, selection),
    )];
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

/// Sections, or parts of one, that are not in this report.
fn missing<'a>(
    input: &'a Input,
    selection: &'a Selection,
) -> impl Iterator<Item = &'static Source> + 'a {
    SOURCES.iter().filter(|source| match source.id {
        "cycle" => input.timelines.is_empty(),
        bench => {
            let mut sets = selection.of(bench);
            !sets.any(|set| source.vcpus.is_none_or(|vcpus| set.vcpus() == vcpus))
        }
    })
}
