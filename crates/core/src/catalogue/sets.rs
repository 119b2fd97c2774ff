// SPDX-License-Identifier: GPL-2.0-only
//! What the benches measure: one set is guests of one size, and what runs in them.

use super::{
    programs::is_listed,
    workloads::{self, Quick},
};
use crate::{
    exit_cost,
    mode::{Mode, TickMode},
    model::table1,
    results::{Plan, PlannedWorkload},
    size::Size,
    workload,
};
use std::{ops::RangeInclusive, time::Duration};

/// One measurement, and what it needs besides kernels and tools.
#[derive(Clone, Debug)]
pub struct Set {
    /// Which bench it belongs to, as results name it.
    pub bench: &'static str,
    /// Its results file's name, where a bench has several.
    pub name: String,
    pub plan: Plan,
    /// Of each guest.
    pub memory: Size,
    /// Behind each guest's /dev/vda.
    pub disk: Option<Size>,
    pub exit_cost_ns: u32,
    /// Measured to see what another cost changes: nobody replaces it.
    pub keeps_cost: bool,
    /// None: nobody has measured it.
    pub takes: Option<CpuTime>,
    pub parallel_clock: bool,
}

/// CPU time in seconds that the lab takes: whole runs on one machine, divided up by estimate.
#[derive(Clone, Copy, Debug)]
pub struct CpuTime {
    /// To boot a guest (or a group of guests) and prepare what runs in it.
    pub guest: f64,
    /// For one run of each workload in it.
    pub runs: f64,
}

/// How much of a bench is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Small enough that all of the paper's evaluation ends within half an hour on 2 cores.
    Quick,
    Full,
}

pub fn modes(ticks: &[TickMode]) -> Vec<Mode> {
    let plain = |tick: &TickMode| Mode { tick: *tick, poll: false };
    ticks.iter().map(plain).collect()
}

/// The paper's baseline, today's kernel, and paratick.
pub fn papers_modes() -> Vec<Mode> {
    modes(&[TickMode::TicklessStop, TickMode::Tickless, TickMode::Paratick])
}

/// vCPUs that a guest can have: its host has one CPU more, and at most 128.
pub const VCPUS: RangeInclusive<u32> = 1..=127;
/// vCPUs of each of Table 1's guests, by the paper.
pub const TABLE1_VCPUS: u32 = 16;
/// How long Table 1's guests idle, in ms, one at a time (the paper's 10 s) and several: in one
/// second
/// an idle vCPU has three timers or so, and what was armed before it, or expires after, weighs too
/// much.
const TABLE1_IDLE: [u64; 2] = [10_000, 4000];
/// How many synchronizations Table 1's guests do, one a millisecond, one guest at a time and
/// several;
/// the paper's did 10 000.  Exits are in proportion to it.  In full, one guest's take as long as
/// the
/// period of the lockup detector, whose timer, where it is due soon, keeps those of the deadline
/// server from programming the device (docs/model.md): so every phase of it counts once.  Several
/// guests have 64 vCPUs, which would take minutes to emulate for so long.
const TABLE1_SYNCS: [u64; 2] = [table1::LAB_SYNCS, 500];
const TABLE1_SYNCS_QUICK: [u64; 2] = [1000, 250];
/// How narrow the intervals of the exits' ratios shall be where nobody says otherwise.
const PRECISION: f64 = 0.03;
/// Programs, their libraries and their input are in it.
const PROGRAMS_MEMORY: Size = Size::mib(1536);
/// docs/exit-cost.md derives it.
const EXIT_COST_NS: u32 = exit_cost::DEFAULT.0 as u32;
/// Behind the guests' /dev/vda, in the host's memory: no real disk's time is in the numbers.
pub const DISK: Size = Size::mib(64);

/// The project's own small workloads.
pub fn quick(vcpus: u32, workloads: &[Quick]) -> Set {
    let polling = |tick| Mode { tick, poll: true };
    let mut every = modes(&[
        TickMode::Periodic,
        TickMode::Tickless,
        TickMode::TicklessStop,
        TickMode::Paratick,
    ]);
    every.extend([polling(TickMode::Tickless), polling(TickMode::Paratick)]);
    let reads = workloads.iter().any(|workload| workload.name == "block");
    Set {
        bench: "quick",
        name: "quick".into(),
        plan: Plan::new(vcpus, every, workloads.iter().copied(), 4, 2),
        memory: Size::mib(512),
        disk: reads.then_some(DISK),
        exit_cost_ns: 0,
        keeps_cost: false,
        takes: (vcpus <= 4).then(|| CpuTime::of(12.0, workloads.len() as f64)),
        parallel_clock: false,
    }
}

