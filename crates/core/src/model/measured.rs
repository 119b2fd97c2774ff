// SPDX-License-Identifier: GPL-2.0-only
//! The load that a measured sample had, and what a model says of it.

use super::{predict, Estimate, Exits, Load, Range, TickModel, Vm, Wakes};
use crate::{
    cause::Cause,
    exits::Counts,
    mode::Mode,
    results::{Cell, Configuration, Results, Sample},
    stats,
    units::{Hz, Nanos},
};
use std::collections::BTreeMap;

/// What a sample says about its guests' load.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// As they were in the sample's own mode; idle periods are counted without the halts that only
    /// the tick ended.
    pub vm: Vm,
    pub time: Nanos,
    pub exits: BTreeMap<Cause, u64>,
}

/// What all samples of a cell say; those that say too little are left out.
pub fn observe_cell(results: &Results, cell: &Cell) -> Vec<Observed> {
    let samples = cell.samples().iter();
    samples.filter_map(|sample| observe(results, cell, sample)).collect()
}

/// The load of a sample of `cell`: how busy from the guests' idle time, idle periods from the
/// halts, what ended them from the other causes.  None where one of these was not measured.
///
/// Where the host's tick rate is not known, it is taken to be the guests'.
pub fn observe(results: &Results, cell: &Cell, sample: &Sample) -> Option<Observed> {
    let configuration = &results.environment.configuration;
    let (hz, exits) = (configuration.hz?, &sample.exits.as_ref()?.by_cause);
    let time = Nanos(sample.duration_ns.filter(|time| *time > 0)?);
    let guests = results.plan.guests.max(1);
    let vcpu_seconds = time.seconds() * f64::from(guests) * f64::from(cell.vcpus);
    let idle = Nanos(sample.idle_ns?).seconds().min(vcpu_seconds);
    let wakes = wakes(exits, cell.subject.mode, hz, idle);
    let busy = 1.0 - idle / vcpu_seconds;
    let in_guest = in_guest(configuration, sample).map_or(busy, |time| time / vcpu_seconds);
    let vm = Vm {
        count: guests,
        vcpus: cell.vcpus,
        hz,
        host_hz: configuration.host_hz.unwrap_or(hz),
        in_turns: in_turns(configuration, guests * cell.vcpus),
        load: Load {
            busy,
            in_guest,
            ticked: ticked(sample, hz, time),
            wakes: wakes.scaled(1.0 / vcpu_seconds),
        },
    };
    Some(Observed { vm, time, exits: exits.clone() })
}

/// Seconds in guest mode, all vCPUs together: instructions, where each is so many nanoseconds.
fn in_guest(configuration: &Configuration, sample: &Sample) -> Option<f64> {
    let each = u64::from(configuration.ns_per_instruction?);
    Some(Nanos(sample.guest_instructions? * each).seconds())
}

/// Share of the vCPUs on which one tick in 25 or more falls.
fn ticked(sample: &Sample, hz: Hz, time: Nanos) -> f64 {
    let often = time.seconds() * f64::from(hz.0) / 25.0;
    let vcpus = sample.per_vcpu.iter();
    let ticked = vcpus.filter(|vcpu: &&Counts| vcpu.cause(Cause::HostTick) as f64 >= often);
    ticked.count() as f64 / sample.per_vcpu.len().max(1) as f64
}

/// Of `vcpus`, how many the host handles one after the other: all in the lab, unless each of its
/// CPUs has its own clock.
fn in_turns(configuration: &Configuration, vcpus: u32) -> u32 {
    match (configuration.ns_per_instruction, configuration.parallel_clock) {
        (Some(_), false) => vcpus,
        _ => 1,
    }
}

/// Idle periods by what ended them.  Each IPI and each I/O request is taken to have ended one;
/// a timer ended the others: the application's where idle periods are shorter than a tick,
/// which is the finest that the kernel's own timers are.
fn wakes(exits: &BTreeMap<Cause, u64>, mode: Mode, hz: Hz, idle: f64) -> Wakes {
    let count = |cause| exits.get(&cause).copied().unwrap_or(0) as f64;
    let (halts, ipis, io) = (count(Cause::Halt), count(Cause::Ipi), count(Cause::Io));
    let ticks = idle * f64::from(hz.0);
    let periods = match TickModel::of(mode) {
        // Every tick of an idle vCPU ended a halt.
        TickModel::Periodic => (halts - ticks).max(0.0),
        // The first tick of each idle period did: of long ones of each, of short ones of some.
        // Whatever an IPI or a request ended was one.
        TickModel::Tickless => (halts - ticks).max(halts / 2.0).max((ipis + io).min(halts)),
        _ => halts,
    };
    let ipi = ipis.min(periods);
    let device = io.min(periods - ipi);
    let timer = periods - ipi - device;
    let short = ticks < periods;
    Wakes {
        ipi,
        device,
        sleep: if short { timer } else { 0.0 },
        kernel: if short { 0.0 } else { timer },
    }
}

/// What a model predicts for a cell: the medians over the samples' own predictions.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    pub timer: Range,
    pub by_cause: BTreeMap<Cause, f64>,
}

/// What `model` predicts for the load that was observed.  None without observations.
pub fn predict_all(model: TickModel, observed: &[Observed]) -> Option<Predicted> {
    let exits = |estimate| -> Vec<Exits> {
        let each = observed.iter();
        each.map(|one| predict(model, &[one.vm], one.time, estimate)).collect()
    };
    let timer = |estimate| {
        let timer: Vec<f64> = exits(estimate).iter().map(Exits::timer).collect();
        stats::median(&timer)
    };
    let likely = exits(Estimate::Likely);
    let by_cause = Cause::ALL.into_iter().filter_map(|cause| {
        let counts: Vec<f64> = likely.iter().filter_map(|exits| exits.get(cause)).collect();
        Some((cause, stats::median(&counts)?))
    });
    Some(Predicted { timer: Range::of(timer)?, by_cause: by_cause.collect() })
}

pub fn measured_timer_exits(observed: &[Observed]) -> Option<f64> {
    let timer = observed.iter().map(|one| {
        let timer = one.exits.iter().filter(|(cause, _)| cause.is_timer());
        timer.map(|(_, count)| *count as f64).sum()
    });
    stats::median(&timer.collect::<Vec<f64>>())
}
