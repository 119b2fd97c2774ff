// SPDX-License-Identifier: GPL-2.0-only
//! What the benches measure: one set is guests of one size, and what runs in them.

use super::{polling, programs::is_listed, workloads};
use crate::{
    exit_cost,
    mode::{Mode, Polling, TickMode},
    model::table1,
    network::Network,
    results::{Plan, PlannedWorkload},
    size::Size,
    wire::Disk,
    workload,
};
use std::{ops::RangeInclusive, time::Duration};

/// One measurement, and what it needs besides kernels and tools.
#[derive(Clone, Debug, Default)]
pub struct Set {
    /// Which bench it belongs to, as results name it.
    pub bench: &'static str,
    /// Its results file's name, where a bench has several.
    pub name: String,
    pub plan: Plan,
    /// Of each guest.
    pub memory: Size,
    /// Behind each guest's disk, in the host's memory: no real disk's time is in the numbers.
    pub disk: Option<Size>,
    /// Virtual time in ns that the emulator charges for each world switch.
    pub exit_cost_ns: u32,
    /// Measured to see what another cost changes: nobody replaces it.
    pub keeps_cost: bool,
    /// None: nobody has measured it.
    pub takes: Option<CpuTime>,
    /// CPUs that run at once share virtual time between them.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Small enough that all of the paper's evaluation ends within half an hour on 2 cores.
    Quick,
    Full,
}

pub fn modes(ticks: &[TickMode]) -> Vec<Mode> {
    ticks.iter().map(|tick| tick.plain()).collect()
}

/// The paper's baseline, today's kernel, virtual ticks alone, and what the series are today.
pub fn papers_modes() -> Vec<Mode> {
    use TickMode::*;
    modes(&[TicklessStop, Tickless, ParatickTicks, Paratick])
}

/// vCPUs that a guest can have: its host has one CPU more, and at most 128.
pub const VCPUS: RangeInclusive<u32> = 1..=127;
/// How long Table 1's guests idle, in ms, one at a time (the paper's 10 s) and several: in one
/// second an idle vCPU has three timers or so, and what was armed before it, or expires after,
/// weighs too much.
const TABLE1_IDLE: [u64; 2] = [10_000, 4000];
/// How many synchronizations Table 1's guests do, one a millisecond, one guest at a time and
/// several; the paper's did 10 000.  Exits are in proportion to it.  In full, one guest's take as
/// long as the period of the lockup detector, whose timer, where it is due soon, keeps those of the
/// deadline server from programming the device (docs/model.md): so every phase of it counts once.
/// Several guests have 64 vCPUs, which would take minutes to emulate for so long.
const TABLE1_SYNCS: [u64; 2] = [table1::LAB_SYNCS, 500];
const TABLE1_SYNCS_QUICK: [u64; 2] = [1000, 250];
/// How narrow the intervals of the exits' ratios shall be where nobody says otherwise.
const PRECISION: f64 = 0.03;
/// Programs, their libraries and their input are in it.
const PROGRAMS_MEMORY: Size = Size::mib(1536);
/// docs/exit-cost.md derives it.
const EXIT_COST_NS: u32 = exit_cost::DEFAULT.0 as u32;
pub const DISK: Size = Size::mib(64);

/// The project's own small workloads.
pub fn quick(vcpus: u32, workloads: Vec<PlannedWorkload>) -> Set {
    let mut every = modes(&TickMode::ON_TIME);
    every.push(Mode { tick: TickMode::Paratick, poll: Polling::Off });
    every.push(Mode { tick: TickMode::Tickless, poll: Polling::Stock });
    let reads = workloads.iter().any(|one| one.workload == "block");
    let runs = workloads.len() as f64;
    let plan = Plan::new(vcpus, every, workloads, 4, 2);
    Set {
        disk: reads.then_some(DISK),
        takes: (vcpus <= 4).then(|| CpuTime::of(6.0, 0.7 * runs)),
        // Who was first within microseconds decides what a poll sees.
        parallel_clock: true,
        ..Set::new("quick", "quick", plan, Size::mib(512))
    }
}

/// Halt polling, of the host and of guests: the article of 2021 measured again.  The host's rules
/// are measured with `tickless` guests, the guests' on a host that never polls.
pub fn polling(vcpus: u32, guests: u32, workloads: Vec<PlannedWorkload>, scale: Scale) -> Set {
    let (rounds, repeats) = match scale {
        Scale::Quick => (4, 1),
        Scale::Full => (6, 2),
    };
    let reads = workloads.iter().any(|one| one.workload == "block");
    let subjects = polling::subjects();
    let runs = workloads.len() as f64;
    let plan =
        Plan { guests, halts: true, ..Plan::new(vcpus, subjects, workloads, rounds, repeats) };
    Set {
        disk: reads.then_some(DISK),
        takes: (vcpus <= 4 && guests == 1).then(|| CpuTime::of(12.0, 1.1 * runs)),
        parallel_clock: true,
        ..Set::new("polling", "polling", plan, Size::mib(512))
    }
}