/// Table 1 (section 3.3): W1 and W3 in one guest, W2 and W4 in four on the same pCPUs.
pub fn table1(vcpus: u32, scale: Scale) -> Vec<Set> {
    let (rounds, repeats) = match scale {
        Scale::Quick => (1, 1),
        Scale::Full => (3, 2),
    };
    [(1, ["W1", "W3"]), (4, ["W2", "W4"])]
        .map(|(guests, names)| {
            let every = modes(&[
                TickMode::Periodic,
                TickMode::TicklessStop,
                TickMode::Tickless,
                TickMode::Paratick,
            ]);
            let several = usize::from(guests > 1);
            let syncs = match scale {
                Scale::Quick => TABLE1_SYNCS_QUICK,
                Scale::Full => TABLE1_SYNCS,
            };
            let planned =
                [of_table1(names[0], TABLE1_IDLE[several]), of_table1(names[1], syncs[several])];
            Set {
                bench: "table1",
                name: format!("table1-{guests}"),
                plan: Plan { guests, ..Plan::new(vcpus, every, planned, rounds, repeats) },
                memory: Size::mib(256),
                disk: None,
                exit_cost_ns: 0,
                keeps_cost: false,
                takes: Some(match (guests, scale) {
                    (1, Scale::Quick) => CpuTime::of(15.0, 30.0),
                    (1, Scale::Full) => CpuTime::of(15.0, 47.0),
                    (_, Scale::Quick) => CpuTime::of(80.0, 37.0),
                    (_, Scale::Full) => CpuTime::of(80.0, 60.0),
                }),
                parallel_clock: true,
            }
        })
        .to_vec()
}

/// How many vCPUs a multithreaded guest has.  Three sizes are the paper's (section 6.2) and have
/// names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestSize(pub u32);

impl GuestSize {
    pub const SMALL: GuestSize = GuestSize(4);
    const MEDIUM: GuestSize = GuestSize(16);
    const LARGE: GuestSize = GuestSize(64);
    pub const PAPERS: [GuestSize; 3] = [Self::SMALL, Self::MEDIUM, Self::LARGE];
    const NAMES: [&'static str; 3] = ["small", "medium", "large"];

    pub fn vcpus(self) -> u32 {
        self.0
    }

    /// None for a size that is not the paper's.
    pub fn name(self) -> Option<&'static str> {
        let place = Self::PAPERS.iter().position(|size| *size == self)?;
        Some(Self::NAMES[place])
    }

    /// To boot a guest, and for one run of a program in it; none: nobody has measured it.
    fn takes(self) -> Option<(f64, f64)> {
        match self {
            Self::SMALL => Some((20.0, 4.9)),
            Self::MEDIUM => Some((35.0, 5.5)),
            Self::LARGE => Some((115.0, 15.0)),
            _ => None,
        }
    }
}

impl std::fmt::Display for GuestSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => self.0.fmt(f),
        }
    }
}

impl std::str::FromStr for GuestSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::PAPERS.into_iter();
        let mut named = named.filter(|size| size.name() == Some(text));
        let number = || text.parse().ok().filter(|vcpus| VCPUS.contains(vcpus));
        named.next().or_else(|| number().map(GuestSize)).ok_or_else(|| {
            let (least, most) = (VCPUS.start(), VCPUS.end());
            format!(
                "no such size\nhint: give small, medium or large, or a number of vCPUs \
                    from {least} to {most}"
            )
        })
    }
}

impl CpuTime {
    pub fn of(guest: f64, runs: f64) -> CpuTime {
        CpuTime { guest, runs }
    }
}

impl Set {
    /// What in it takes a time that is not known: all of it, or programs of the user's own.
    pub fn unmeasured(&self) -> Vec<&str> {
        let own = self.plan.workloads.iter().filter(|one| !is_listed(one));
        match self.takes {
            None => vec![&self.name],
            Some(_) => own.map(|one| one.workload.as_str()).collect(),
        }
    }

    /// How long it takes on so many CPUs, without rounds that are added and programs of the user's
    /// own; none: nobody knows.
    pub fn estimate(&self, cpus: u32) -> Option<Duration> {
        let plan = &self.plan;
        let guests = plan.subjects.len() as f64 * f64::from(plan.rounds);
        let CpuTime { guest, runs } = self.takes?;
        let each = guest + runs * f64::from(plan.repeats);
        Some(Duration::from_secs_f64(each * guests / f64::from(cpus.max(1))))
    }
}

