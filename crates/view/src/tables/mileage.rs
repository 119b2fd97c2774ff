// SPDX-License-Identifier: GPL-2.0-only
//! An idle guest beside the tables of 2007: by mode, with a sampler, and by clock device.

use crate::{
    change::{self, Change},
    number::{self, count, decimal, nanos},
    table::Table,
};
use paratick_core::{
    catalogue::{
        idle_tables::TOGETHER,
        mileage::{Printed, ERRORS},
    },
    clock_device::{ClockDevice, CLOCK_DEVICES},
    mode::TickMode,
    results::{Measure, Mileage, Row, Rung},
    stats::{at_most, Summary},
    units::Hz,
};

pub fn tables(all: &Mileage) -> Vec<Table> {
    let tables = [modes, sampler, served, clocks, together, steps];
    tables.iter().map(|table| table(all)).filter(|table| !table.is_empty()).collect()
}

/// ` at 250 Hz`, where that is known.
pub fn at(all: &Mileage) -> String {
    at_hz(all.hz)
}

pub(super) fn at_hz(hz: Option<Hz>) -> String {
    hz.map_or(String::new(), |hz| format!(" at {hz}"))
}

fn columns(more: &[Measure]) -> impl Iterator<Item = String> + '_ {
    let names = Measure::MAIN.iter().chain(more).map(|measure| measure.name().to_string());
    ["Guest".to_string()].into_iter().chain(names)
}

fn cell(measure: Measure, summary: Option<Summary>) -> String {
    number::interval(summary, if measure == Measure::Residency { count } else { decimal })
}

fn cells(row: &Row, more: &[Measure]) -> Vec<String> {
    let all = Measure::MAIN.iter().chain(more);
    all.map(|measure| cell(*measure, row.summary(*measure))).collect()
}

/// The rows of a table of 2007, with nothing in the columns that it has not.
fn printed(table: &mut Table, number: u8, more: usize) {
    table.group(format!("Printed in Table {number}: two cores of a laptop at 1000 Hz"));
    for one in Printed::of(number) {
        let events = format!("{} (“{}”)", one.events, one.events_printed);
        let mut cells = vec![count(one.interrupts), events, count(one.residency_us)];
        cells.resize(Measure::MAIN.len() + more, number::NOTHING.into());
        table.row(one.row, cells);
    }
}

const UNITS: &str =
    "Medians of all boots with their intervals; all but “Idle for” and “Exits per event” are for a \
    second. Interrupts: of the guest, as vmstat shows them. Timer events: without the tick's own. \
    Idle for: on average, each time that a CPU becomes idle. M instructions: of host and guest. \
    Timer events and “Idle for” are from a second window of the same boot, in which they were \
    recorded.";

pub fn modes(all: &Mileage) -> Table {
    let mut table = Table::new(format!("An idle guest, by mode{}", at(all)), columns(&[]));
    let rows = all.rows.iter().filter(|row| is_plain(row.rung));
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return table;
    }
    printed(&mut table, 1, 0);
    table.group("Here");
    for row in rows {
        table.row(row.rung.mode.to_string(), cells(row, &[]));
    }
    table.note(UNITS);
    ERRORS.iter().for_each(|error| table.note(*error));
    table
}

fn is_plain(rung: Rung) -> bool {
    rung.vcpus == 2 && rung.clock_device.is_default() && rung.deferrable_sampler.is_none()
}

/// Of today's guest; the others are of [`together`].
fn is_sampled(rung: Rung) -> bool {
    rung.vcpus == 2 && rung.deferrable_sampler.is_some()
}

const SAMPLER: [Measure; 3] =
    [Measure::SamplerExpiries, Measure::SamplerWakeUps, Measure::SamplerExits];

pub fn sampler(all: &Mileage) -> Table {
    let caption = format!("With a timer that samples on each CPU, in a second{}", at(all));
    let mut table = Table::new(caption, columns(&SAMPLER));
    let rows: Vec<_> = all.rows.iter().filter(|row| is_sampled(row.rung)).collect();
    if rows.is_empty() {
        return table;
    }
    printed(&mut table, 2, SAMPLER.len());
    for deferrable in [false, true] {
        table.group(if deferrable { "Here, deferrable" } else { "Here, not deferrable" });
        for row in rows.iter().filter(|row| row.rung.deferrable_sampler == Some(deferrable)) {
            table.row(row.rung.mode.to_string(), cells(row, &SAMPLER));
        }
    }
    table.note(
        "The sampler stands for the timer of 2007's ondemand governor. It expires as often as what \
         the flag removed there (60.60 − 17.17 events a second, on two CPUs): 43.4 times. “It \
         wakes a CPU”: that often it was what ended an idle period. Where another timer was due in \
         the same interrupt, that one did.",
    );
    table
}

