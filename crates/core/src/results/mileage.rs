// SPDX-License-Identifier: GPL-2.0-only
//! An idle guest in rows of a table: by mode, with and without a sampler, and by clock device.

use super::{Cell, Results, Sample};
use crate::{
    cause::Cause,
    clock_device::ClockDevice,
    interrupts::SUM,
    mode::Mode,
    pcpu::Pcpu,
    stats::{self, Comparison, Observation, Summary},
    units::Hz,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// What is measured of an idle guest; all but the residency and the last are for a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// As vmstat(8) in the guest.
    Interrupts,
    /// Timers that expired, without the tick's own.
    Events,
    /// For how long a CPU is idle each time, in us.
    Residency,
    Exits,
    PcpuWakeUps,
    /// Of host and guest, in millions.
    Instructions,
    ExitsPerEvent,
    /// Of them, those that arm or stop a timer, and those of devices and of IPIs.
    ArmExits,
    IoExits,
    IpiExits,
    SamplerExpiries,
    SamplerWakeUps,
    SamplerExits,
}

impl Measure {
    pub const MAIN: [Measure; 7] = {
        use Measure::*;
        [Interrupts, Events, Residency, Exits, PcpuWakeUps, Instructions, ExitsPerEvent]
    };
    pub const ALL: [Measure; 13] = {
        use Measure::*;
        [
            Interrupts,
            Events,
            Residency,
            Exits,
            PcpuWakeUps,
            Instructions,
            ExitsPerEvent,
            ArmExits,
            IoExits,
            IpiExits,
            SamplerExpiries,
            SamplerWakeUps,
            SamplerExits,
        ]
    };

    pub fn name(self) -> &'static str {
        match self {
            Measure::Interrupts => "Interrupts",
            Measure::Events => "Timer events",
            Measure::Residency => "Idle for, us",
            Measure::Exits => "VM exits",
            Measure::PcpuWakeUps => "pCPU wake-ups",
            Measure::Instructions => "M instructions",
            Measure::ExitsPerEvent => "Exits per event",
            Measure::ArmExits => "Arm",
            Measure::IoExits => "I/O",
            Measure::IpiExits => "IPI",
            Measure::SamplerExpiries => "Sampler expires",
            Measure::SamplerWakeUps => "It wakes a CPU",
            Measure::SamplerExits => "Exits for it",
        }
    }

    /// None where it was not measured.
    pub fn of(self, sample: &Sample) -> Option<f64> {
        let seconds = sample.duration_ns.filter(|ns| *ns > 0)? as f64 / 1e9;
        let woken = sample.woken.as_ref().filter(|woken| woken.window_ns > 0);
        let recorded = |count: u64| Some(count as f64 / (woken?.window_ns as f64 / 1e9));
        let sampled = woken.and_then(|woken| woken.sampled.as_ref());
        let by_cause = |causes: &[Cause]| {
            let exits = sample.exits.as_ref()?;
            let exits = causes.iter().map(|cause| exits.cause(*cause));
            Some(exits.sum::<u64>() as f64 / seconds)
        };
        match self {
            Measure::Interrupts => Some(*sample.guest_interrupts.get(SUM)? as f64 / seconds),
            Measure::Events => recorded(woken?.timer_events),
            Measure::Residency => match woken? {
                woken if woken.idle_entries == 0 => None,
                woken => Some(woken.idle_ns as f64 / woken.idle_entries as f64 / 1e3),
            },
            Measure::Exits => Some(sample.exits.as_ref()?.total as f64 / seconds),
            Measure::PcpuWakeUps if sample.pcpus.is_empty() => None,
            Measure::PcpuWakeUps => {
                let wake_ups = |pcpu: &Pcpu| pcpu.wake_ups;
                Some(sample.pcpus.iter().map(wake_ups).sum::<u64>() as f64 / seconds)
            }
            Measure::Instructions => {
                let all = sample.host_instructions? + sample.guest_instructions?;
                Some(all as f64 / 1e6 / seconds)
            }
            Measure::ExitsPerEvent => {
                let events = Measure::Events.of(sample).filter(|events| *events > 0.0)?;
                Some(Measure::Exits.of(sample)? / events)
            }
            Measure::ArmExits => by_cause(&[Cause::Arm, Cause::Stop]),
            Measure::IoExits => by_cause(&[Cause::Io]),
            Measure::IpiExits => by_cause(&[Cause::Ipi]),
            Measure::SamplerExpiries => recorded(sampled?.expiries),
            Measure::SamplerWakeUps => recorded(sampled?.wakeups),
            Measure::SamplerExits => recorded(sampled?.exits),
        }
    }
}