/// Real programs on one vCPU (section 6.1).
pub fn sequential(programs: Vec<PlannedWorkload>, scale: Scale) -> Set {
    Set {
        takes: Some(CpuTime::of(13.0, 2.75 * listed(&programs))),
        ..programs_on(1, "sequential", "sequential".into(), programs, scale)
    }
}

/// Real programs with a thread for each vCPU (section 6.2).
pub fn multithreaded(size: GuestSize, programs: Vec<PlannedWorkload>, scale: Scale) -> Set {
    let name = format!("multithreaded-{size}");
    let runs = listed(&programs);
    let takes = size.takes();
    let set = programs_on(size.vcpus(), "multithreaded", name, programs, scale);
    Set {
        takes: takes.map(|(guest, each)| CpuTime::of(guest, each * runs)),
        // CPUs that are busy at once would otherwise take each other's time.
        parallel_clock: true,
        ..set
    }
}

/// fio on a virtio disk, one vCPU (section 6.3).
pub fn io(jobs: Vec<PlannedWorkload>, disk: Size, scale: Scale) -> Set {
    Set {
        takes: Some(CpuTime::of(15.0, 3.0 * jobs.len() as f64)),
        disk: Some(disk),
        ..programs_on(1, "io", "io".into(), jobs, scale)
    }
}

/// The same with world switches that cost nothing, and twice as much; quickly, only nothing, and
/// only
/// in paratick and the paper's baseline.
pub fn at_other_costs(set: &Set, scale: Scale) -> Vec<Set> {
    let mut every = set.plan.subjects.clone();
    let mut costs = vec![0, 2 * set.exit_cost_ns];
    if scale == Scale::Quick {
        every.retain(|subject| subject.mode.tick != TickMode::Tickless);
        costs.truncate(1);
    }
    let at = |cost| Set {
        name: format!("{}-cost-{cost}", set.name),
        exit_cost_ns: cost,
        keeps_cost: true,
        plan: Plan {
            subjects: every.clone(),
            // They do not depend on it.
            idle_entries: false,
            ..set.plan.clone()
        },
        ..set.clone()
    };
    costs.into_iter().map(at).collect()
}

fn programs_on(
    vcpus: u32,
    bench: &'static str,
    name: String,
    programs: Vec<PlannedWorkload>,
    scale: Scale,
) -> Set {
    // Boots tell more than runs in one boot, and fewer than four tell nothing (`stats`).
    let (rounds, most) = match scale {
        Scale::Quick => (4, None),
        Scale::Full => (4, Some(8)),
    };
    Set {
        bench,
        name,
        plan: Plan {
            rounds_at_most: most,
            precision: most.map(|_| PRECISION),
            // One vCPU hardly goes idle, or always with nothing left to do.
            idle_entries: vcpus > 1 || scale == Scale::Full,
            ..Plan::new(vcpus, papers_modes(), programs, rounds, 1)
        },
        memory: PROGRAMS_MEMORY,
        disk: None,
        exit_cost_ns: EXIT_COST_NS,
        keeps_cost: false,
        takes: None,
        parallel_clock: false,
    }
}

/// How many of them somebody has measured.
fn listed(programs: &[PlannedWorkload]) -> f64 {
    programs.iter().filter(|one| is_listed(one)).count() as f64
}

fn of_table1(name: &str, work: u64) -> PlannedWorkload {
    let known = workload::find(workloads::agents_name(name));
    PlannedWorkload {
        workload: name.into(),
        work,
        unit: known.expect("a test holds both tables together").unit.into(),
        program: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_name_or_a_number_of_vcpus() {
        let size = |text: &str| text.parse::<GuestSize>();
        assert_eq!(size("small"), Ok(GuestSize(4)));
        assert_eq!(size("64"), size("large"));
        for (text, written) in [("4", "small"), ("medium", "medium"), ("8", "8"), ("127", "127")] {
            assert_eq!(size(text).unwrap().to_string(), written);
        }
        for wrong in ["", "0", "128", "huge", "-1", "4.0"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nobody_knows_how_long_a_size_takes_that_is_not_the_papers() {
        let named = |text: &str| multithreaded(text.parse().unwrap(), vec![], Scale::Full);
        assert_eq!(
            (named("4").name, named("8").name),
            ("multithreaded-small".into(), "multithreaded-8".into())
        );
        assert!(named("4").estimate(1).is_some());
        assert!(named("8").estimate(1).is_none());
    }

    #[test]
    fn the_agent_knows_the_workloads_of_table_1() {
        for set in table1(TABLE1_VCPUS, Scale::Quick) {
            for planned in &set.plan.workloads {
                assert!(workload::find(workloads::agents_name(&planned.workload)).is_some());
            }
        }
    }
}
