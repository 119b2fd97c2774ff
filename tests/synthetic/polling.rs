// SPDX-License-Identifier: GPL-2.0-only
//! Halt polling that nobody measured.

use super::{environment, Bench, Noise, Shape, REPEATS, ROUNDS};
use paratick_core::{
    catalogue::{
        sets::{self, Scale},
        workloads,
    },
    halts::{Floor, HostRule, Rule, RunHalts, Tally, Waker},
    results::{Plan, Results},
    subject::Subject,
};
use std::collections::BTreeMap;

const WORKLOADS: [(&str, f64); 3] = [("idle", 20.0), ("pingpong", 8000.0), ("exponential", 2600.0)];

pub fn polling() -> Results {
    let planned = WORKLOADS.map(|(name, _)| workloads::polling(name).unwrap()).to_vec();
    let plan = sets::polling(2, 1, planned.clone(), Scale::Quick).plan;
    let plan = Plan { rounds: ROUNDS, repeats: REPEATS, ..plan };
    let bench = Bench { name: "polling", vcpus: 2, guests: 1, cost: None };
    let mut results = Results {
        tool_version: "synthetic".into(),
        command: ["paratick", "bench", "polling"].map(String::from).to_vec(),
        started: "2026-01-02T00:00:00Z".into(),
        environment: environment(&bench),
        ..Results::new("polling", plan)
    };
    let mut noise = Noise(7);
    for (planned, (_, idles)) in planned.iter().zip(WORKLOADS) {
        for subject in results.plan.subjects.clone() {
            let shape = Shape { mode: subject.mode, idles, bench: &bench };
            for nth in 0..ROUNDS * REPEATS {
                let mut sample = shape.sample(&mut noise);
                (sample.round, sample.repeat) = (nth / REPEATS + 1, nth % REPEATS + 1);
                results.add(planned, subject, sample);
            }
            results.set_halts(&planned.workload, subject, halts(subject, idles as u64));
            if subject.mode.to_string() == "tickless" {
                results.set_native(&planned.workload, subject, 900_000_000);
            }
        }
    }
    results.summarize();
    results
}

/// Each step of the ladder half as often as the one below it.
fn halts(subject: Subject, halts: u64) -> RunHalts {
    let rule = subject.host.rule();
    let steps = [0, 10_000, 20_000, 40_000, 80_000, 160_000, 200_000];
    let lowest = match rule {
        Rule::Host(HostRule { floor: Floor::At(least), .. }) => least,
        _ => 0,
    };
    let steps = steps.into_iter().filter(|step| (lowest..=rule.max()).contains(step));
    let mut left = halts;
    let mut limits = BTreeMap::new();
    for step in steps {
        limits.insert(step, left - left / 2);
        left /= 2;
    }
    let blocks =
        halts - limits.iter().filter(|(step, _)| **step > 0).map(|(_, n)| n / 3).sum::<u64>();
    RunHalts {
        window_ns: 1_000_000_000,
        tally: Tally {
            halts,
            limits_unknown: left,
            limits,
            hits: halts - blocks,
            blocks,
            halted_ns: halts * 300_000,
            polled_ns: (halts - blocks) * 20_000,
            wasted_ns: (halts - blocks) * 5_000,
            switches: blocks,
            ..Tally::default()
        },
        wakers: BTreeMap::from([(Waker::Timer, halts)]),
        half_ns: Some(250_000),
        nine_tenths_ns: Some(740_000),
        wake_up_ns: Some(3_100),
    }
}