/// How late the sampler is while idle, and how often it expires while busy.
pub fn served(all: &Mileage) -> Table {
    let caption = format!("When the sampler is served{}", at(all));
    let columns = ["Guest", "Late, half at most", "99 %", "all", "Expires, busy", "Due"];
    let mut table = Table::new(caption, columns);
    for deferrable in [false, true] {
        table.group(if deferrable { "Deferrable" } else { "Not deferrable" });
        let its =
            |row: &&Row| is_sampled(row.rung) && row.rung.deferrable_sampler == Some(deferrable);
        for row in all.rows.iter().filter(its) {
            let late = row.sampler_late();
            let at = |percent| number::or_nothing(at_most(&late, percent), nanos);
            let busy = row.busy_expiries();
            let due = row.results.plan.sampler.map(|sampler| {
                f64::from(row.results.plan.vcpus) * 1e6 / f64::from(sampler.period_us)
            });
            table.row(
                row.rung.mode.to_string(),
                [
                    at(50),
                    at(99),
                    at(100),
                    number::interval(busy, decimal),
                    number::or_nothing(due, decimal),
                ],
            );
        }
    }
    table.note(
        "Late: in an idle guest, by how many jiffies it expires after the one it was due in, as a \
         time; one is what the timer wheel takes at least. Busy: expiries in a second of all vCPUs \
         while both compute, in a window of a second; one in which a vCPU idled, as the work began \
         late, is left out.",
    );
    table
}

const LADDER: [Measure; 3] = [Measure::ArmExits, Measure::IoExits, Measure::IpiExits];

pub fn clocks(all: &Mileage) -> Table {
    let caption = format!("By clock device, the worst of 2007 first{}", at(all));
    let mut table = Table::new(caption, columns(&LADDER));
    let is_there = |rung: Rung| rung.deferrable_sampler.is_none() && !is_plain(rung);
    if !all.rows.iter().any(|row| is_there(row.rung)) {
        return table;
    }
    printed(&mut table, 3, LADDER.len());
    printed(&mut table, 4, LADDER.len());
    for vcpus in [1, 2] {
        for mode in [TickMode::TicklessStop, TickMode::Tickless] {
            let who = number::plural(vcpus as usize, "vCPU");
            table.group(format!("Here, {who}, {}", mode.name()));
            let rows = CLOCK_DEVICES
                .map(|row| (row.name, all.row(Rung { vcpus, ..rung(row.device, mode) })));
            // Somebody may have left the mode out.
            for (name, row) in rows.iter().filter(|_| rows.iter().any(|(_, row)| row.is_some())) {
                let cells = row.map(|row| cells(row, &LADDER));
                table.row(*name, cells.unwrap_or(none(&LADDER)));
            }
        }
    }
    table.group("Here, 2 vCPUs, virtual ticks over tsc-deadline");
    for mode in [TickMode::ParatickTicks, TickMode::Paratick] {
        let row = all.row(rung(ClockDevice::default(), mode));
        row.into_iter().for_each(|row| table.row(mode.name(), cells(row, &LADDER)));
    }
    for row in CLOCK_DEVICES {
        table.note(format!("`{}`: {}.", row.name, row.about));
    }
    table.note(
        "Arm, I/O and IPI: exits by these causes. A shared device wakes a vCPU that is alone by \
         itself, one-shot. With two, this kernel keeps it periodic, since a CPU whose own timer is \
         a dummy cannot stop its tick: no dynamic ticks, whatever the mode. 2007's kernels could, \
         by a broadcast in deep idle states, which a VM has not.",
    );
    table
}

/// The steps of 2007, each with all before it.
pub fn together(all: &Mileage) -> Table {
    let caption = format!("One step of 2007 after the other, one vCPU{}", at(all));
    let mut table = Table::new(caption, columns(&LADDER));
    for (device, deferrable) in TOGETHER {
        let Some(row) = all.row(stepped(device, deferrable)) else { continue };
        let kind = if deferrable { "deferrable sampler" } else { "sampler" };
        table.row(format!("{device}, {kind}"), cells(row, &LADDER));
    }
    table
        .note("Two vCPUs cannot share a clock device and be tickless: one has it for itself here.");
    table
}

fn stepped(clock_device: ClockDevice, deferrable: bool) -> Rung {
    let rung = rung(clock_device, TickMode::TicklessStop);
    Rung { vcpus: 1, deferrable_sampler: Some(deferrable), ..rung }
}

