// SPDX-License-Identifier: GPL-2.0-only
//! What the sections are made from, and by which command.

use crate::{input::Input, set::Selection};

pub struct Source {
    /// The bench's, or the section's where that has none.
    id: &'static str,
    /// Of the guests, where the bench has several sizes.
    vcpus: Option<u32>,
    pub what: &'static str,
    pub command: &'static str,
}

const fn source(id: &'static str, what: &'static str, command: &'static str) -> Source {
    Source { id, vcpus: None, what, command }
}

const fn multithreaded(vcpus: u32, what: &'static str, command: &'static str) -> Source {
    Source { vcpus: Some(vcpus), ..source("multithreaded", what, command) }
}

const SOURCES: [Source; 8] = [
    source("table1", "Table 1", "paratick bench table1"),
    source("sequential", "sequential programs (Figure 4, Table 2)", "paratick bench sequential"),
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
    source("io", "input and output (Figure 6, Table 4)", "paratick bench io"),
    source("cycle", "the time line of an idle cycle", "paratick bench timeline"),
    source("quick", "the small workloads", "paratick bench quick"),
];

/// Sections, or parts of one, that are not in this report.
pub fn missing<'a>(
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
