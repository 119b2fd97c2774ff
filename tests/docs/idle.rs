// SPDX-License-Identifier: GPL-2.0-only
//! Idle guests, of `paratick bench idle` and `idle-tables`.

use crate::{
    generated::table,
    kept::{self, Kept},
    swept::{kept, number},
};
use paratick_core::{
    balancing::Balancing, catalogue::idle_tables::TOGETHER, clock_device::ClockDevice,
    stats::Comparison,
};
use paratick_view::{
    change::Change,
    number::{change, decimal, NARROW_SPACE, NO_BREAK, SPACE},
};
use serde::Deserialize;
use std::collections::BTreeMap;

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
    /// None of one number of guests.
    #[serde(default)]
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
    let costs = table(&head, rows);
    if kept.rest.slopes.iter().all(|slope| slope.per_guest.is_none()) {
        return kept.below(costs);
    }
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
    kept.below(format!("{costs}\n\n{more}\n\n{slopes}"))
}

pub fn idle() -> String {
    idle_guests("idle")
}

pub fn idle_50() -> String {
    idle_guests("idle-50")
}

pub fn idle_1000() -> String {
    idle_guests("idle-1000")
}

pub fn idle_50_1000() -> String {
    idle_guests("idle-50-1000")
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
    kept.below(format!("{}\n\n{steps}", table(head, rows)))
}

pub fn clocks() -> String {
    clock_devices("clocks")
}

pub fn clocks_1000() -> String {
    clock_devices("clocks-1000")
}

/// Guests that have their wake-ups together, beside those that do not.
pub fn coalesced() -> String {
    let kept: Kept<IdleGuests> = kept::read("coalesce");
    let mut rows: Vec<&IdleRow> = kept.rest.rows.iter().collect();
    rows.sort_by_key(|row| row.guests);
    let rows = rows.iter().map(|row| {
        let guests = row.guests.expect("of how many");
        let [wake_ups, low, high] = row.figures["wake-ups"];
        let wake_ups_each = few(wake_ups / f64::from(guests));
        let range = format!("{} [{}..{}]", number(wake_ups), number(low), number(high));
        let others = row.figures(["exits", "host-instructions"]);
        format!("| {guests} | {} | {range} | {wake_ups_each} | {others} |", row.mode)
    });
    let head = "| guests | mode | wake-ups | for each guest | exits | M host instructions |\n\
                |---|---|---|---|---|---|";
    kept.below(table(head, rows))
}

/// A guest with a load, and who balances it.
#[derive(Deserialize)]
struct Balanced {
    workload: String,
    mode: String,
    /// None: each CPU's own tick does.
    balancing: Option<Balancing>,
    summary: BTreeMap<String, [f64; 3]>,
    time_change: Option<Comparison>,
}

#[derive(Deserialize)]
struct Loads {
    balance: Vec<Balanced>,
}

/// Who balances load for idle vCPUs.
pub fn balance() -> String {
    balanced("balance")
}

/// … where the guest has two packages of CPUs.
pub fn balance_sockets() -> String {
    balanced("balance-sockets")
}

/// The same with a real JVM in place of our own two.
pub fn balance_jvm() -> String {
    balanced("balance-jvm")
}

pub fn balance_jvm_sockets() -> String {
    balanced("balance-jvm-sockets")
}

fn balanced(name: &str) -> String {
    let kept: Kept<Loads> = kept::read(name);
    let rows = kept.rest.balance.iter().map(|row| {
        let name = row.balancing.map_or(row.mode.clone(), |policy| policy.to_string());
        let ms = few(row.summary["duration_ns"][0] / 1e6);
        let text = row.time_change.map_or("–".into(), |one| Change::from(one).text());
        let text = text.replace([NARROW_SPACE, SPACE], " ").replace(NO_BREAK, "");
        format!(
            "| {} | {name} | {ms} | {text} | {} |",
            row.workload,
            number(row.summary["exits"][0])
        )
    });
    let head = "| | balanced by | time, ms | against ticks | exits |\n|---|---|---|---|---|";
    kept.below(table(head, rows))
}

/// The steps of 2007, one after the other.
pub fn together() -> String {
    let kept = kept::<IdleRow>("idle-together");
    let row = |(device, deferrable): (ClockDevice, bool)| {
        let name = device.to_string();
        let is_its = |row: &&IdleRow| {
            row.clock_device.as_ref() == Some(&name) && row.deferrable_sampler == Some(deferrable)
        };
        kept.rest.rows.iter().find(is_its).expect("each was measured")
    };
    let rows = TOGETHER.map(|one| {
        let sampler = if one.1 { "deferrable" } else { "not deferrable" };
        let of = row(one);
        let figures = of.figures(["interrupts", "events"]);
        let residency = few(of.figures["residency"][0] / 1e3);
        format!("| {} | {sampler} | {figures} | {residency} | {} |", one.0, of.figures(["exits"]))
    });
    let head = "| device | sampler | interrupts | timer events | idle for, ms | exits |\n\
                |---|---|---|---|---|---|";
    let [first, .., last, _] = TOGETHER;
    let printed = "| *printed* | −81 % | −75 % | ×7.2 | – |".to_string();
    let all = [printed, step("all but the last", row(first), row(last))];
    let steps = table(STEP, all.into_iter());
    kept.below(format!("{}\n\n{steps}", table(head, rows.into_iter())))
}

pub fn idle_modes() -> String {
    modes("idle-modes")
}

pub fn idle_modes_1000() -> String {
    modes("idle-modes-1000")
}

/// An idle guest of two vCPUs by mode; and with a timer that samples.
fn modes(name: &str) -> String {
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
    let mut steps = Vec::new();
    for (from, to) in [("periodic", "tickless-stop"), ("tickless-stop", "paratick")] {
        let (one, other) = (row(from, None).expect(from), row(to, None).expect(to));
        steps.push(step(&format!("{from} → {to}"), one, other));
    }
    for mode in ["tickless-stop", "tickless", "paratick"] {
        let of = |deferrable| row(mode, Some(deferrable)).expect(mode);
        steps.push(step(&format!("deferrable, {mode}"), of(false), of(true)));
    }
    let steps = table(STEP, steps.into_iter());
    kept.below(format!("{}\n\n{steps}", table(head, rows)))
}
