// SPDX-License-Identifier: GPL-2.0-only
//! Idle guests that nobody measured.

use super::{environment, Bench, Noise};
use paratick_core::{
    catalogue::sets::{self, Scale},
    cause::Cause,
    exits::Counts,
    mode::Mode,
    pcpu::{Interrupt, Pcpu},
    results::{Results, Sample},
};
use std::collections::BTreeMap;

const GUESTS: [u32; 3] = [1, 2, 5];
const SECONDS: u64 = 4;

/// A file for each number of guests.
pub fn idle() -> Vec<Results> {
    let mut noise = Noise(11);
    let sets = sets::idle(&GUESTS, None, false, Scale::Quick).into_iter();
    sets.map(|set| {
        let guests = set.plan.guests;
        let bench = Bench { name: "idle", vcpus: 1, guests, cost: None };
        let mut results = Results {
            tool_version: "synthetic".into(),
            command: ["paratick", "bench", "idle"].map(String::from).to_vec(),
            started: "2026-01-04T00:00:00Z".into(),
            environment: environment(&bench),
            ..Results::new("idle", set.plan)
        };
        let planned = results.plan.workloads[0].clone();
        for subject in results.plan.subjects.clone() {
            results.add(&planned, subject, sample(subject.mode, guests, &mut noise));
        }
        results.summarize();
        results
    })
    .collect()
}

fn sample(mode: Mode, guests: u32, noise: &mut Noise) -> Sample {
    let (timers, exits) = match mode.tick.name() {
        "periodic" => (250.0, 2),
        "tickless" => (10.0, 3),
        _ => (5.0, 1),
    };
    // What a tick does is not left to chance.
    let share = if timers == 250.0 { 0.0 } else { 0.1 };
    let each = timers * (SECONDS * u64::from(guests)) as f64;
    let timers = (each * noise.around(share)) as u64;
    let total = timers * exits;
    let by_cause = BTreeMap::from([(Cause::Halt, timers), (Cause::Arm, total - timers)]);
    let own = 12 * SECONDS;
    let pcpu = |wake_ups, vcpu_timers, interrupts| Pcpu {
        wake_ups,
        vcpu_timers,
        interrupts: [(Interrupt::LocalTimer, interrupts), (Interrupt::Device, 2)].into(),
    };
    Sample {
        round: 1,
        repeat: 1,
        exits: Some(Counts { total, by_cause, ..Counts::default() }),
        world_switches: Some(total),
        host_instructions: Some(8000 * total + 400_000),
        guest_instructions: Some(2900 * timers),
        duration_ns: Some(SECONDS * 1_000_000_000),
        pcpus: vec![pcpu(own, 0, own), pcpu(timers - timers / 20, timers, timers)],
        ..Sample::default()
    }
}
