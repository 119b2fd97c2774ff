// SPDX-License-Identifier: GPL-2.0-only
//! How well `paratick exits` predicts what the kernel series spare, by what benches measured.

use crate::kept::{self, Kept};
use paratick_view::number::{count, NARROW_SPACE};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Benches, and the mode of theirs that is predicted: without polls, where it was measured.
const BENCHES: [(&str, &str); 6] = [
    ("quick", "paratick+nopoll"),
    ("default-papers", "paratick+nopoll"),
    ("default-others", "paratick+nopoll"),
    ("default-waits", "paratick+nopoll"),
    ("sequential", "paratick"),
    ("io", "paratick"),
];
/// Errors beyond this share of all exits are told one by one.
const FAR: f64 = 0.1;

#[derive(Deserialize)]
struct Bench {
    exits: BTreeMap<String, BTreeMap<String, f64>>,
    causes: BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>>,
}

struct Row {
    name: String,
    tickless: f64,
    predicted: f64,
    measured: f64,
}

impl Row {
    fn error(&self) -> f64 {
        (self.predicted - self.measured) / self.tickless
    }
}

fn rows((bench, mode): (&str, &str)) -> Vec<Row> {
    let kept: Kept<Bench> = kept::read(bench);
    let of = |(name, causes): (&String, &BTreeMap<String, BTreeMap<String, f64>>)| {
        let [tickless, measured] = ["tickless", mode].map(|mode| kept.rest.exits[name][mode]);
        let timers = ["arm", "stop", "expiry"].map(|cause| causes["tickless"].get(cause));
        let spared: f64 = timers.into_iter().flatten().sum();
        Row { name: name.clone(), tickless, predicted: tickless - spared, measured }
    };
    kept.rest.causes.iter().map(of).collect()
}

pub fn would() -> String {
    let mut rows: Vec<Row> = BENCHES.into_iter().flat_map(rows).collect();
    rows.sort_by(|one, other| one.error().abs().total_cmp(&other.error().abs()));
    let within = |share: f64| {
        let last = (rows.len() as f64 * share).ceil() as usize - 1;
        format!("{:.1} %", 100.0 * rows[last].error().abs())
    };
    let said = |n: f64| count(n.round()).replace(NARROW_SPACE, " ");
    let far = rows.iter().filter(|row| row.error().abs() > FAR).map(|row| {
        let [tickless, predicted, measured] = [row.tickless, row.predicted, row.measured].map(said);
        format!("| {} | {tickless} | {predicted} | {measured} |", row.name)
    });
    let far: Vec<_> = far.collect();
    format!(
        "Of {} measurements, of {} programs and small workloads, half are off by at most {} of the \
         exits\nin `tickless`, nine of ten by {}. Further off are:\n\n\
         | program | `tickless` | predicted | measured |\n|---|---|---|---|\n{}",
        rows.len(),
        rows.iter().map(|row| row.name.as_str()).collect::<BTreeSet<_>>().len(),
        within(0.5),
        within(0.9),
        far.join("\n")
    )
}