/// A row that was not measured.
fn none(more: &[Measure]) -> Vec<String> {
    vec![number::NOTHING.into(); Measure::MAIN.len() + more.len()]
}

/// Of two vCPUs, without a sampler.
fn rung(clock_device: ClockDevice, tick: TickMode) -> Rung {
    Rung { vcpus: 2, clock_device, deferrable_sampler: None, mode: tick.plain() }
}

/// What a step of 2007 changed, and what it changes here.
struct Step {
    name: String,
    /// The rows before and after it.
    printed: Option<[&'static Printed; 2]>,
    from: Rung,
    to: Rung,
}

fn all_steps() -> Vec<Step> {
    let deadline = ClockDevice::TscDeadline;
    let step = |name: &str, table: Option<u8>, from, to| {
        let printed = table.map(|number| [0, 1].map(|row| row_of(number, row)));
        Step { name: name.into(), printed, from, to }
    };
    let sampler =
        |deferrable, tick| Rung { deferrable_sampler: Some(deferrable), ..rung(deadline, tick) };
    let mut steps = Vec::new();
    use TickMode::*;
    let of = |tick| rung(deadline, tick);
    steps.push(step("ticks → tickless", Some(1), of(Periodic), of(TicklessStop)));
    steps.push(step(
        "+ deferrable",
        Some(2),
        sampler(false, TicklessStop),
        sampler(true, TicklessStop),
    ));
    let mut devices = CLOCK_DEVICES.iter().map(|row| row.device).peekable();
    while let (Some(one), Some(next)) = (devices.next(), devices.peek()) {
        for vcpus in [1, 2] {
            // Table 3 is about a device that serves alone, Table 4 about one for each CPU.
            let printed = match (one, vcpus) {
                (ClockDevice::Pit, 1) => Some(3),
                (ClockDevice::Hpet, 2) => Some(4),
                _ => None,
            };
            let of = |device| Rung { vcpus, ..rung(device, TicklessStop) };
            let who = number::plural(vcpus as usize, "vCPU");
            let name = format!("{one} → {next}, {who}");
            steps.push(step(&name, printed, of(one), of(*next)));
        }
    }
    let [(first, _), .., (last, _), _] = TOGETHER;
    steps.push(Step {
        name: "all from Table 2 to 4, 1 vCPU".into(),
        printed: Some([row_of(2, 0), row_of(4, 1)]),
        from: stepped(first, false),
        to: stepped(last, true),
    });
    steps.push(step("tickless-stop → tickless", None, of(TicklessStop), of(Tickless)));
    steps.push(step("tickless → paratick-ticks", None, of(Tickless), of(ParatickTicks)));
    steps.push(step("paratick-ticks → paratick", None, of(ParatickTicks), of(Paratick)));
    steps.push(step("ticks → paratick", None, of(Periodic), of(Paratick)));
    for (name, tick) in [("tickless", Tickless), ("paratick", Paratick)] {
        let name = format!("+ deferrable, in {name}");
        steps.push(Step {
            name,
            printed: None,
            from: sampler(false, tick),
            to: sampler(true, tick),
        });
    }
    steps
}

fn row_of(table: u8, row: usize) -> &'static Printed {
    Printed::of(table).nth(row).expect("each table has two")
}

const STEPS: [Measure; 5] = {
    use Measure::*;
    [Interrupts, Events, Residency, Exits, Instructions]
};

pub fn steps(all: &Mileage) -> Table {
    let caption = format!("What each step changes{}", at(all));
    let head = STEPS.iter().map(|measure| measure.name().to_string());
    let mut table = Table::new(caption, ["Step".to_string()].into_iter().chain(head));
    for step in all_steps() {
        let compared = STEPS.map(|measure| all.step(step.from, step.to, measure));
        if compared.iter().all(Option::is_none) {
            continue;
        }
        table.group(step.name);
        if let Some([before, after]) = step.printed {
            let of = |value: fn(&Printed) -> f64| number::change(value(after) / value(before));
            let printed = [
                of(|row| row.interrupts),
                of(|row| row.events),
                of(|row| row.residency_us),
                number::NOTHING.into(),
                number::NOTHING.into(),
            ];
            table.row("printed", printed);
        }
        table.row("here", compared.map(|one| change::text(one.map(Change::from))));
    }
    table.note(format!(
        "Printed: computed from what the tables print. Here: of `tickless-stop`, which is what \
         2007 calls tickless, where no mode is named. {}",
        change::SIGNS
    ));
    table
}
