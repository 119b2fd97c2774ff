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
use paratick_view::number::{decimal, whole, NARROW_SPACE};
use serde::{de::DeserializeOwned, Deserialize};

#[derive(Deserialize)]
pub struct Rows<Row> {
    pub rows: Vec<Row>,
}

pub fn kept<Row: DeserializeOwned>(name: &str) -> Kept<Rows<Row>> {
    kept::read(name)
}

pub fn with_origin<Row>(kept: &Kept<Rows<Row>>, table: String) -> String {
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

#[derive(Deserialize)]
struct Idle {
    guests: u32,
    mode: String,
    interrupts: f64,
    vcpu_timers: f64,
    exits: f64,
    wake_ups: f64,
}

/// Idle guests on one pCPU, in a second.
pub fn idle() -> String {
    let kept = kept::<Idle>("idle-1000");
    let rows = kept.rest.rows.iter().map(|row| {
        let counts = [row.interrupts, row.vcpu_timers, row.exits, row.wake_ups].map(number);
        format!("| {} | {} | {} |", row.guests, row.mode, counts.join(" | "))
    });
    let head = "| guests | mode | interrupts | vCPU timers | exits | wake-ups |\n\
                |---|---|---|---|---|---|";
    with_origin(&kept, table(head, rows))
}

#[derive(Deserialize)]
struct ClockDevice {
    device: String,
    vcpus: u32,
    boots: u32,
    interrupts: f64,
    exits: f64,
}

/// An idle guest by its clock device, in a second.
pub fn clocks() -> String {
    let kept = kept::<ClockDevice>("clocks-1000");
    let rows = kept.rest.rows.iter().map(|row| {
        let ClockDevice { device, vcpus, boots, .. } = row;
        let [interrupts, exits] = [row.interrupts, row.exits].map(number);
        format!("| {vcpus} | {device} | {boots} | {interrupts} | {exits} |")
    });
    let head = "| vCPUs | device | boots | interrupts | exits |\n|---|---|---|---|---|";
    with_origin(&kept, table(head, rows))
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
