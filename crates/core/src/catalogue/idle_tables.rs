// SPDX-License-Identifier: GPL-2.0-only
//! The tables of "Getting maximum mileage out of tickless" (OLS 2007): an idle guest of two vCPUs,
//! or of one, a set for each clock device and for each setting of the sampler; and a busy one, a
//! set for each policy of balancing load for idle CPUs.

use super::{
    mileage::SAMPLER_PERIOD_US,
    sets::{modes, CpuTime, Scale, Set},
};
use crate::{
    balancing::Balancing,
    clock_device::{ClockDevice, CLOCK_DEVICES},
    mode::TickMode::{self, *},
    results::{Plan, PlannedWorkload, Sampler},
    size::Size,
    workload,
};
use std::str::FromStr;

pub const BENCH: &str = "idle-tables";
const VCPUS: u32 = 2;
const MEMORY: Size = Size::mib(256);
/// For how long it idles, in ms, and quickly.
const WINDOW: [u64; 2] = [10_000, 4000];
const ROUNDS: [u32; 2] = [4, 1];
/// In each thread, in millions of loops: a second.
const BUSY: u64 = 250;

/// The server of Table 5, by its garbage collector, and how often that runs; and quickly.
const SERVERS: [(&str, [u64; 2]); 2] = [("warehouse", [10, 3]), ("nursery", [40, 12])];
const SERVER_MEMORY: Size = Size::mib(256);

/// The guest of Table 5.
#[derive(Clone, Debug)]
pub struct Server {
    pub vcpus: u32,
    /// What runs in it; none: the two that stand for the paper's.
    pub programs: Vec<PlannedWorkload>,
}

impl Server {
    pub const VCPUS: u32 = 4;
    /// The names of the two.
    pub const NAMES: [&str; 2] = [SERVERS[0].0, SERVERS[1].0];
}

impl Default for Server {
    fn default() -> Server {
        Server { vcpus: Server::VCPUS, programs: Vec::new() }
    }
}

/// The steps of 2007: each guest's clock device, and whether its sampler is deferrable.
pub const TOGETHER: [(ClockDevice, bool); 5] = [
    (ClockDevice::Pit, false),
    (ClockDevice::Pit, true),
    (ClockDevice::Hpet, true),
    (ClockDevice::HpetPerCpu, true),
    (ClockDevice::TscDeadline, true),
];

/// What one can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Table 1, and the topmost of the clock devices.
    Modes,
    /// Table 2.
    Sampler,
    /// Tables 3 and 4.  One CPU can have a shared device for itself, as a one-shot timer; of
    /// several CPUs it is the broadcast's.
    Clocks,
    /// Tables 2 to 4, one step after the other, on one CPU (section 4.2).
    Together,
    /// Table 5.
    Balance,
}

impl Part {
    pub const ALL: [Part; 5] =
        [Part::Modes, Part::Sampler, Part::Clocks, Part::Together, Part::Balance];

    pub fn name(self) -> &'static str {
        match self {
            Part::Modes => "modes",
            Part::Sampler => "sampler",
            Part::Clocks => "clocks",
            Part::Together => "together",
            Part::Balance => "balance",
        }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Part::ALL.into_iter().find(|part| part.name() == text).ok_or_else(|| {
            let names = Part::ALL.map(Part::name).join(", ");
            format!("no such part\nhint: the parts are {names}")
        })
    }
}

pub fn idle_tables(parts: &[Part], server: &Server, scale: Scale) -> Vec<Set> {
    Part::ALL
        .into_iter()
        .filter(|part| parts.contains(part))
        .flat_map(|part| of(part, server, scale))
        .collect()
}

fn of(part: Part, server: &Server, scale: Scale) -> Vec<Set> {
    match part {
        Part::Modes => vec![set("modes", &TickMode::ON_TIME, scale)],
        Part::Sampler => [(false, "sampler"), (true, "sampler-deferrable")]
            .map(|(deferrable, name)| {
                let mut set = set(name, &[TicklessStop, Tickless, Paratick], scale);
                set.plan.sampler = Some(sampler(deferrable));
                set.plan.workloads.push(planned("cpu", BUSY));
                set
            })
            .into(),
        Part::Clocks => {
            let devices = CLOCK_DEVICES.iter().map(|row| row.device);
            let each = devices.flat_map(|device| [1, VCPUS].map(|vcpus| (device, vcpus)));
            // Today's is among the modes.
            let others = each.filter(|(device, vcpus)| !(device.is_default() && *vcpus == VCPUS));
            others.map(|(device, vcpus)| clock(device, vcpus, scale)).collect()
        }
        Part::Together => TOGETHER
            .map(|(device, deferrable)| {
                let kind = if deferrable { "deferrable" } else { "sampler" };
                let mut set = set(format!("together-{device}-{kind}"), &[TicklessStop], scale);
                set.plan.clock_device = device;
                set.plan.vcpus = 1;
                set.plan.sampler = Some(sampler(deferrable));
                set
            })
            .into(),
        Part::Balance => {
            let policies = Balancing::ALL.map(Some);
            let each = [None].into_iter().chain(policies);
            each.map(|policy| balance(policy, server, scale)).collect()
        }
    }
}

