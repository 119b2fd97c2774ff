// SPDX-License-Identifier: GPL-2.0-only
//! An idle guest of every kind, and busy ones, that nobody measured.

use super::{environment, Bench, Noise};
use paratick_core::{
    balancing::Balancing,
    catalogue::{
        idle_tables::{self, Part, Server, BENCH},
        sets::Scale,
    },
    cause::Cause,
    clock_device::ClockDevice,
    exits::Counts,
    mode::TickMode,
    pcpu::Pcpu,
    results::{Plan, Results, Sample},
    wakeups::{Sampled, Waker, Woken},
};

const SECONDS: u64 = 4;
const ROUNDS: u32 = 4;

/// A file for each kind of guest.
pub fn mileage() -> Vec<(String, Results)> {
    let mut noise = Noise(13);
    let sets = idle_tables::idle_tables(&Part::ALL, &Server::default(), Scale::Quick).into_iter();
    sets.map(|set| {
        let plan = Plan { rounds: ROUNDS, ..set.plan };
        let bench = Bench { name: BENCH, vcpus: plan.vcpus, guests: 1, cost: None };
        let mut results = Results {
            tool_version: "synthetic".into(),
            command: ["paratick", "bench", BENCH].map(String::from).to_vec(),
            started: "2026-01-05T00:00:00Z".into(),
            environment: environment(&bench),
            ..Results::new(BENCH, plan.clone())
        };
        for round in 1..=ROUNDS {
            for planned in &plan.workloads {
                for subject in plan.subjects.clone() {
                    let idle = planned.workload == "idle";
                    let sample = match plan.balances {
                        true => busy(&plan, &mut noise),
                        false => sample(&plan, subject.mode.tick, idle, &mut noise),
                    };
                    results.add(planned, subject, Sample { round, repeat: 1, ..sample });
                }
            }
        }
        results.summarize();
        (set.name, results)
    })
    .collect()
}

/// A tenth longer where nobody balances its load.
fn busy(plan: &Plan, noise: &mut Noise) -> Sample {
    let longer = if plan.balancing == Some(Balancing::None) { 1.1 } else { 1.0 };
    Sample {
        exits: Some(Counts {
            total: 2000,
            by_cause: [(Cause::Halt, 1500), (Cause::Ipi, 300), (Cause::Expiry, 200)].into(),
            ..Counts::default()
        }),
        world_switches: Some(2000),
        duration_ns: Some((4e8 * longer * noise.around(0.01)) as u64),
        ..Sample::default()
    }
}

fn sample(plan: &Plan, tick: TickMode, idle: bool, noise: &mut Noise) -> Sample {
    let sampling = plan.sampler.map(|sampler| if sampler.deferrable && idle { 0.0 } else { 43.4 });
    let events = 12.0 + sampling.unwrap_or(0.0);
    let interrupts = match (tick, plan.clock_device) {
        (TickMode::Periodic, _) => 502.0,
        (_, ClockDevice::Pit) => 38.0,
        _ => events * 1.5,
    };
    let each = match plan.clock_device {
        ClockDevice::Pit | ClockDevice::Hpet | ClockDevice::HpetPerCpu => 6.0,
        _ => 3.0,
    };
    let count =
        |rate: f64, noise: &mut Noise| (rate * SECONDS as f64 * noise.around(0.05)).round() as u64;
    let total = count(interrupts * each, noise);
    let woken = total / 4;
    let sampled = sampling.map(|rate| {
        let expiries = (43.4 * SECONDS as f64) as u64;
        let wakeups = (rate * SECONDS as f64) as u64;
        let late = if rate > 0.0 { 4_000_000 } else { 96_000_000 };
        Sampled { expiries, wakeups, exits: 3 * wakeups, late_ns: vec![late; 4] }
    });
    Sample {
        exits: Some(Counts {
            total,
            by_cause: [(Cause::Halt, woken), (Cause::Arm, total - woken)].into(),
            ..Counts::default()
        }),
        world_switches: Some(total),
        host_instructions: Some(8000 * total),
        guest_instructions: Some(3000 * total),
        duration_ns: Some(SECONDS * 1_000_000_000),
        pcpus: vec![Pcpu { wake_ups: woken, ..Pcpu::default() }],
        guest_interrupts: [("intr".to_string(), count(interrupts, noise))].into(),
        woken: Some(Woken {
            window_ns: SECONDS * 1_000_000_000,
            timer_events: count(events, noise),
            idle_entries: woken,
            idle_ns: if idle { SECONDS * 1_990_000_000 } else { 0 },
            recorded_exits: total,
            unexplained: 0,
            offenders: vec![Waker {
                source: "clocksource_watchdog".into(),
                process: None,
                start: None,
                class: Some("hard".into()),
                expiries: 8,
                wakeups: 8,
                exits: 88,
            }],
            sampled,
        }),
        ..Sample::default()
    }
}
