// SPDX-License-Identifier: GPL-2.0-only
//! Noise that nobody measured.

use super::{environment, Bench, Noise};
use paratick_core::{
    catalogue::{noise, sets::Scale},
    cause::Cause,
    exits::Counts,
    isolation::Isolation,
    noise::{Audited, Moment, NoiseSample, Parts, MOMENTS},
    results::{Results, Sample},
};
use std::collections::BTreeMap;

const ROUNDS: u32 = 4;
const HOST_CPUS: [u32; 1] = [4];

/// A file for each way to isolate.
pub fn isolated() -> Vec<Results> {
    let mut noise = Noise(23);
    let sets = noise::sets(noise::VCPUS, &HOST_CPUS, &Isolation::ALL, Scale::Quick).into_iter();
    sets.map(|mut set| {
        set.plan.rounds = ROUNDS;
        let isolation = set.plan.isolation.unwrap();
        let bench = Bench { name: "noise", vcpus: noise::VCPUS, guests: 1, cost: None };
        let mut results = Results {
            tool_version: "synthetic".into(),
            command: ["paratick", "bench", "noise"].map(String::from).to_vec(),
            started: "2026-01-05T00:00:00Z".into(),
            environment: environment(&bench),
            ..Results::new("noise", set.plan)
        };
        let planned = results.plan.workloads[0].clone();
        for round in 1..=ROUNDS {
            for subject in results.plan.subjects.clone() {
                let ticks = if subject.mode.tick.name() == "tickless" { 125 } else { 0 };
                let sample = sample(round, isolation, ticks, &mut noise);
                results.add(&planned, subject, sample);
            }
        }
        results.summarize();
        results
    })
    .collect()
}

/// Of half a second of two vCPUs, with so many ticks of the guest's own on each.
fn sample(round: u32, isolation: Isolation, ticks: u64, noise: &mut Noise) -> Sample {
    let host_ticks = if isolation.of_host() { 0 } else { 250 };
    let own = if isolation.of_guest() { 0 } else { 2 * ticks };
    let light = host_ticks + 2 * own;
    let steal = if isolation.of_host() { 0.0 } else { 400_000.0 * noise.around(0.1) } as u64;
    let kvm = 4_000 * light;
    let parts =
        Parts { kvm, waited: steal, irq: own * 3_000, rest: light * 500, ..Parts::default() };
    let by_cause =
        BTreeMap::from([(Cause::HostTick, host_ticks), (Cause::Arm, own), (Cause::Expiry, own)]);
    let exits = light + 40;
    let audit =
        Audited { exits, world_switches: Some(exits), light, halts: 40, ..Audited::default() };
    let moment = |ns: u64| ns / MOMENTS;
    let moments =
        vec![Moment { steal_ns: moment(steal), hypervisor_ns: moment(kvm) }; MOMENTS as usize];
    let preemptions = match steal {
        0 => BTreeMap::new(),
        _ => BTreeMap::from([("paratick-agent".into(), 30), ("kworker/1:1".into(), 10)]),
    };
    let noise = NoiseSample {
        cpus: 2,
        window_ns: 500_000_000,
        gaps: host_ticks + own,
        noise_ns: parts.sum(),
        parts,
        longest_ns: 20_000 + steal / 4,
        unknown_to_guest: host_ticks + own,
        light,
        by_cause: by_cause.clone(),
        guest_ticks: own,
        preemptions,
        audit,
        moments,
        ..NoiseSample::default()
    };
    Sample {
        round,
        repeat: 1,
        exits: Some(Counts { total: exits, by_cause, ..Counts::default() }),
        world_switches: Some(exits),
        duration_ns: Some(500_000_000),
        noise: Some(noise),
        ..Sample::default()
    }
}