/// How many idle guests `bench idle` has side by side, and quickly.
pub const IDLE_GUESTS: [u32; 6] = [1, 2, 5, 10, 20, 50];
pub const IDLE_GUESTS_QUICK: [u32; 4] = [1, 2, 5, 10];
/// One marker opens the windows of so many (bpf/exits.h).
pub const IDLE_GUESTS_MOST: u32 = 64;
/// For how long they idle, in ms, and quickly.
const IDLE_WINDOW: [u64; 2] = [10_000, 4000];
/// A kernel and the agent; the root file system is the host's.
const IDLE_MEMORY: Size = Size::mib(96);

/// What else wakes them: a workload that runs in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers(&'static str);

impl Timers {
    pub const ALL: [&'static str; 4] = ["phases", "grouped", "slack", "accuracy"];
}

impl std::str::FromStr for Timers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Timers::ALL.into_iter().find(|known| *known == text);
        known
            .map(Timers)
            .ok_or_else(|| format!("no such timers\nhint: they are {}", Timers::ALL.join(", ")))
    }
}

/// Guests of one vCPU that do nothing but what `timers` says, all on one pCPU: the sentence of
/// fifty guests in "Getting maximum mileage out of tickless" (OLS 2007, section 1), a set for each
/// number of guests.  `lateness`: how late their timers are is recorded, too.
pub fn idle(guests: &[u32], timers: Option<Timers>, lateness: bool, scale: Scale) -> Vec<Set> {
    let window = match scale {
        Scale::Quick => IDLE_WINDOW[1],
        Scale::Full => IDLE_WINDOW[0],
    };
    let load = timers.map_or("idle", |timers| timers.0);
    let known = workload::find(load).expect("a test holds both together");
    let suffix = timers.map_or(String::new(), |timers| format!("-{}", timers.0));
    let ticks = modes(&[TickMode::Periodic, TickMode::Tickless, TickMode::Paratick]);
    let set = |&guests: &u32| {
        let planned = PlannedWorkload::of(known, window);
        let plan = Plan::new(1, ticks.clone(), [planned], 1, 1);
        let plan = Plan { guests, one_window: true, records_lateness: lateness, ..plan };
        let each = f64::from(guests);
        Set {
            takes: Some(CpuTime::of(6.0 + 4.5 * each, 0.8 * each)),
            ..Set::new("idle", format!("idle-{guests}{suffix}"), plan, IDLE_MEMORY)
        }
    };
    guests.iter().map(set).collect()
}

/// Table 1 (section 3.3): W1 and W3 in one guest, W2 and W4 in four on the same pCPUs.
pub fn table1(vcpus: u32, scale: Scale) -> Vec<Set> {
    let (rounds, repeats) = match scale {
        Scale::Quick => (1, 1),
        Scale::Full => (3, 2),
    };
    [(1, ["W1", "W3"]), (4, ["W2", "W4"])]
        .map(|(guests, names)| {
            let mut every = modes(&[TickMode::Periodic]);
            every.extend(papers_modes());
            let several = usize::from(guests > 1);
            let syncs = match scale {
                Scale::Quick => TABLE1_SYNCS_QUICK,
                Scale::Full => TABLE1_SYNCS,
            };
            let planned =
                [of_table1(names[0], TABLE1_IDLE[several]), of_table1(names[1], syncs[several])];
            let plan = Plan { guests, ..Plan::new(vcpus, every, planned, rounds, repeats) };
            Set {
                takes: Some(match (guests, scale) {
                    (1, Scale::Quick) => CpuTime::of(15.0, 30.0),
                    (1, Scale::Full) => CpuTime::of(15.0, 47.0),
                    (_, Scale::Quick) => CpuTime::of(80.0, 37.0),
                    (_, Scale::Full) => CpuTime::of(80.0, 60.0),
                }),
                parallel_clock: true,
                ..Set::new("table1", format!("table1-{guests}"), plan, Size::mib(256))
            }
        })
        .to_vec()
}

/// How many vCPUs a multithreaded guest has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestSize(pub u32);

/// The paper's sizes (section 6.2): how many vCPUs, what they are called, and the CPU time of a
/// guest and of one run of a program in it.
const SIZES: [(u32, &str, CpuTime); 3] = [
    (4, "small", CpuTime::of(20.0, 4.9)),
    (16, "medium", CpuTime::of(35.0, 5.5)),
    (64, "large", CpuTime::of(115.0, 15.0)),
];

impl GuestSize {
    pub const SMALL: GuestSize = GuestSize(SIZES[0].0);
    pub const PAPERS: [GuestSize; 3] = [Self::SMALL, GuestSize(SIZES[1].0), GuestSize(SIZES[2].0)];

    /// None for a size that is not the paper's.
    fn known(self) -> Option<(&'static str, CpuTime)> {
        let size = SIZES.iter().find(|(vcpus, ..)| *vcpus == self.0)?;
        Some((size.1, size.2))
    }
}

impl std::fmt::Display for GuestSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.known() {
            Some((name, _)) => f.write_str(name),
            None => self.0.fmt(f),
        }
    }
}

