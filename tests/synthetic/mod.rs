// SPDX-License-Identifier: GPL-2.0-only
//! Results that nobody measured: numbers made up in plausible shapes, to see how a report shows
//! them.  Every file says so in its machine's name and its `tool_version`.

// Each test program uses a part of it.
#![allow(dead_code)]

mod cycle;
mod idle;
mod isolated;
mod mileage;
mod polling;

pub use cycle::timeline;
pub use idle::idle;
pub use isolated::isolated;
pub use mileage::mileage;
pub use polling::polling;

use paratick_core::{
    cause::Cause,
    exits::Counts,
    idle::IdleEntries,
    mode::{Mode, TickMode},
    results::{Environment, Plan, PlannedWorkload, Program, Results, Sample},
    units::Hz,
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

pub const DEFAULT_COST: u32 = 1000;

/// Programs, what each stands for, and how many idle periods it has in a second.
const PROGRAMS: [(&str, &str, f64); 13] = [
    ("primesieve", "blackscholes", 30.0),
    ("graphicsmagick", "bodytrack", 1100.0),
    ("jellyfish", "canneal", 90.0),
    ("pigz", "dedup", 1500.0),
    ("calculix", "facesim", 800.0),
    ("hmmer", "ferret", 700.0),
    ("7zip", "fluidanimate", 1900.0),
    ("sort", "freqmine", 250.0),
    ("povray", "raytrace", 60.0),
    ("mcl", "streamcluster", 2400.0),
    ("argon2", "swaptions", 40.0),
    ("vips", "vips", 900.0),
    ("x264", "x264", 300.0),
];

/// The agent's own, which only run with several threads.
const KERNELS: [(&str, &str, u64, f64); 2] =
    [("stencil", "sweeps", 2400, 2600.0), ("finelock", "thousand updates", 500, 2100.0)];

const IO: [&str; 8] = [
    "seqr-4k",
    "seqr-256k",
    "seqwr-4k",
    "seqwr-256k",
    "rndr-4k",
    "rndr-256k",
    "rndwr-4k",
    "rndwr-256k",
];

const QUICK: [(&str, &str, u64, f64); 6] = [
    ("idle", "ms", 2000, 20.0),
    ("cpu", "million loops", 25, 0.0),
    ("pingpong", "round trips", 1000, 8000.0),
    ("barrier", "barriers", 1000, 4000.0),
    ("sleep", "sleeps", 1000, 7000.0),
    ("block", "reads", 500, 3000.0),
];

pub struct Bench {
    pub name: &'static str,
    pub vcpus: u32,
    pub guests: u32,
    pub cost: Option<u32>,
}

/// The files of `bench idle`.
pub fn write_idle(folder: &Path) -> Vec<PathBuf> {
    let name = |results: &Results| format!("idle-{}.json", results.plan.guests);
    idle().iter().map(|results| write(folder, &name(results), results)).collect()
}

/// The files of `bench noise`.
pub fn write_isolated(folder: &Path) -> Vec<PathBuf> {
    let name = |results: &Results| format!("noise-4-{}.json", results.plan.isolation.unwrap());
    isolated().iter().map(|results| write(folder, &name(results), results)).collect()
}

pub fn write_mileage(folder: &Path) -> Vec<PathBuf> {
    let file =
        |(name, results): (String, Results)| write(folder, &format!("{name}.json"), &results);
    mileage().into_iter().map(file).collect()
}

/// Every file of a whole evaluation, in `folder`.
pub fn write_all(folder: &Path) -> Vec<PathBuf> {
    let mut benches = vec![
        ("table1", 16, 1, Some(DEFAULT_COST)),
        ("table1", 16, 4, Some(DEFAULT_COST)),
        ("multithreaded", 4, 1, Some(DEFAULT_COST)),
        ("multithreaded", 16, 1, Some(DEFAULT_COST)),
        ("multithreaded", 64, 1, Some(DEFAULT_COST)),
        ("io", 1, 1, Some(DEFAULT_COST)),
        ("quick", 2, 1, None),
    ];
    for cost in [0, DEFAULT_COST, 2 * DEFAULT_COST] {
        benches.push(("sequential", 1, 1, Some(cost)));
    }
    let mut files = Vec::new();
    for (name, vcpus, guests, cost) in benches {
        let bench = Bench { name, vcpus, guests, cost };
        let file = format!("{name}-{guests}x{vcpus}-{}.json", cost.unwrap_or(0));
        files.push(write(folder, &file, &results(&bench)));
    }
    files.push(write(folder, "polling.json", &polling()));
    files.extend(write_idle(folder));
    files.extend(write_isolated(folder));
    files.extend(write_mileage(folder));
    let path = folder.join("timeline.json");
    fs::write(&path, timeline()).unwrap();
    files.push(path);
    files
}

pub fn write(folder: &Path, name: &str, results: &Results) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, serde_json::to_string(results).unwrap()).unwrap();
    path
}

