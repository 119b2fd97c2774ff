// SPDX-License-Identifier: GPL-2.0-only
//! What `docs/evaluation/runs.py` and a test measured, and what the model says of the same.

use crate::{
    generated::table,
    kept::{self, Kept},
};
use paratick_core::{
    latency::Sampler,
    model::{
        crossover,
        file::{Guests, Workload},
        Period, WokenBy,
    },
    stats::{summarize, Observation},
    units::Nanos,
};
use paratick_view::number::{change, decimal, interval, whole, NARROW_SPACE};
use serde::{de::DeserializeOwned, Deserialize};

#[derive(Deserialize)]
pub struct Rows<Row> {
    pub rows: Vec<Row>,
}

pub fn kept<Row: DeserializeOwned>(name: &str) -> Kept<Rows<Row>> {
    kept::read(name)
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
    kept.below(table("| sleeps for | periodic | tickless-stop |\n|---|---|---|", rows))
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
    kept.below(table(&head, rows))
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
    Timerlat { wake_ups: u64, doubtful: u64, sampler: Option<Sampler> },
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
            Seen::Timerlat { wake_ups, doubtful, sampler } => {
                let by = if *sampler == Some(Sampler::User) { "; program" } else { "" };
                format!("{wake_ups}, {doubtful}{by}")
            }
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
    kept.below(table(head, rows.into_iter()) + &told)
}

#[derive(Deserialize)]
struct Looks {
    mode: String,
    /// Seconds, or `waits`.
    looks_every_s: serde_json::Value,
    /// Of each boot.
    exits: Vec<f64>,
}

/// Exits of a program that looks for an event, and of one that waits.
pub fn events() -> String {
    let kept = kept::<Looks>("events");
    let rows = kept.rest.rows.iter().map(|row| {
        let what = match row.looks_every_s.as_f64() {
            Some(seconds) => format!("looks every {seconds} s"),
            None => "waits for it".into(),
        };
        let boots = (1..).zip(&row.exits);
        let boots: Vec<_> = boots.map(|(round, &value)| Observation { round, value }).collect();
        let exits = interval(summarize(&boots), number);
        format!("| {what} | {} | {exits} |", row.mode)
    });
    kept.below(table("| a program | mode | exits in 20 s |\n|---|---|---|", rows))
}