impl std::str::FromStr for GuestSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = SIZES.iter().find(|(_, name, _)| *name == text).map(|(vcpus, ..)| *vcpus);
        let number = || text.parse().ok().filter(|vcpus| VCPUS.contains(vcpus));
        named.or_else(number).map(GuestSize).ok_or_else(|| {
            let (least, most) = (VCPUS.start(), VCPUS.end());
            format!(
                "no such size\nhint: give small, medium or large, or a number of vCPUs \
                    from {least} to {most}"
            )
        })
    }
}

impl Set {
    /// Each guest's.
    pub fn guest_disk(&self) -> Option<Disk> {
        let size = self.disk?;
        Some(match self.plan.disk_latency_ns {
            None => Disk::Memory(size),
            Some(ns) => Disk::Delayed { size, ns },
        })
    }
}

impl CpuTime {
    pub const fn of(guest: f64, runs: f64) -> CpuTime {
        CpuTime { guest, runs }
    }
}

impl Set {
    /// Without a disk and a cost of world switches.
    pub fn new(bench: &'static str, name: impl Into<String>, plan: Plan, memory: Size) -> Set {
        Set { bench, name: name.into(), plan, memory, ..Set::default() }
    }

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
        ..programs_on(1, "sequential", "sequential", programs, scale)
    }
}

/// Real programs with a thread for each vCPU (section 6.2).
pub fn multithreaded(size: GuestSize, programs: Vec<PlannedWorkload>, scale: Scale) -> Set {
    let name = format!("multithreaded-{size}");
    let programs_known = listed(&programs);
    let set = programs_on(size.0, "multithreaded", &name, programs, scale);
    Set {
        takes: size.known().map(|(_, one)| CpuTime::of(one.guest, one.runs * programs_known)),
        // CPUs that are busy at once would otherwise take each other's time.
        parallel_clock: true,
        ..set
    }
}

/// fio on a guest's disk, one vCPU (section 6.3).
pub fn io(jobs: Vec<PlannedWorkload>, disk: Size, scale: Scale) -> Set {
    Set {
        takes: Some(CpuTime::of(15.0, 3.0 * jobs.len() as f64)),
        disk: Some(disk),
        ..programs_on(1, "io", "io", jobs, scale)
    }
}

/// Memory of each of them.
const NETWORK_MEMORY: Size = Size::mib(512);

/// Two guests of one vCPU that talk to each other, on a host with as many CPUs again for what moves
/// their packets.
pub fn network(tests: Vec<PlannedWorkload>, network: Network, scale: Scale) -> Set {
    let set = programs_on(1, "network", "network", tests, scale);
    let (guests, network) = (2, Some(network));
    let host_cpus = Some(1 + 2 * guests);
    let plan =
        Plan { guests, network, host_cpus, one_window: true, idle_entries: false, ..set.plan };
    Set {
        takes: Some(CpuTime::of(22.0, 7.0 * plan.workloads.len() as f64)),
        memory: NETWORK_MEMORY,
        // Both are busy, and so is what is between them.
        parallel_clock: true,
        plan,
        ..set
    }
}

/// The same with world switches that cost nothing, and twice as much; quickly, only nothing, and
/// only in paratick, with and without halt-until, and in the paper's baseline.
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
    name: &str,
    programs: Vec<PlannedWorkload>,
    scale: Scale,
) -> Set {
    // Boots tell more than runs in one boot, and fewer than four tell nothing (`stats`).
    let (rounds, most) = match scale {
        Scale::Quick => (4, None),
        Scale::Full => (4, Some(8)),
    };
    let plan = Plan {
        rounds_at_most: most,
        precision: most.map(|_| PRECISION),
        // One vCPU hardly goes idle, or always with nothing left to do.
        idle_entries: vcpus > 1 || scale == Scale::Full,
        ..Plan::new(vcpus, papers_modes(), programs, rounds, 1)
    };
    Set { exit_cost_ns: EXIT_COST_NS, ..Set::new(bench, name, plan, PROGRAMS_MEMORY) }
}

/// How many of them somebody has measured.
fn listed(programs: &[PlannedWorkload]) -> f64 {
    programs.iter().filter(|one| is_listed(one)).count() as f64
}

fn of_table1(name: &str, work: u64) -> PlannedWorkload {
    let known = workload::find(workloads::agents_name(name)).expect("a test holds both together");
    PlannedWorkload::new(name, work, known.unit)
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
    fn idle_guests_may_have_timers_of_the_agent_s() {
        for name in Timers::ALL {
            let [set] = &idle(&[3], Some(name.parse().unwrap()), false, Scale::Quick)[..] else {
                panic!("one number of guests")
            };
            assert_eq!(set.name, format!("idle-3-{name}"));
            assert_eq!(set.plan.workloads[0].workload, name);
        }
        assert!("group".parse::<Timers>().unwrap_err().contains("hint: they are phases, "));
    }

    #[test]
    fn the_agent_knows_the_workloads_of_table_1() {
        for set in table1(table1::VCPUS, Scale::Quick) {
            for planned in &set.plan.workloads {
                assert!(workload::find(workloads::agents_name(&planned.workload)).is_some());
            }
        }
    }
}
