// SPDX-License-Identifier: GPL-2.0-only
//! Figures of the documents, drawn from what was measured.

use crate::{files, kept};
use paratick_core::{
    noise::Moment,
    results::{Cell, Plan, Results},
};
use paratick_view::figure;
use serde::Deserialize;
use std::{collections::BTreeMap, env, fs};

type Figure = (&'static str, fn() -> String);

/// Below docs/evaluation/figures.
const FIGURES: [Figure; 3] = [
    ("cycle.svg", || cycle("cycle")),
    ("cycle-polls.svg", || cycle("cycle-polls")),
    ("noise.svg", noise),
];
const FOLDER: &str = "docs/evaluation/figures";

#[derive(Deserialize)]
struct Cycle {
    plan: Plan,
    cells: Vec<Cell>,
}

fn cycle(name: &str) -> String {
    let all: kept::Kept<Cycle> = kept::read(name);
    let results = Results { cells: all.rest.cells, ..Results::new("timeline", all.rest.plan) };
    figure::cycles(&results)
}

#[derive(Deserialize)]
struct Noise {
    over_time: BTreeMap<String, OverTime>,
}

#[derive(Deserialize)]
struct OverTime {
    window_ns: u64,
    steal_ns: Vec<u64>,
    hypervisor_ns: Vec<u64>,
}

fn noise() -> String {
    let all: kept::Kept<Noise> = kept::read("noise-over-time");
    let recorded = all.rest.over_time.iter().rev().map(|(mode, of)| {
        let parts = of.steal_ns.iter().zip(&of.hypervisor_ns);
        let moments = parts
            .map(|(&steal_ns, &hypervisor_ns)| Moment { steal_ns, hypervisor_ns })
            .collect::<Vec<_>>();
        (mode.clone(), of.window_ns, moments)
    });
    let recorded: Vec<_> = recorded.collect();
    let lines = recorded.iter().map(|(mode, ns, moments)| (mode.clone(), *ns, &moments[..]));
    figure::noises(&lines.collect::<Vec<_>>())
}

#[test]
fn figures_are_drawn_from_what_was_measured() {
    let bless = env::var_os("PARATICK_BLESS").is_some();
    for (name, draw) in FIGURES {
        let (path, drawn) = (format!("{FOLDER}/{name}"), draw());
        let there = fs::read_to_string(files::root().join(&path)).unwrap_or_default();
        if bless && there != drawn {
            fs::create_dir_all(files::root().join(FOLDER)).expect("the folder is made");
            fs::write(files::root().join(&path), &drawn).expect("the figure is written");
        } else {
            let hint = "hint: PARATICK_BLESS=1 cargo test -p paratick --test docs";
            assert!(there == drawn, "{path} is not what its table says\n{hint}");
        }
    }
}
