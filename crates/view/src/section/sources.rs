// SPDX-License-Identifier: GPL-2.0-only
//! What the sections are made from, and by which command.

use crate::{input::Input, set::Selection};
use paratick_core::catalogue::sets::GuestSize;

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
