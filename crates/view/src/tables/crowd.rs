// SPDX-License-Identifier: GPL-2.0-only
//! Idle guests side by side: what they cost their host in a second, and what each one more adds.

use crate::{
    change::{self, Change},
    number::{self, count, decimal},
    table::Table,
    tables::wakeups,
};
use paratick_core::{
    cause::Cause,
    mode::TickMode,
    results::{wake_ups_of_each, Cell, Cost, Crowd},
    stats::{self, Line},
};

pub fn tables(crowd: &Crowd) -> Vec<Table> {
    let tables = [rates, slopes, together, late, causes];
    tables.iter().map(|table| table(crowd)).filter(|table| !table.is_empty()).collect()
}

/// ` at 250 Hz`, where that is known, and which timers there are.
pub fn at(crowd: &Crowd) -> String {
    let hz = crowd.hz.map_or(String::new(), |hz| format!(" at {hz}"));
    let timers = crowd.timers().map_or(String::new(), |name| format!(", with timers: {name}"));
    hz + &timers
}

fn columns(first: &str) -> impl Iterator<Item = String> + '_ {
    let costs = Cost::ALL.iter().map(|cost| cost.name().to_string());
    [first.to_string()].into_iter().chain(costs)
}

pub fn rates(crowd: &Crowd) -> Table {
    let caption = format!("What idle guests of one vCPU cost their host in a second{}", at(crowd));
    let mut table = Table::new(caption, columns("Guests"));
    for mode in crowd.modes() {
        table.group(mode.to_string());
        for (guests, cell) in crowd.cells(mode) {
            let rate = |cost: &Cost| {
                let summary = stats::summarize(&cost.observations(cell));
                number::interval(summary, if is_instructions(*cost) { decimal } else { count })
            };
            table.row(guests.to_string(), Cost::ALL.iter().map(rate));
        }
    }
    table.note(
        "Medians of all samples with their intervals, of all of the host's CPUs, in one window of \
         all guests. vCPU timers: timers of vCPUs that expired; several may in one interrupt. \
         Wake-ups: a pCPU left idle. Instructions: in millions.",
    );
    table
}

fn is_instructions(cost: Cost) -> bool {
    matches!(cost, Cost::HostInstructions | Cost::GuestInstructions)
}

pub fn slopes(crowd: &Crowd) -> Table {
    let caption = format!("What each guest more adds in a second{}", at(crowd));
    let mut table = Table::new(caption, columns("Mode"));
    let has_lines = |mode| crowd.slope(mode, Cost::Exits).per_guest.is_some();
    for mode in crowd.modes().into_iter().filter(|mode| has_lines(*mode)) {
        let slope = |cost: &Cost| {
            let digits = if is_instructions(*cost) { 3 } else { 1 };
            number::or_nothing(crowd.slope(mode, *cost).per_guest, |line| slope(line, digits))
        };
        table.row(mode.to_string(), Cost::ALL.iter().map(slope));
    }
    table.note(
        "Slopes of the lines of least squares through all samples, with 95 % intervals (Student's \
         t). The host's own is in none of them: it is there without guests, too.",
    );
    if let Some(text) = periodic(crowd) {
        table.note(text);
    }
    table
}

fn slope(line: Line, digits: usize) -> String {
    let write = |value: f64| {
        let text = format!("{:.digits$}", value.abs());
        match value < 0.0 && text.chars().any(|c| ('1'..='9').contains(&c)) {
            true => format!("−{text}"),
            false => text,
        }
    };
    number::range(line.low, line.slope, line.high, write)
}

/// What `periodic` must add: a tick.
fn periodic(crowd: &Crowd) -> Option<String> {
    let hz = f64::from(crowd.hz?.0);
    let mode = crowd.modes().into_iter().find(|mode| mode.tick == TickMode::Periodic)?;
    let of = |cost| Some(crowd.slope(mode, cost).per_guest?.slope);
    let (timers, interrupts) = (of(Cost::VcpuTimers)?, of(Cost::Interrupts)?);
    let off = |slope: f64| number::change(slope / hz);
    Some(format!(
        "A guest of `{mode}` has {hz} ticks in a second. The slope of vCPU timers is off that by \
         {}, that of interrupts by {}: several timers may expire in one, and some are the host's \
         own.",
        off(timers),
        off(interrupts)
    ))
}

