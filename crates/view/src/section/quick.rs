// SPDX-License-Identifier: GPL-2.0-only
//! The small workloads in every mode, as `paratick bench quick` measures them.

use crate::{
    change::Metric,
    number,
    page::Section,
    set::{Selection, Set},
    tables::bench,
};

pub fn section(selection: &Selection) -> Option<Section> {
    let sets: Vec<&Set> = selection.of("quick").collect();
    if sets.is_empty() {
        return None;
    }
    let mut section = Section::new("quick", "Small workloads in every mode");
    section.text(
        "Six small workloads of fixed work; `docs/bench.md` says what each does. `+poll`: \
        the guest polls for work before it halts.",
    );
    for set in sets {
        let vcpus = number::plural(set.vcpus() as usize, "vCPU");
        section.heading(set.slug(), format!("Guests with {vcpus}"));
        section.table(bench::counts(set));
        let versus = Metric::ALL.map(|metric| bench::versus(set, metric));
        versus.into_iter().flatten().for_each(|table| section.table(table));
    }
    Some(section)
}
