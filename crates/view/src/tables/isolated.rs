// SPDX-License-Identifier: GPL-2.0-only
//! Noise with CPUs isolated on the host, in the guest, on both and on neither.

use crate::{
    number::{self, count, decimal, share},
    table::Table,
};
use paratick_core::{
    cause::Cause,
    isolation::Isolation,
    latency_program::LatencyProgram,
    mode::{Mode, TickMode},
    noise::NoiseSample,
    results::{Cell, Factorial, Held, NoiseFigure, Sample, CLAIMS},
    stats::{self, Observation, Summary},
};
use std::collections::{BTreeMap, BTreeSet};

pub fn tables(factorial: &Factorial) -> Vec<Table> {
    let tables = [times, latencies, counts, timers, claims, effects, takers];
    tables.iter().map(|table| table(factorial)).filter(|table| !table.is_empty()).collect()
}

pub fn on(factorial: &Factorial) -> String {
    format!(" on a host of {}", number::plural(factorial.host_cpus as usize, "CPU"))
}

pub fn name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::None => "nothing",
        Isolation::Host => "host",
        Isolation::Guest => "guest",
        Isolation::Both => "both",
    }
}

/// A group for each mode, and in it a row for each way to isolate that was measured.
fn rows(factorial: &Factorial, table: &mut Table, row: impl Fn(&Cell) -> Vec<String>) {
    for mode in factorial.modes() {
        table.group(mode.to_string());
        for isolation in Isolation::ALL {
            if let Some(cell) = factorial.cell(isolation, mode) {
                table.row(name(isolation), row(cell));
            }
        }
    }
}

fn columns(figures: &[NoiseFigure]) -> Vec<String> {
    let names = figures.iter().map(|figure| figure.name().to_string());
    ["Isolated".to_string()].into_iter().chain(names).collect()
}

fn us(value: f64) -> String {
    match value.abs() < 100.0 {
        true => decimal(value),
        false => count(value.round()),
    }
}

pub fn times(factorial: &Factorial) -> Table {
    let caption = format!("Noise of a vCPU that samples, in µs of each second{}", on(factorial));
    let figures = NoiseFigure::TIMES;
    let mut columns = columns(&figures);
    columns.push(NoiseFigure::Available.name().into());
    let mut table = Table::new(caption, columns);
    rows(factorial, &mut table, |cell| {
        let mut cells = figures.map(|figure| number::interval(figure.summary(cell), us)).to_vec();
        let available = NoiseFigure::Available.summary(cell);
        let percent = |left: &Summary| format!("{:.2} %", left.median);
        cells.push(available.as_ref().map_or("–".into(), percent));
        cells
    });
    table.note(
        "Medians of all boots with their intervals. Steal: another task of the host ran. KVM and \
         VMM: all else that the host did, its interrupts included. Hardware: nobody knows of it. \
         All noise has the world switches themselves, too. Longest: the longest gap of a \
         recording, in µs.",
    );
    table
}

pub fn counts(factorial: &Factorial) -> Table {
    let caption = format!("Exits of a vCPU that samples, in a second{}", on(factorial));
    let figures =
        [NoiseFigure::Light, NoiseFigure::Heavy, NoiseFigure::Halts, NoiseFigure::Unknown];
    let mut table = Table::new(caption, columns(&figures));
    rows(factorial, &mut table, |cell| {
        figures.map(|figure| number::interval(figure.summary(cell), decimal)).to_vec()
    });
    table.note(
        "Light: KVM alone dealt with it. Heavy: it left KVM_RUN. Stock's hardware: gaps of which \
         the guest's kernel knows nothing, so that its own osnoise calls them hardware noise.",
    );
    if let Some(text) = audited(factorial) {
        table.note(text);
    }
    table
}

/// What was held against what.
fn audited(factorial: &Factorial) -> Option<String> {
    let cells = factorial.by_isolation.values().flat_map(|results| &results.cells);
    let noise = cells.flat_map(|cell| cell.samples()).filter_map(|sample| sample.noise.as_ref());
    let audits: Vec<_> = noise.map(|noise| noise.audit).collect();
    let equal = audits.iter().filter(|audit| audit.world_switches == Some(audit.exits)).count();
    let ended: u64 = audits.iter().map(|audit| audit.light + audit.heavy + audit.halts).sum();
    let [exits, open] =
        [audits.iter().map(|one| one.exits).sum(), audits.iter().map(|one| one.open).sum::<u64>()];
    (exits > 0).then(|| {
        format!(
            "Of all vCPUs: {} light and heavy exits and halts, and {} that went on at the end, are \
             {} exits; in {equal} of {} the emulator counted as many world switches.",
            count(ended as f64),
            count(open as f64),
            count(exits as f64),
            number::plural(audits.len(), "recording")
        )
    })
}

