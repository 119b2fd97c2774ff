// SPDX-License-Identifier: GPL-2.0-only
//! How well `paratick exits` predicts what the kernel series spare, and finds a guest's tick, by
//! what benches measured.

use crate::kept::{self, Kept};
use paratick_core::{
    cause::Cause,
    observed::{Exits, Kind, Observed, Spent, Vm, SCHEMA},
    units::Hz,
};
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

/// Of the guests and their hosts.
const HZ: Hz = Hz(250);
/// Counts of less than a second are taken for those of so many ns, as of a live VM.
const LOOK_NS: f64 = 10e9;

type Medians = BTreeMap<String, BTreeMap<String, f64>>;

#[derive(Deserialize)]
struct Bench {
    exits: Medians,
    duration_ns: Medians,
    cpu_ns: Medians,
    /// None: 2.
    vcpus: Option<u32>,
    causes: BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>>,
}

struct Row {
    name: String,
    tickless: f64,
    predicted: f64,
    measured: f64,
    /// Of the guest's tick; none where nothing is said of it.
    found: Option<Hz>,
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
        let found = found(&kept.rest, name);
        Row { name: name.clone(), tickless, predicted: tickless - spared, measured, found }
    };
    kept.rest.causes.iter().map(of).collect()
}

/// A vCPU like the average of all.
fn found(bench: &Bench, name: &str) -> Option<Hz> {
    let [wall, cpu] = [&bench.duration_ns, &bench.cpu_ns].map(|of| of[name]["tickless"]);
    let vcpu_ns = wall * f64::from(bench.vcpus.unwrap_or(2));
    let exits = bench.causes[name]["tickless"].iter().map(|(cause, count)| {
        let cause = Cause::ALL.into_iter().find(|known| known.name().replace('-', "_") == *cause);
        let cause = cause.expect("a cause");
        let about = match cause {
            Cause::Arm => Some("TSC_DEADLINE".into()),
            _ => None,
        };
        let mut spent =
            Spent { count: (count * LOOK_NS / vcpu_ns).round() as u64, ..Spent::default() };
        if cause == Cause::Halt {
            spent.blocked_ns = (LOOK_NS * (1.0 - cpu / vcpu_ns).max(0.0)) as u64;
        }
        Exits { vcpu: 0, kind: Kind { cause, reason: "".into(), about }, spent }
    });
    let (name, ns) = (name.into(), LOOK_NS as u64);
    let exits = exits.collect();
    let vm = Vm { name, others: Vec::new(), process: 1, ended: false, ns, lost: 0, exits };
    let seen = Observed {
        schema: SCHEMA.into(),
        ns,
        vms: vec![vm],
        earlier: 0,
        lost: 0,
        exits_by_kvm: None,
        vmm_end_unknown: false,
        host_hz: Some(HZ),
        lacks: Vec::new(),
    };
    let ticks = seen.would().into_iter().find_map(|would| would.ticks);
    ticks.map(|ticks| ticks.guest_hz)
}

/// In how many measurements the guest's tick is found.
pub fn ticks() -> String {
    let rows: Vec<Row> = BENCHES.into_iter().flat_map(rows).collect();
    let found: Vec<Hz> = rows.iter().filter_map(|row| row.found).collect();
    let right = found.iter().filter(|hz| **hz == HZ).count();
    format!(
        "Of the {} measurements, all of guests of {} Hz, that rate is found in {right}, another \
         one in {}, and\nnone in the others.",
        rows.len(),
        HZ.0,
        found.len() - right
    )
}

/// What polls of the guest's would do, and what they did, each time that it was measured.
pub fn polls() -> String {
    let benches = ["quick", "polling", "polls", "polls-others"].map(kept::read::<Kept<Bench>>);
    let quick = &benches[0].rest;
    let said = |n: f64| count(n.round()).replace(NARROW_SPACE, " ");
    let rows = ["pingpong", "barrier", "sleep", "block"].map(|name| {
        let of = |cause| quick.causes[name]["tickless"].get(cause).copied().unwrap_or_default();
        let [tickless, stop] = ["tickless", "tickless-stop"].map(|mode| quick.exits[name][mode]);
        // Who polls needs no IPI; whom a timer or a device wakes has their exit instead.
        let hits = tickless - 2.0 * f64::min(of("halt"), of("ipi"));
        let mut measured: Vec<f64> =
            benches.iter().map(|bench| bench.rest.exits[name]["tickless+poll"]).collect();
        measured.sort_by(f64::total_cmp);
        let measured = measured.into_iter().map(said).collect::<Vec<_>>().join(", ");
        format!("| {name} | {} | {} | {} | {measured} |", said(tickless), said(hits), said(stop))
    });
    format!(
        "| | `tickless` | every poll hits | none does | measured, in four benches |\n\
         |---|---|---|---|---|\n{}",
        rows.join("\n")
    )
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