/// Which guest a row is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Rung {
    pub vcpus: u32,
    pub clock_device: ClockDevice,
    /// None: there is no sampler; else whether it is deferrable.
    pub deferrable_sampler: Option<bool>,
    pub mode: Mode,
}

#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    pub rung: Rung,
    pub results: &'a Results,
    /// Nothing ran.
    pub idle: &'a Cell,
    /// All vCPUs were busy; none where that was not measured.
    pub busy: Option<&'a Cell>,
}

/// All rows of guests with one tick rate.
#[derive(Clone, Debug)]
pub struct Mileage<'a> {
    pub hz: Option<Hz>,
    pub rows: Vec<Row<'a>>,
}

impl Row<'_> {
    pub fn observations(&self, measure: Measure) -> Vec<Observation> {
        observations(self.idle, measure)
    }

    pub fn summary(&self, measure: Measure) -> Option<Summary> {
        stats::summarize(&self.observations(measure))
    }

    pub fn summaries(&self) -> BTreeMap<Measure, Option<Summary>> {
        Measure::ALL.map(|measure| (measure, self.summary(measure))).into()
    }

    /// How often the sampler expires while all vCPUs are busy.  A window in which one idled is left
    /// out: the work began after it.
    pub fn busy_expiries(&self) -> Option<Summary> {
        let samples = self.busy?.samples().iter().filter(|sample| {
            sample.woken.as_ref().is_some_and(|woken| woken.idle_ns * 100 < woken.window_ns)
        });
        let observe = |sample: &Sample| {
            let value = Measure::SamplerExpiries.of(sample)?;
            Some(Observation { round: sample.round, value })
        };
        stats::summarize(&samples.filter_map(observe).collect::<Vec<_>>())
    }

    /// Of all recordings, the guest's lateness of its sampler, in ns, in order.
    pub fn sampler_late(&self) -> Vec<u64> {
        let sampled = self.idle.samples().iter().filter_map(|sample| sample.woken.as_ref());
        let sampled = sampled.filter_map(|woken| woken.sampled.as_ref());
        let mut late: Vec<u64> = sampled.flat_map(|one| one.late_ns.iter().copied()).collect();
        late.sort_unstable();
        late
    }
}

fn observations(cell: &Cell, measure: Measure) -> Vec<Observation> {
    let observe =
        |sample: &Sample| Some(Observation { round: sample.round, value: measure.of(sample)? });
    cell.samples().iter().filter_map(observe).collect()
}

impl<'a> Mileage<'a> {
    /// One for each tick rate.
    pub fn all(results: impl IntoIterator<Item = &'a Results>) -> Vec<Mileage<'a>> {
        let mut all: Vec<Mileage> = Vec::new();
        for result in results {
            let hz = result.environment.configuration.hz;
            let place = all.iter().position(|one| one.hz == hz).unwrap_or_else(|| {
                all.push(Mileage { hz, rows: Vec::new() });
                all.len() - 1
            });
            all[place].rows.extend(rows(result));
        }
        all.sort_by_key(|one| one.hz.map(|hz| hz.0));
        all
    }

    pub fn row(&self, rung: Rung) -> Option<&Row<'a>> {
        self.rows.iter().find(|row| row.rung == rung)
    }

    /// What a step from one row to the next changes.
    pub fn step(&self, from: Rung, to: Rung, measure: Measure) -> Option<Comparison> {
        let (from, to) = (self.row(from)?, self.row(to)?);
        let [before, after] = [from, to].map(|row| row.observations(measure));
        match std::ptr::eq(from.results, to.results) {
            true => stats::compare(&after, &before),
            false => stats::compare_unpaired(&after, &before),
        }
    }
}

fn rows(results: &Results) -> impl Iterator<Item = Row<'_>> {
    let plan = &results.plan;
    plan.subjects.iter().filter_map(move |subject| {
        let busy = results.cells.iter().find(|cell| {
            cell.subject == *subject && cell.workload != IDLE && !cell.samples().is_empty()
        });
        let rung = Rung {
            vcpus: plan.vcpus,
            clock_device: plan.clock_device,
            deferrable_sampler: plan.sampler.map(|sampler| sampler.deferrable),
            mode: subject.mode,
        };
        Some(Row { rung, results, idle: results.cell(IDLE, *subject)?, busy })
    })
}