/// Whether wake-ups grow less than linearly.
pub fn together(crowd: &Crowd) -> Table {
    let caption = format!("Wake-ups of the guests' pCPU for each guest, in a second{}", at(crowd));
    let columns = ["Mode", "Guests", "Wake-ups for each", "changed by"];
    let mut table = Table::new(caption, columns);
    for mode in crowd.modes() {
        let Some(((few, many), compared)) = crowd.wake_ups_of_most(mode) else { continue };
        let cells = crowd.cells(mode);
        let ends = [cells.first(), cells.last()].map(|end| {
            let (guests, cell) = end?;
            stats::summarize(&wake_ups_of_each(cell, *guests)).map(|summary| summary.median)
        });
        let [fewest, most] = ends.map(|median| number::or_nothing(median, decimal));
        let cells = [
            format!("{few} → {many}"),
            format!("{fewest} → {most}"),
            change::text(Some(Change::from(compared))),
        ];
        table.row(mode.to_string(), cells);
    }
    table.note(
        "Fewer for each of many guests: they grow less than linearly. One wake-up may serve \
         several guests, and the host's own tick goes on for all of them together while they keep \
         its CPU from longer sleep. In brackets: fewer than 4 boots of either.",
    );
    table
}

/// How late the last of many is.
pub fn late(crowd: &Crowd) -> Table {
    let caption = format!("How late timers of all guests are{}", at(crowd));
    let columns = ["Guests, class", "Expiries", "Early", "Late, median", "at most", "Beyond"];
    let mut table = Table::new(caption, columns);
    for mode in crowd.modes() {
        let cells = crowd.cells(mode).into_iter();
        let samples = cells
            .flat_map(|(guests, cell)| cell.samples().iter().map(move |sample| (guests, sample)));
        let recorded: Vec<_> = samples.filter(|(_, sample)| !sample.late.is_empty()).collect();
        if recorded.is_empty() {
            continue;
        }
        table.group(mode.to_string());
        for (guests, sample) in recorded {
            for (class, late) in &sample.late {
                table.row(format!("{guests}, {class}"), wakeups::late_cells(late));
            }
        }
    }
    table.note(
        "In a window of their own, of each boot. Late: after the time that was asked for; timers \
         of the wheel in full jiffies. Beyond: by how much one was later than its slack, or than \
         where the wheel rounds it to; windows of halts allow more.",
    );
    table
}

/// Of each guest, where there are most.
pub fn causes(crowd: &Crowd) -> Table {
    let last = |mode| crowd.cells(mode).pop();
    let most: Vec<_> = crowd.modes().into_iter().filter_map(last).collect();
    let guests = most.iter().map(|(guests, _)| *guests).max().unwrap_or(0);
    let caption = format!(
        "Exits of each of {} in a second, by cause{}",
        number::plural(guests as usize, "guest"),
        at(crowd)
    );
    let modes = most.iter().map(|(_, cell)| cell.subject.mode.to_string());
    let mut table = Table::new(caption, ["Cause".to_string()].into_iter().chain(modes));
    for cause in Cause::ALL {
        let rates: Vec<_> = most.iter().map(|(guests, cell)| each(cell, *guests, cause)).collect();
        if rates.iter().flatten().any(|rate| *rate > 0.0) {
            table.row(cause.about(), rates.into_iter().map(|r| number::or_nothing(r, decimal)));
        }
    }
    table
}

/// The mean of all samples.
fn each(cell: &Cell, guests: u32, cause: Cause) -> Option<f64> {
    let (mut exits, mut seconds) = (0, 0.0);
    for sample in cell.samples() {
        exits += sample.exits.as_ref()?.cause(cause);
        seconds += sample.duration_ns? as f64 / 1e9;
    }
    (seconds > 0.0).then(|| exits as f64 / seconds / f64::from(guests))
}
