// SPDX-License-Identifier: GPL-2.0-only
//! What `docs/evaluation/runs.py` and a test measured, and what the model says of the same.

use crate::{
    generated::table,
    kept::{self, Kept},
};
use paratick_core::{
    model::{
        crossover,
        file::{Guests, Workload},
        Period, WokenBy,
    },
    units::Nanos,
};
use paratick_view::number::{change, decimal, whole, NARROW_SPACE};
use serde::{de::DeserializeOwned, Deserialize};
use std::collections::BTreeMap;

#[derive(Deserialize)]
pub struct Rows<Row> {
    pub rows: Vec<Row>,
}

pub fn kept<Row: DeserializeOwned>(name: &str) -> Kept<Rows<Row>> {
    kept::read(name)
}

pub fn with_origin<Rest>(kept: &Kept<Rest>, table: String) -> String {
    let Kept { commit, patches, .. } = kept;
    let (often, date) = (kept.often(), kept.date());
    format!("{table}\n\nOf {often}; commit {commit} and series {patches} on {date}.")
}

pub fn number(n: f64) -> String {
    whole(n).replace(NARROW_SPACE, " ")
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Swept {
    #[serde(rename = "sleep_us")]
    sleep_us: f64,
    periodic: f64,
    tickless_stop: f64,
}

/// Timer exits of a vCPU in a second, by how long it sleeps.
pub fn measured_crossover() -> String {
    let kept = kept::<Swept>("crossover");
    let rows = kept.rest.rows.iter().map(|row| {
        let bold = |own: f64, other: f64| match own < other {
            true => format!("**{}**", number(own)),
            false => number(own),
        };
        let (periodic, tickless) = (row.periodic, row.tickless_stop);
        let (one, other) = (bold(periodic, tickless), bold(tickless, periodic));
        format!("| {} ms | {one} | {other} |", row.sleep_us / 1e3)
    });
    with_origin(&kept, table("| sleeps for | periodic | tickless-stop |\n|---|---|---|", rows))
}

/// By load, in ms.
pub fn computed_crossover() -> String {
    let found = |load: f64, woken_by: WokenBy, sharing: u32| {
        let guests = Guests {
            name: None,
            count: 1,
            vcpus: 1,
            hz: 250,
            host_hz: None,
            load,
            idle_period: Some(Nanos(1_000_000)),
            woken_by,
            sharing,
        };
        let workload = Workload { time: Nanos(10_000_000_000), vms: vec![guests] };
        crossover(&workload.vms().expect("they can be modelled")[0], sharing)
    };
    let ms = |period: Period| decimal(period.0 * 1e3);
    let rows = [0.05, 0.5, 0.95].map(|load| {
        let of = |woken_by| {
            let (least, most) = found(load, woken_by, 1).kernels.expect("it is idle at times");
            match (ms(least), ms(most)) {
                (least, most) if least == most => least,
                (least, most) => format!("{least} to {most}"),
            }
        };
        let worded = [1, 2, 4].map(|sharing| {
            ms(found(load, WokenBy::Ipi, sharing).statement.expect("it is idle at times"))
        });
        let formulas = found(load, WokenBy::Ipi, 1).formulas.expect("it is idle at times");
        let percent = number(load * 100.0);
        let (worded, formulas) = (worded.join(", "), ms(formulas));
        let by = [WokenBy::Ipi, WokenBy::Sleep].map(of).join(" | ");
        format!("| {percent} % | {formulas} | {worded} | {by} |")
    });
    let head = "| load | formulas | as worded: 1, 2, 4 vCPUs for each pCPU | by Linux, woken by \
                `ipi` | by `sleep` |\n|---|---|---|---|---|";
    table(head, rows.into_iter())
}

#[derive(Deserialize)]
struct Errors {
    bench: String,
    mode: String,
    /// Of predicted timer exits against those that were counted.
    median: f64,
    within_10_percent: u32,
    cells: u32,
}

/// How far predictions of programs are off.
pub fn model_errors() -> String {
    const MODES: [&str; 4] = ["tickless-stop", "tickless", "paratick-ticks", "paratick"];
    let kept = kept::<Errors>("model-errors");
    let all = &kept.rest.rows;
    let mut benches: Vec<&str> = all.iter().map(|row| row.bench.as_str()).collect();
    benches.dedup();
    let rows = benches.into_iter().map(|bench| {
        let of = |mode: &str| {
            let row = all.iter().find(|row| row.bench == bench && row.mode == mode);
            row.map_or("–".into(), |row| {
                let (within, cells) = (row.within_10_percent, row.cells);
                format!("{}, {within}/{cells}", change(1.0 + row.median))
            })
        };
        format!("| {bench} | {} |", MODES.map(of).join(" | "))
    });
    let head = format!("| | {} |\n|---|---|---|---|---|", MODES.join(" | "));
    with_origin(&kept, table(&head, rows))
}

#[derive(Deserialize)]
struct Observed {
    host: String,
    guest: String,
    noise: Seen,
    idle: Seen,
    timerlat: Seen,
    halts: Seen,
}

/// What a verb saw of a guest and its host, or said why not.
#[derive(Deserialize)]
#[serde(untagged)]
enum Seen {
    Noise { gaps: u64, unexplained: u64, rest_ns: u64, all_ns: u64 },
    Idle { exits: u64, unexplained: u64 },
    Timerlat { wake_ups: u64, doubtful: u64 },
    Halts { halts: u64, compared: u64, differ: u64 },
    Refused { error: String },
}

impl Seen {
    fn worded(&self, said: &mut Vec<String>) -> String {
        match self {
            Seen::Noise { gaps, unexplained, rest_ns, all_ns } => {
                let rest = 100.0 * *rest_ns as f64 / *all_ns as f64;
                format!("{gaps}, {unexplained}; {} %", decimal(rest))
            }
            Seen::Idle { exits, unexplained } => format!("{exits}, {unexplained}"),
            Seen::Timerlat { wake_ups, doubtful } => format!("{wake_ups}, {doubtful}"),
            Seen::Halts { halts, compared, differ } => format!("{halts}; {compared}, {differ}"),
            Seen::Refused { error } => {
                let known = said.iter().position(|one| one == error).unwrap_or_else(|| {
                    said.push(error.clone());
                    said.len() - 1
                });
                format!("no ({})", known + 1)
            }
        }
    }
}

/// Every verb on every pair of kernels.
pub fn matrix() -> String {
    let kept = kept::<Observed>("matrix");
    let mut said = Vec::new();
    let rows: Vec<String> = kept
        .rest
        .rows
        .iter()
        .map(|row| {
            let cells = [&row.noise, &row.idle, &row.timerlat, &row.halts];
            let cells = cells.map(|cell| cell.worded(&mut said)).join(" | ");
            format!("| {} | {} | {cells} |", row.host, row.guest)
        })
        .collect();
    let head = "| host | guest | noise | idle | timerlat | halts |\n|---|---|---|---|---|---|";
    let told: Vec<String> =
        said.iter().enumerate().map(|(at, error)| format!("{}. {error}", at + 1)).collect();
    let told = if told.is_empty() { String::new() } else { format!("\n\n{}", told.join("\n")) };
    with_origin(&kept, table(head, rows.into_iter()) + &told)
}

#[derive(Deserialize)]
struct Looks {
    mode: String,
    /// Seconds, or `waits`.
    looks_every_s: serde_json::Value,
    exits: f64,
}

/// Exits of a program that looks for an event, and of one that waits.
pub fn events() -> String {
    let kept = kept::<Looks>("events");
    let rows = kept.rest.rows.iter().map(|row| {
        let what = match row.looks_every_s.as_f64() {
            Some(seconds) => format!("looks every {seconds} s"),
            None => "waits for it".into(),
        };
        format!("| {what} | {} | {} |", row.mode, number(row.exits))
    });
    with_origin(&kept, table("| a program | mode | exits in 20 s |\n|---|---|---|", rows))
}

/// A row of `paratick bench idle` or `idle-tables`, as `scripts/table` keeps it: in a second.
#[derive(Deserialize)]
struct IdleRow {
    mode: String,
    guests: Option<u32>,
    vcpus: Option<u32>,
    clock_device: Option<String>,
    deferrable_sampler: Option<bool>,
    boots: u32,
    /// Of each the median and its interval.
    figures: BTreeMap<String, [f64; 3]>,
}

impl IdleRow {
    fn figures<const N: usize>(&self, names: [&str; N]) -> String {
        names.map(|name| self.figures.get(name).map_or("–".into(), |of| few(of[0]))).join(" | ")
    }
}

/// What each guest more adds in a second.
#[derive(Deserialize)]
struct Slope {
    mode: String,
    cost: String,
    per_guest: Option<[f64; 3]>,
}

#[derive(Deserialize)]
struct IdleGuests {
    rows: Vec<IdleRow>,
    slopes: Vec<Slope>,
}

/// One decimal where there is little.
fn few(n: f64) -> String {
    if n < 100.0 {
        decimal(n).replace(NARROW_SPACE, " ")
    } else {
        number(n)
    }
}

const COSTS: [(&str, &str); 5] = [
    ("interrupts", "interrupts"),
    ("vcpu-timers", "vCPU timers"),
    ("exits", "exits"),
    ("wake-ups", "wake-ups"),
    ("host-instructions", "M host instructions"),
];

/// Idle guests on one pCPU.
fn idle_guests(name: &str) -> String {
    let kept: Kept<IdleGuests> = kept::read(name);
    let mut rows: Vec<&IdleRow> = kept.rest.rows.iter().collect();
    rows.sort_by_key(|row| row.guests);
    let rows = rows.iter().map(|row| {
        let guests = row.guests.expect("of how many");
        format!("| {guests} | {} | {} |", row.mode, row.figures(COSTS.map(|(name, _)| name)))
    });
    let names = COSTS.map(|(_, name)| name).join(" | ");
    let head = format!("| guests | mode | {names} |\n|---|---|{}", "---|".repeat(COSTS.len()));
    let modes = ["periodic", "tickless", "paratick"];
    let slopes = COSTS.iter().map(|(cost, name)| {
        let of = |mode: &str| {
            let own = |slope: &&Slope| slope.mode == mode && slope.cost == *cost;
            match kept.rest.slopes.iter().find(own).and_then(|slope| slope.per_guest) {
                Some([slope, low, high]) => {
                    format!("{} [{} to {}]", few(slope), few(low), few(high))
                }
                None => "–".into(),
            }
        };
        format!("| {name} | {} |", modes.map(of).join(" | "))
    });
    let slopes = table(&format!("| | {} |\n|---|---|---|---|", modes.join(" | ")), slopes);
    let more = "What each guest more adds (least squares over all of these, 95 %):";
    with_origin(&kept, format!("{}\n\n{more}\n\n{slopes}", table(&head, rows)))
}

pub fn idle() -> String {
    idle_guests("idle")
}

pub fn idle_1000() -> String {
    idle_guests("idle-1000")
}

const STEP: &str = "| step | interrupts | timer events | idle for | exits |\n|---|---|---|---|---|";

/// What changes from a row to another: ratios of medians.
fn step(name: &str, from: &IdleRow, to: &IdleRow) -> String {
    let ratio = |name: &str| Some(to.figures.get(name)?[0] / from.figures.get(name)?[0]);
    let [interrupts, events, exits] =
        ["interrupts", "events", "exits"].map(|name| ratio(name).map_or("–".into(), change));
    let idle = ratio("residency").map_or("–".into(), |ratio| format!("×{}", few(ratio)));
    format!("| {name} | {interrupts} | {events} | {idle} | {exits} |")
}

/// An idle guest by its clock device.
fn clock_devices(name: &str) -> String {
    const WORST_FIRST: [&str; 5] = ["pit", "hpet", "hpet-per-cpu", "lapic", "tsc-deadline"];
    let kept = kept::<IdleRow>(name);
    let row = |vcpus: u32, device: &str| {
        let all = &kept.rest.rows;
        let device = Some(device.to_string());
        all.iter().find(|row| row.vcpus == Some(vcpus) && row.clock_device == device)
    };
    let each = [1, 2].into_iter().flat_map(|vcpus| WORST_FIRST.map(|device| (vcpus, device)));
    let rows = each.filter_map(|(vcpus, device)| {
        let row = row(vcpus, device)?;
        let figures = row.figures(["interrupts", "exits"]);
        Some(format!("| {vcpus} | {device} | {} | {figures} |", row.boots))
    });
    let head = "| vCPUs | device | boots | interrupts | exits |\n|---|---|---|---|---|";
    let steps = [
        (1, "pit", "hpet", "| *printed* | −64 % | −12 % | ×2.8 | – |"),
        (2, "hpet", "hpet-per-cpu", "| *printed* | −31 % | – | ×1.3 | – |"),
    ];
    let steps = steps.iter().filter_map(|(vcpus, from, to, printed)| {
        let name = format!("{vcpus} vCPU: {from} → {to}").replace("2 vCPU", "2 vCPUs");
        Some([printed.to_string(), step(&name, row(*vcpus, from)?, row(*vcpus, to)?)])
    });
    let steps = table(STEP, steps.flatten());
    with_origin(&kept, format!("{}\n\n{steps}", table(head, rows)))
}

pub fn clocks() -> String {
    clock_devices("clocks")
}

pub fn clocks_1000() -> String {
    clock_devices("clocks-1000")
}

/// An idle guest of two vCPUs by mode; and with a timer that samples.
fn idle_modes(name: &str, printed: [&str; 2]) -> String {
    let kept = kept::<IdleRow>(name);
    let all = &kept.rest.rows;
    let rows = all.iter().map(|row| {
        let sampler = match row.deferrable_sampler {
            None => "",
            Some(false) => "sampler",
            Some(true) => "deferrable sampler",
        };
        let residency = row.figures.get("residency").map_or("–".into(), |of| few(of[0] / 1e3));
        let (figures, exits) = (row.figures(["interrupts", "events"]), row.figures(["exits"]));
        format!("| {sampler} | {} | {figures} | {residency} | {exits} |", row.mode)
    });
    let head = "| | mode | interrupts | timer events | idle for, ms | exits |\n\
                |---|---|---|---|---|---|";
    let row = |mode: &str, sampler| {
        let of = |row: &&IdleRow| row.mode == mode && row.deferrable_sampler == sampler;
        all.iter().find(of)
    };
    let mut steps = vec![printed[0].to_string()];
    for (from, to) in [("periodic", "tickless-stop"), ("tickless-stop", "paratick")] {
        let (one, other) = (row(from, None).expect(from), row(to, None).expect(to));
        steps.push(step(&format!("{from} → {to}"), one, other));
    }
    steps.push(printed[1].to_string());
    for mode in ["tickless-stop", "tickless", "paratick"] {
        let of = |deferrable| row(mode, Some(deferrable)).expect(mode);
        steps.push(step(&format!("deferrable, {mode}"), of(false), of(true)));
    }
    let steps = table(STEP, steps.into_iter().filter(|step| !step.is_empty()));
    with_origin(&kept, format!("{}\n\n{steps}", table(head, rows)))
}

pub fn idle_modes_250() -> String {
    idle_modes("idle-modes", ["", ""])
}

pub fn idle_modes_1000() -> String {
    let printed = [
        "| *printed: ticks → tickless* | −94 % | +1.7 % | ×15.6 | – |",
        "| *printed: deferrable* | −25 % | −72 % | ×2.0 | – |",
    ];
    idle_modes("idle-modes-1000", printed)
}

/// What `tests/boot/exit_record.rs` printed.
#[derive(Deserialize)]
struct HardwareNoise {
    osnoise: String,
    hardware: f64,
    noise_us: f64,
}

/// osnoise's own columns, in a second with 100 stalls.
pub fn hardware_noise() -> String {
    let kept = kept::<HardwareNoise>("hardware-noise");
    let rows = kept.rest.rows.iter().map(|row| {
        let [hardware, noise] = [row.hardware, row.noise_us].map(number);
        format!("| {} | {hardware} | {noise} |", row.osnoise)
    });
    with_origin(&kept, table("| | hardware noises | all noise, µs |\n|---|---|---|", rows))
}

/// What `tests/boot/noise.rs` printed.
#[derive(Deserialize)]
struct Weight {
    exit: String,
    class: String,
    count: f64,
    ns: f64,
    vmm_ns: f64,
}

/// A light and a heavy exit.
pub fn weights() -> String {
    let kept = kept::<Weight>("weights");
    let rows = kept.rest.rows.iter().map(|row| {
        let [count, ns, vmm] = [row.count, row.ns, row.vmm_ns].map(number);
        format!("| {} | {} | {count} | {ns} | {vmm} |", row.exit, row.class)
    });
    let head = "| exit | class | exits | ns | of these in the VMM |\n|---|---|---|---|---|";
    with_origin(&kept, table(head, rows))
}
