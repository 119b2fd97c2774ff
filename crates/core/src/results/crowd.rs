// SPDX-License-Identifier: GPL-2.0-only
//! What idle guests cost their host in a second, and what each one more adds.

use super::{Cell, Results, Sample};
use crate::{
    mode::Mode,
    pcpu::Pcpu,
    stats::{self, Comparison, Line, Observation},
    units::Hz,
};
use serde::Serialize;

/// What is counted in a window of all guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cost {
    /// Of all pCPUs.
    Interrupts,
    /// Timers of vCPUs that expired; several may in one interrupt.
    VcpuTimers,
    Exits,
    /// How often a pCPU left idle.
    WakeUps,
    HostInstructions,
    GuestInstructions,
}

impl Cost {
    pub const ALL: [Cost; 6] = {
        use Cost::*;
        [Interrupts, VcpuTimers, Exits, WakeUps, HostInstructions, GuestInstructions]
    };

    pub fn name(self) -> &'static str {
        match self {
            Cost::Interrupts => "Host interrupts",
            Cost::VcpuTimers => "vCPU timers",
            Cost::Exits => "VM exits",
            Cost::WakeUps => "pCPU wake-ups",
            Cost::HostInstructions => "M host instructions",
            Cost::GuestInstructions => "M guest instructions",
        }
    }

    /// In a second of the window; instructions in millions.  None where it was not counted.
    pub fn per_second(self, sample: &Sample) -> Option<f64> {
        let seconds = sample.duration_ns.filter(|ns| *ns > 0)? as f64 / 1e9;
        let millions = |count: Option<u64>| Some(count? as f64 / 1e6);
        let count = match self {
            Cost::Interrupts => of_all(sample, Pcpu::all_interrupts),
            Cost::VcpuTimers => of_all(sample, |pcpu| pcpu.vcpu_timers),
            Cost::Exits => Some(sample.exits.as_ref()?.total as f64),
            Cost::WakeUps => of_all(sample, |pcpu| pcpu.wake_ups),
            Cost::HostInstructions => millions(sample.host_instructions),
            Cost::GuestInstructions => millions(sample.guest_instructions),
        };
        Some(count? / seconds)
    }

    pub fn observations(self, cell: &Cell) -> Vec<Observation> {
        let observe = |sample: &Sample| {
            Some(Observation { round: sample.round, value: self.per_second(sample)? })
        };
        cell.samples().iter().filter_map(observe).collect()
    }
}

fn of_all(sample: &Sample, count: impl Fn(&Pcpu) -> u64) -> Option<f64> {
    let sum: u64 = sample.pcpus.iter().map(count).sum();
    (!sample.pcpus.is_empty()).then_some(sum as f64)
}

/// The load that is none.
const IDLE: &str = "idle";

/// Measurements at one tick rate with several numbers of guests, the fewest first.
#[derive(Clone, Debug)]
pub struct Crowd<'a> {
    pub hz: Option<Hz>,
    /// What ran in each guest: `idle`, or some timers.
    pub load: &'a str,
    pub by_guests: Vec<&'a Results>,
}

/// What one more guest adds to a cost, in a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slope {
    pub hz: Option<Hz>,
    pub load: String,
    pub mode: Mode,
    pub cost: Cost,
    /// `null`: too few points.
    pub per_guest: Option<Line>,
}

impl<'a> Crowd<'a> {
    /// A crowd for each tick rate and load.
    pub fn all(results: impl IntoIterator<Item = &'a Results>) -> Vec<Crowd<'a>> {
        let mut crowds: Vec<Crowd> = Vec::new();
        for result in results {
            let hz = result.environment.configuration.hz;
            let load = result.plan.workloads.first().map_or("", |load| &load.workload);
            match crowds.iter_mut().find(|crowd| (crowd.hz, crowd.load) == (hz, load)) {
                Some(crowd) => crowd.by_guests.push(result),
                None => crowds.push(Crowd { hz, load, by_guests: vec![result] }),
            }
        }
        crowds.sort_by_key(|crowd| (crowd.hz.map(|hz| hz.0), crowd.load != IDLE));
        for crowd in &mut crowds {
            crowd.by_guests.sort_by_key(|result| result.plan.guests);
        }
        crowds
    }

    /// The name of the timers that wake its guests, if there are any.
    pub fn timers(&self) -> Option<&'a str> {
        (self.load != IDLE).then_some(self.load)
    }

    /// In the order of the files.
    pub fn modes(&self) -> Vec<Mode> {
        let mut modes = Vec::new();
        for cell in self.by_guests.iter().flat_map(|result| &result.cells) {
            if !modes.contains(&cell.subject.mode) {
                modes.push(cell.subject.mode);
            }
        }
        modes
    }