/// Rounds and repeats: enough for a verdict and intervals, few enough to be quick.
const ROUNDS: u32 = 4;
const REPEATS: u32 = 2;

pub fn results(bench: &Bench) -> Results {
    let workloads = workloads(bench);
    let ticks = match bench.name {
        "table1" | "quick" => TickMode::ON_TIME.to_vec(),
        _ => TickMode::ON_TIME[1..].to_vec(),
    };
    let mut modes: Vec<Mode> = ticks.iter().map(|tick| tick.plain()).collect();
    if bench.name == "quick" {
        modes.extend(["tickless+poll", "paratick+poll"].map(|name| name.parse::<Mode>().unwrap()));
    }
    let planned = workloads.iter().map(|(planned, _)| planned.clone());
    let plan = Plan {
        guests: bench.guests,
        idle_entries: true,
        ..Plan::new(bench.vcpus, modes.iter().copied(), planned, ROUNDS, REPEATS)
    };
    let mut results = Results {
        tool_version: "synthetic".into(),
        command: ["paratick", "bench", bench.name].map(String::from).to_vec(),
        started: format!("2026-01-0{}T00:00:00Z", 1 + bench.guests),
        environment: environment(bench),
        ..Results::new(bench.name, plan)
    };
    let mut noise = Noise(
        0x9e37_79b9_7f4a_7c15 ^ u64::from(bench.vcpus) << 7 ^ u64::from(bench.cost.unwrap_or(0)),
    );
    for (planned, idles) in &workloads {
        for mode in &modes {
            for nth in 0..ROUNDS * REPEATS {
                let shape = Shape { mode: *mode, idles: *idles, bench };
                let mut sample = shape.sample(&mut noise);
                (sample.round, sample.repeat) = (nth / REPEATS + 1, nth % REPEATS + 1);
                results.add(planned, *mode, sample);
            }
            if mode.tick == TickMode::TicklessStop && !matches!(bench.name, "quick" | "table1") {
                let decisions = *idles as u64 * u64::from(bench.vcpus);
                let entries = IdleEntries {
                    decisions,
                    kept: decisions / 3,
                    rcu_waiting: decisions / 4,
                    rcu_callbacks: BTreeMap::from([("mt_free_rcu".into(), 300)]),
                };
                results.set_idle_entries(&planned.workload, (*mode).into(), entries);
            }
        }
    }
    results.summarize();
    results
}

fn workloads(bench: &Bench) -> Vec<(PlannedWorkload, f64)> {
    let planned = |name: &str, work, unit: &str, stands_for: Option<&str>| PlannedWorkload {
        workload: name.into(),
        work,
        unit: unit.into(),
        program: stands_for.map(|other| Program {
            command: format!("{name} --threads {}", bench.vcpus),
            stands_for: Some(other.into()),
            ..Program::default()
        }),
    };
    match bench.name {
        "io" => {
            let io = IO.iter().zip([2600.0, 900.0, 1400.0, 700.0, 2100.0, 850.0, 1300.0, 650.0]);
            io.map(|(name, idles)| (planned(name, 2000, "requests", None), idles)).collect()
        }
        "quick" => {
            let quick = QUICK.iter();
            quick
                .map(|(name, unit, work, idles)| (planned(name, *work, unit, None), *idles))
                .collect()
        }
        "table1" => {
            let names: [(&str, f64); 2] = match bench.guests {
                1 => [("W1", 2.0), ("W3", 120.0)],
                _ => [("W2", 2.0), ("W4", 120.0)],
            };
            names.map(|(name, idles)| (planned(name, 2, "s", None), idles)).to_vec()
        }
        name => {
            let scale = if name == "sequential" { 0.02 } else { 1.0 };
            let programs = PROGRAMS.iter();
            let programs = programs
                .map(|(name, other, idles)| (planned(name, 1, "runs", Some(other)), idles * scale));
            let kernels = KERNELS.iter().filter(|_| bench.name == "multithreaded");
            let kernels =
                kernels.map(|(name, unit, work, idles)| (planned(name, *work, unit, None), *idles));
            programs.chain(kernels).collect()
        }
    }
}

/// What makes a sample's numbers.
struct Shape<'a> {
    mode: Mode,
    /// Idle periods of a vCPU in a second.
    idles: f64,
    bench: &'a Bench,
}

const SECONDS: f64 = 2.0;
const HZ: f64 = 250.0;