/// What programs measured from user space, beside the longest gap.
pub fn latencies(factorial: &Factorial) -> Table {
    let caption = format!("Latency that programs measured, in µs{}", on(factorial));
    let programs: BTreeSet<LatencyProgram> = factorial
        .by_isolation
        .values()
        .flat_map(|results| results.plan.latency_programs.iter().copied())
        .collect();
    let of_each =
        programs.iter().flat_map(|one| [format!("{one}, mean"), format!("{one}, longest")]);
    let columns = ["Isolated".into(), "osnoise, longest".into()].into_iter().chain(of_each);
    let mut table = Table::new(caption, columns);
    if programs.is_empty() {
        return table;
    }
    rows(factorial, &mut table, |cell| {
        let longest = number::interval(NoiseFigure::Longest.summary(cell), us);
        let metrics = programs.iter().flat_map(|one| [one.mean_metric(), one.longest_metric()]);
        let each = metrics.map(|metric| {
            let observe = |sample: &Sample| {
                let value = *sample.metrics.get(&metric)?;
                Some(Observation { round: sample.round, value })
            };
            let seen: Vec<_> = cell.samples().iter().filter_map(observe).collect();
            number::interval(stats::summarize(&seen), us)
        });
        [longest].into_iter().chain(each).collect()
    });
    table.note(
        "Each ran after the recording, beside the same chores. cyclictest: from a timer's deadline \
         to its thread. oslat: between two readings of the clock, in whole µs.",
    );
    table
}

const TIMERS: [Cause; 4] = [Cause::Arm, Cause::Stop, Cause::Expiry, Cause::HostTick];

/// A number of a recording, for one vCPU and second.
fn rate(cell: &Cell, of: impl Fn(&NoiseSample) -> u64) -> String {
    let observe = |sample: &Sample| {
        let noise = sample.noise.as_ref()?;
        Some(Observation { round: sample.round, value: noise.per_second(of(noise)) })
    };
    let rates: Vec<_> = cell.samples().iter().filter_map(observe).collect();
    number::interval(stats::summarize(&rates), decimal)
}

pub fn timers(factorial: &Factorial) -> Table {
    let caption =
        format!("Noise by timers: events of a vCPU that samples, in a second{}", on(factorial));
    let causes = TIMERS.iter().map(|cause| cause.to_string());
    let columns = ["Isolated".into()].into_iter().chain(causes).chain(["guest's tick".into()]);
    let mut table = Table::new(caption, columns);
    rows(factorial, &mut table, |cell| {
        let causes = TIMERS.iter().map(|cause| rate(cell, |noise| noise.cause(*cause)));
        causes.chain([rate(cell, |noise| noise.guest_ticks)]).collect()
    });
    table.note(
        "arm, stop, expiry: exits for the guest's timer; host-tick: exits for the host's; guest's \
         tick: interrupts of its timer in the guest, virtual ticks among them.",
    );
    if let Some(text) = goal(factorial) {
        table.note(text);
    }
    table
}

/// `paratick` on a host that keeps its own tick away: the guest's timers should cause no noise.
fn goal(factorial: &Factorial) -> Option<String> {
    let mode = factorial.modes().into_iter().find(|mode| mode.tick == TickMode::Paratick)?;
    let cell = factorial.cell(Isolation::Both, mode)?;
    let summary = NoiseFigure::GuestTimers.summary(cell)?;
    let seconds: f64 = cell
        .samples()
        .iter()
        .filter_map(|sample| sample.noise.as_ref())
        .map(|noise| noise.window_ns as f64 / 1e9 * f64::from(noise.cpus))
        .sum();
    Some(format!(
        "`{mode}` on a nohz_full host, with both isolated: the guest's own timers caused {} events \
         in a second of a vCPU, in {} s of vCPUs in all. The goal is none.",
        number::interval(Some(summary), decimal),
        decimal(seconds)
    ))
}