    /// By the number of guests.
    pub fn cells(&self, mode: Mode) -> Vec<(u32, &'a Cell)> {
        let of = |result: &&'a Results| {
            let cell = result.cells.iter().find(|cell| cell.subject.mode == mode)?;
            Some((result.plan.guests, cell))
        };
        self.by_guests.iter().filter_map(of).collect()
    }

    pub fn slope(&self, mode: Mode, cost: Cost) -> Slope {
        let points = self.cells(mode).into_iter().flat_map(|(guests, cell)| {
            let at = move |seen: Observation| (f64::from(guests), seen.value);
            cost.observations(cell).into_iter().map(at)
        });
        let per_guest = stats::line(&points.collect::<Vec<_>>());
        Slope { hz: self.hz, load: self.load.into(), mode, cost, per_guest }
    }

    pub fn slopes(&self) -> Vec<Slope> {
        let modes = self.modes().into_iter();
        modes.flat_map(|mode| Cost::ALL.map(|cost| self.slope(mode, cost))).collect()
    }

    /// Wake-ups of each guest where there are most, against those where there are fewest: 1 where
    /// they grow linearly.  Of the pCPU that the guests run on alone: the host's own wakes others.
    pub fn wake_ups_of_most(&self, mode: Mode) -> Option<((u32, u32), Comparison)> {
        let cells = self.cells(mode);
        let ((few, fewest), (many, most)) = (*cells.first()?, *cells.last()?);
        if few == many {
            return None;
        }
        let compared =
            stats::compare_unpaired(&wake_ups_of_each(most, many), &wake_ups_of_each(fewest, few))?;
        Some(((few, many), compared))
    }
}

/// Wake-ups in a second of the vCPUs' pCPU, divided by the guests.
pub fn wake_ups_of_each(cell: &Cell, guests: u32) -> Vec<Observation> {
    let observe = |sample: &Sample| {
        let seconds = sample.duration_ns.filter(|ns| *ns > 0)? as f64 / 1e9;
        // pCPU 0 is the host's own.
        let wake_ups: u64 = sample.pcpus.get(1..)?.iter().map(|pcpu| pcpu.wake_ups).sum();
        let value = wake_ups as f64 / seconds / f64::from(guests);
        Some(Observation { round: sample.round, value })
    };
    cell.samples().iter().filter_map(observe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        exits::Counts,
        pcpu::Interrupt,
        results::{Plan, PlannedWorkload},
    };

    /// A host whose own pCPU has 3 interrupts and 2 wake-ups a second, and where each guest adds
    /// `each` interrupts and exits; guests wake their pCPU together.
    fn with(guests: u32, each: u64) -> Results {
        let mode: Mode = "tickless".parse().unwrap();
        let planned = PlannedWorkload::new("idle", 2000, "ms");
        let plan = Plan { guests, ..Plan::new(1, [mode], [planned.clone()], 1, 1) };
        let mut results = Results::new("idle", plan);
        let pcpu = |wake_ups, timer| Pcpu {
            wake_ups,
            vcpu_timers: timer,
            interrupts: [(Interrupt::LocalTimer, timer)].into(),
        };
        let all = 2 * u64::from(guests) * each;
        let sample = Sample {
            round: 1,
            repeat: 1,
            duration_ns: Some(2_000_000_000),
            exits: Some(Counts { total: all, ..Counts::default() }),
            pcpus: vec![pcpu(4, 6), pcpu(2 * each, all)],
            ..Sample::default()
        };
        results.add(&planned, mode, sample);
        results
    }

    #[test]
    fn each_guest_adds_what_it_adds_and_the_host_s_own_is_left_out() {
        let files = [with(5, 250), with(1, 250), with(2, 250)];
        let crowd = &Crowd::all(&files)[0];
        let mode = crowd.modes()[0];
        let slope = |cost| crowd.slope(mode, cost).per_guest;
        let interrupts = slope(Cost::Interrupts).unwrap();
        assert!((interrupts.slope - 250.0).abs() < 1e-9 && (interrupts.intercept - 3.0) < 1e-9);
        assert!((slope(Cost::Exits).unwrap().slope - 250.0).abs() < 1e-9);
        assert!(slope(Cost::WakeUps).unwrap().slope.abs() < 1e-9);
        assert_eq!(slope(Cost::HostInstructions), None);
        let (guests, compared) = crowd.wake_ups_of_most(mode).unwrap();
        assert_eq!((guests, compared.ratio), ((1, 5), 0.2));
    }

    #[test]
    fn guests_with_timers_are_a_crowd_of_their_own() {
        let mut grouped = with(2, 20);
        grouped.plan.workloads[0].workload = "grouped".into();
        let files = [grouped, with(5, 250), with(1, 250)];
        let crowds = Crowd::all(&files);
        let told: Vec<_> = crowds.iter().map(|one| (one.timers(), one.by_guests.len())).collect();
        assert_eq!(told, [(None, 2), (Some("grouped"), 1)]);
    }

    #[test]
    fn of_one_number_of_guests_nothing_is_said_to_grow() {
        let files = [with(5, 250)];
        let crowd = &Crowd::all(&files)[0];
        let mode = crowd.modes()[0];
        assert_eq!(crowd.slope(mode, Cost::Exits).per_guest, None);
        assert_eq!(crowd.wake_ups_of_most(mode), None);
    }
}