/// The workload that is none.
const IDLE: &str = "idle";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        exits::Counts,
        results::{Plan, PlannedWorkload, Sampler},
        wakeups::{Sampled, Woken},
    };

    fn woken(events: u64, sampler: Option<u64>) -> Woken {
        Woken {
            window_ns: 2_000_000_000,
            timer_events: events,
            idle_entries: 10,
            idle_ns: 4_000_000,
            recorded_exits: 5,
            unexplained: 0,
            offenders: Vec::new(),
            sampled: sampler.map(|wakeups| Sampled {
                expiries: 40,
                wakeups,
                exits: 2 * wakeups,
                late_ns: vec![5, 1],
            }),
        }
    }

    fn file(sampler: Option<Sampler>, interrupts: u64, woken: Woken) -> Results {
        let mode: Mode = "tickless".parse().unwrap();
        let planned = PlannedWorkload::new(IDLE, 2000, "ms");
        let plan = Plan { sampler, ..Plan::new(2, [mode], [planned.clone()], 4, 1) };
        let mut results = Results::new("idle-tables", plan);
        for round in 1..=4 {
            let sample = Sample {
                round,
                repeat: 1,
                duration_ns: Some(1_000_000_000),
                exits: Some(Counts { total: 30, ..Counts::default() }),
                guest_interrupts: [(SUM.to_string(), interrupts)].into(),
                woken: Some(woken.clone()),
                ..Sample::default()
            };
            results.add(&planned, mode, sample);
        }
        results
    }

    #[test]
    fn measures_are_for_a_second_of_their_own_window() {
        let file = file(None, 100, woken(30, None));
        let sample = &file.cells[0].samples()[0];
        let of = |measure: Measure| measure.of(sample);
        assert_eq!((of(Measure::Interrupts), of(Measure::Events)), (Some(100.0), Some(15.0)));
        assert_eq!((of(Measure::Residency), of(Measure::ExitsPerEvent)), (Some(400.0), Some(2.0)));
        // Not measured is not 0.
        assert_eq!((of(Measure::PcpuWakeUps), of(Measure::SamplerWakeUps)), (None, None));
    }

    #[test]
    fn a_window_in_which_a_vcpu_idled_says_nothing_of_busy_ones() {
        let busy = Woken { idle_ns: 1_000_000, ..woken(60, Some(0)) };
        let idled = Woken { idle_ns: 900_000_000, ..busy.clone() };
        let of = |woken: Woken| {
            let file = file(None, 100, woken);
            let (cell, results) = (&file.cells[0], &file);
            let rung = Rung {
                vcpus: 2,
                clock_device: ClockDevice::TscDeadline,
                deferrable_sampler: Some(true),
                mode: cell.subject.mode,
            };
            let row = Row { rung, results, idle: cell, busy: Some(cell) };
            row.busy_expiries().map(|expiries| expiries.median)
        };
        assert_eq!((of(busy), of(idled)), (Some(20.0), None));
    }

    #[test]
    fn a_step_is_between_two_files_of_one_tick_rate() {
        let sampler = |deferrable| Some(Sampler { period_us: 46_083, deferrable });
        let files = [
            file(sampler(false), 118, woken(60, Some(40))),
            file(sampler(true), 59, woken(20, Some(0))),
        ];
        let all = Mileage::all(&files);
        let [from, to] = [false, true].map(|deferrable| Rung {
            vcpus: 2,
            clock_device: ClockDevice::TscDeadline,
            deferrable_sampler: Some(deferrable),
            mode: "tickless".parse().unwrap(),
        });
        let step = all[0].step(from, to, Measure::Interrupts).unwrap();
        assert_eq!(step.ratio, 0.5);
        let row = all[0].row(to).unwrap();
        assert_eq!(row.summary(Measure::SamplerWakeUps).unwrap().median, 0.0);
        assert_eq!(row.sampler_late()[..2], [1, 1]);
        assert_eq!(all[0].row(Rung { deferrable_sampler: None, ..to }).map(|row| row.rung), None);
    }
}