fn claim_text(held: &Held) -> String {
    let (with, against) = (name(held.claim.with), name(held.claim.against));
    format!("{}: {with} against {against}", held.claim.figure.name())
}

fn signed(value: f64) -> String {
    match value {
        value if value < 0.0 => format!("−{}", us(-value)),
        value if value > 0.0 => format!("+{}", us(value)),
        _ => "0".into(),
    }
}

fn difference(summary: Option<Summary>) -> String {
    number::or_nothing(summary, |one| number::range(one.low, one.median, one.high, signed))
}

pub fn claims(factorial: &Factorial) -> Table {
    let caption = format!("What isolating changes, and what the thesis says{}", on(factorial));
    let columns = ["What", "Thesis", "Here", "Difference, µs in a second"];
    let mut table = Table::new(caption, columns).words(1..3);
    for mode in factorial.modes() {
        table.group(mode.to_string());
        for claim in CLAIMS {
            let held = factorial.held(mode, claim);
            let Some(sign) = held.sign else { continue };
            let sign = match held.concluded {
                true => sign.name().to_string(),
                false => format!("({})", sign.name()),
            };
            let cells = [claim.thesis.name().into(), sign, difference(held.difference)];
            table.row(claim_text(&held), cells);
        }
    }
    table.note(
        "Differences are taken boot by boot: medians with intervals. The same: 0 is in the \
         interval. In brackets: from fewer than 4 boots. The thesis (Politecnico di Milano, 2023, \
         section 5.2) prints no number.",
    );
    table
}

const EFFECTS: [NoiseFigure; 6] = {
    use NoiseFigure::*;
    [Noise, Steal, Hypervisor, Guest, Light, GuestTimers]
};

pub fn effects(factorial: &Factorial) -> Table {
    let caption = format!("Main effects of isolating, of a vCPU in a second{}", on(factorial));
    let mut table = Table::new(caption, ["Of", "Host", "Guest", "Both together"]);
    for mode in factorial.modes() {
        let each = EFFECTS.map(|figure| factorial.effects(mode, figure));
        if each.iter().any(|effects| effects.host.is_some()) {
            table.group(mode.to_string());
        }
        for effects in each.into_iter().filter(|effects| effects.host.is_some()) {
            let cells = [effects.host, effects.guest, effects.interaction].map(difference);
            table.row(effects.figure.name(), cells);
        }
    }
    table.note(
        "What isolating a side changes, on average of the other side being isolated or not, boot \
         by boot; both together: by how much host's effect is larger where the guest is isolated, \
         too. Times in µs.",
    );
    table
}

/// So many are named.
const TAKERS: usize = 4;

pub fn takers(factorial: &Factorial) -> Table {
    let caption = format!("Who ran instead of a vCPU that samples, in a second{}", on(factorial));
    let mut table = Table::new(caption, ["Isolated", "Times", "Who"]).words(2..);
    rows(factorial, &mut table, |cell| {
        let preempted = |noise: &NoiseSample| noise.preemptions.values().sum();
        vec![rate(cell, preempted), who(cell)]
    });
    table
}

fn who(cell: &Cell) -> String {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for noise in cell.samples().iter().filter_map(|sample| sample.noise.as_ref()) {
        for (by, times) in &noise.preemptions {
            *all.entry(by).or_default() += times;
        }
    }
    let sum: u64 = all.values().sum();
    let mut all: Vec<(&str, u64)> = all.into_iter().collect();
    all.sort_by_key(|(by, times)| (std::cmp::Reverse(*times), *by));
    let named = all.iter().take(TAKERS);
    let named: Vec<String> =
        named.map(|(by, times)| format!("{by} {}", share(*times as f64 / sum as f64))).collect();
    match named.is_empty() {
        true => "nobody".into(),
        false => named.join(", "),
    }
}

/// For the figure: of the first boot of each way to isolate, steal and the rest in time.
pub fn first<'a>(
    factorial: &Factorial<'a>,
    isolation: Isolation,
    mode: Mode,
) -> Option<&'a NoiseSample> {
    let cell = factorial.cell(isolation, mode)?;
    cell.samples().iter().find_map(|sample| sample.noise.as_ref())
}