fn sampler(deferrable: bool) -> Sampler {
    Sampler { period_us: SAMPLER_PERIOD_US, deferrable }
}

fn clock(device: ClockDevice, vcpus: u32, scale: Scale) -> Set {
    let mut set = set(format!("{device}-{vcpus}"), &[TicklessStop, Tickless], scale);
    set.plan.clock_device = device;
    set.plan.vcpus = vcpus;
    set
}

/// Without a policy, the guest whose tick never stops.
fn balance(balancing: Option<Balancing>, server: &Server, scale: Scale) -> Set {
    let (name, tick) = match balancing {
        None => ("ticks", Periodic),
        Some(Balancing::Tick) => (Balancing::Tick.name(), Paratick),
        Some(policy) => (policy.name(), TicklessStop),
    };
    let quick = usize::from(scale == Scale::Quick);
    let works = match &server.programs[..] {
        [] => SERVERS.map(|(name, work)| planned(name, work[quick])).into(),
        own => own.to_vec(),
    };
    let plan = Plan {
        balances: true,
        balancing,
        ..Plan::new(server.vcpus, modes(&[tick]), works, ROUNDS[quick], 1)
    };
    Set { parallel_clock: true, ..Set::new(BENCH, format!("balance-{name}"), plan, SERVER_MEMORY) }
}

fn set(name: impl Into<String>, ticks: &[TickMode], scale: Scale) -> Set {
    let quick = usize::from(scale == Scale::Quick);
    let idle = planned("idle", WINDOW[quick]);
    let plan = Plan {
        one_window: true,
        records_wakeups: true,
        ..Plan::new(VCPUS, modes(ticks), [idle], ROUNDS[quick], 1)
    };
    Set {
        takes: Some(CpuTime::of(15.0, 6.0)),
        // What one CPU does must not make the other one's timers late.
        parallel_clock: true,
        ..Set::new(BENCH, name, plan, MEMORY)
    }
}

fn planned(name: &str, work: u64) -> PlannedWorkload {
    let known = workload::find(name).expect("a test holds both together");
    PlannedWorkload::of(known, work)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Program;
    use std::collections::BTreeSet;

    #[test]
    fn each_file_has_a_name_of_its_own_and_is_about_another_guest() {
        for scale in [Scale::Quick, Scale::Full] {
            let sets = idle_tables(&Part::ALL, &Server::default(), scale);
            let names: BTreeSet<&str> = sets.iter().map(|set| set.name.as_str()).collect();
            assert_eq!(names.len(), sets.len());
            let mut guests: Vec<_> = sets
                .iter()
                .map(|set| {
                    let plan = &set.plan;
                    (plan.vcpus, plan.clock_device, plan.sampler, plan.balancing)
                })
                .collect();
            guests.dedup();
            assert_eq!(guests.len(), sets.len());
        }
        let quick = |part| idle_tables(&[part], &Server::default(), Scale::Quick);
        assert_eq!(quick(Part::Sampler).len(), 2);
        assert_eq!(quick(Part::Balance).len(), 7);
    }

    #[test]
    fn a_server_of_ones_own_runs_under_each_policy() {
        let own = PlannedWorkload::run_of("jvm", Program::default());
        let server = Server { vcpus: 8, programs: vec![own.clone()] };
        for set in idle_tables(&Part::ALL, &server, Scale::Quick) {
            let (vcpus, works) = (set.plan.vcpus, &set.plan.workloads);
            assert_eq!(set.plan.balances, *works == [own.clone()], "{}", set.name);
            assert_eq!(set.plan.balances, vcpus == 8, "{}", set.name);
        }
    }

    #[test]
    fn a_part_is_read_as_it_is_written() {
        for part in Part::ALL {
            assert_eq!(part.name().parse(), Ok(part));
        }
        assert!("table1".parse::<Part>().unwrap_err().contains("hint: "));
    }
}