impl Shape<'_> {
    fn sample(&self, noise: &mut Noise) -> Sample {
        let causes: BTreeMap<Cause, u64> = self
            .causes()
            .into_iter()
            .map(|(cause, rate)| (cause, (rate * self.vcpu_seconds() * noise.around(0.02)) as u64))
            .collect();
        let exits: u64 = causes.values().sum();
        let guest = (self.vcpu_seconds() * 2e8 * noise.around(0.004)) as u64;
        let host = (exits as f64 * 4200.0 * noise.around(0.01)) as u64;
        let cost = u64::from(self.bench.cost.unwrap_or(0));
        let has_ticks = self.mode.tick.row().virtual_ticks;
        let path = exits as f64 * (4200.0 + cost as f64) * 0.1 / f64::from(self.bench.vcpus);
        Sample {
            exits: Some(Counts {
                total: exits,
                by_reason: BTreeMap::new(),
                msr_writes: Some(BTreeMap::from([(
                    "TSC_DEADLINE".into(),
                    causes[&Cause::Arm] + causes[&Cause::Stop],
                )])),
                by_cause: causes,
                ticks_delivered: has_ticks.then_some((HZ * self.vcpu_seconds()) as u64),
            }),
            world_switches: Some(exits),
            host_instructions: Some(host),
            guest_instructions: Some(guest),
            cpu_ns: Some(host + guest + cost * exits),
            duration_ns: Some((SECONDS * 1e9 * noise.around(0.003) + path) as u64),
            idle_ns: Some((self.vcpu_seconds() * 1e9 * (1.0 - self.busy())) as u64),
            ..Sample::default()
        }
    }

    fn busy(&self) -> f64 {
        match self.idles {
            idles if idles < 10.0 => 0.01,
            idles => (1.0 - idles / 9000.0).max(0.05),
        }
    }

    fn vcpu_seconds(&self) -> f64 {
        f64::from(self.bench.vcpus * self.bench.guests) * SECONDS
    }

    /// Exits of a vCPU in a second.
    fn causes(&self) -> [(Cause, f64); 9] {
        let idles = if self.mode.polls() { self.idles * 0.1 } else { self.idles };
        let busy = self.busy();
        let (arm, stop, expiry, host) = match self.mode.tick {
            TickMode::Periodic => (HZ, 0.0, HZ, 230.0 * busy),
            TickMode::Tickless => (HZ * busy + idles * 0.12, idles * 0.05, HZ * busy, 220.0 * busy),
            TickMode::TicklessStop => {
                (HZ * busy + idles * 1.02, idles * 0.98, HZ * busy, 220.0 * busy)
            }
            TickMode::ParatickPaper | TickMode::ParatickTicks => {
                (idles * 0.04 + 1.0, 0.2, 2.0, HZ * busy)
            }
            TickMode::Paratick | TickMode::ParatickCoalesce => (0.5, 0.0, 0.5, HZ * busy),
        };
        let io = if self.bench.name == "io" { idles } else { 0.4 };
        [
            (Cause::Arm, arm),
            (Cause::Stop, stop),
            (Cause::Expiry, expiry),
            (Cause::HostTick, host),
            (Cause::Halt, idles),
            (Cause::Ipi, if self.bench.vcpus > 1 { idles } else { 0.0 }),
            (Cause::Eoi, 6.0),
            (Cause::Io, io),
            (Cause::Other, 12.0),
        ]
    }
}

fn environment(bench: &Bench) -> Environment {
    let mut environment = Environment {
        kernel_version: "6.12.0-synthetic".into(),
        host_kernel_version: "6.12.0-synthetic".into(),
        patch_set_hash: Some("5".repeat(64)),
        qemu_version: Some("QEMU emulator version 0.0 (synthetic)".into()),
        ..Environment::default()
    };
    let configuration = &mut environment.configuration;
    configuration.hz = Some(Hz(250));
    configuration.guest_memory_bytes = 512 << 20;
    configuration.host_cpus = bench.vcpus + 1;
    configuration.host_memory_bytes = 2 << 30;
    configuration.accelerator = Some("tcg".into());
    configuration.ns_per_instruction = Some(1);
    configuration.exit_cost_ns = bench.cost;
    configuration.parallel_clock = bench.vcpus > 1;
    environment.machine.cpu = "no processor: these numbers are synthetic".into();
    environment.machine.cpus = 2;
    environment.machine.memory_bytes = 8 << 30;
    environment
}

/// Repeatable, and nothing more.
struct Noise(u64);

impl Noise {
    /// 1, give or take `share`.
    fn around(&mut self, share: f64) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let unit = (self.0 >> 11) as f64 / (1u64 << 53) as f64;
        1.0 + share * (2.0 * unit - 1.0)
    }
}
