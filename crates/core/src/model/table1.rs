// SPDX-License-Identifier: GPL-2.0-only
//! Table 1 of the paper: as printed, by its formulas, and how both can be true.
//!
//! Section 3.3 says that all its values follow from the formulas of 3.1 and 3.2, with 16 vCPUs, 250
//! Hz and 10 s.  They do not: 2 × 10 s × 16 × 250 Hz is 80 000, and 40 000 is printed.  And for
//! tickless the formula needs a load L and an idle period T_idle, which the paper does not give.
//! [`readings`] looks for all that would have to be so for 60 000 to hold for W3.

use super::{predict, Estimate, Load, TickModel, Vm, WokenBy};
use crate::units::{Hz, Nanos};
use serde::Serialize;

/// What section 3.3 states.
pub const VCPUS: u32 = 16;
pub const PCPUS: u32 = 16;
pub const HZ: Hz = Hz(250);
pub const TIME: Nanos = Nanos(10 * Nanos::SECOND.0);
/// Synchronizations per second; "executed in a single VM" does not say whether of each thread.
pub const SYNCS: f64 = 1000.0;
/// Synchronizations of W3 in a full run of the lab; fewer are a quick one.
pub const LAB_SYNCS: u64 = 4000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    pub vms: u32,
    /// It synchronizes; else the VMs are idle.
    pub busy: bool,
    /// As printed (table 1).
    pub periodic: u32,
    pub tickless: u32,
}

pub const SCENARIOS: [Scenario; 4] = [
    scenario("W1", "an idle VM with 16 vCPUs", 1, false, [40_000, 0]),
    scenario("W2", "four idle VMs with 16 vCPUs each", 4, false, [160_000, 0]),
    scenario(
        "W3",
        "16 threads that block and wake 1000 times a second, in a VM with 16 vCPUs",
        1,
        true,
        [40_000, 60_000],
    ),
    scenario("W4", "four copies of W3, each in a VM with 16 vCPUs", 4, true, [160_000, 240_000]),
];

const fn scenario(
    name: &'static str,
    about: &'static str,
    vms: u32,
    busy: bool,
    [periodic, tickless]: [u32; 2],
) -> Scenario {
    Scenario { name, about, vms, busy, periodic, tickless }
}

impl Scenario {
    /// The scenario's guests, whose vCPUs all have this load.
    pub fn vm(&self, load: Load) -> Vm {
        Vm { count: self.vms, vcpus: VCPUS, hz: HZ, host_hz: HZ, in_turns: 1, load }
    }

    /// By the formula of 3.1, as it is written.
    pub fn formula_periodic(&self) -> f64 {
        let vm = self.vm(idle());
        predict(TickModel::FormulaPeriodic, &[vm], TIME, Estimate::Likely).managing()
    }

    /// By the formula of 3.2, as it is written, if each synchronization of the VM is one idle
    /// period: from a load of 0 to one of 1.
    pub fn formula_tickless(&self) -> (f64, f64) {
        let at = |busy| {
            let mut load = idle();
            if self.busy {
                load.busy = busy;
                load.wakes.ipi = SYNCS / f64::from(VCPUS);
            }
            let vm = self.vm(load);
            predict(TickModel::FormulaTickless, &[vm], TIME, Estimate::Likely).managing()
        };
        (at(0.0), at(1.0))
    }
}

fn idle() -> Load {
    Load::new(0.0, None, WokenBy::Ipi).expect("an idle vCPU needs no idle period")
}

/// How exits are counted, or what is not as section 3.3 states it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Counting {
    pub what: &'static str,
    pub per_tick: f64,
    pub per_idle_period: f64,
    pub vcpus: u32,
    pub hz: Hz,
    pub time: Nanos,
}

const AS_WRITTEN: Counting = Counting {
    what: "2 a tick, 2 an idle period: as written",
    per_tick: 2.0,
    per_idle_period: 2.0,
    vcpus: VCPUS,
    hz: HZ,
    time: TIME,
};

/// The formulas as written, and every single change that halves their periodic ticks.
pub const COUNTINGS: [Counting; 6] = [
    AS_WRITTEN,
    Counting { what: "1 a tick, 2 an idle period", per_tick: 1.0, ..AS_WRITTEN },
    Counting {
        what: "1 a tick, 1 an idle period",
        per_tick: 1.0,
        per_idle_period: 1.0,
        ..AS_WRITTEN
    },
    Counting { what: "as written, with 125 Hz", hz: Hz(125), ..AS_WRITTEN },
    Counting { what: "as written, with 8 vCPUs", vcpus: 8, ..AS_WRITTEN },
    Counting { what: "as written, in 5 s", time: Nanos(5 * Nanos::SECOND.0), ..AS_WRITTEN },
];

impl Counting {
    fn vcpu_seconds(&self) -> f64 {
        f64::from(self.vcpus) * self.time.seconds()
    }

    pub fn periodic(&self) -> f64 {
        self.per_tick * self.vcpu_seconds() * f64::from(self.hz.0)
    }

    /// The tickless row of one VM: `idle_periods` per second of the whole VM.
    pub fn tickless(&self, load: f64, idle_periods: f64) -> f64 {
        load * self.periodic() + self.per_idle_period * self.time.seconds() * idle_periods
    }

    /// The load at which the tickless row is `exits`; may be one that cannot be.
    fn load(&self, exits: f64, idle_periods: f64) -> f64 {
        (exits - self.tickless(0.0, idle_periods)) / self.periodic()
    }
}

/// What "1000 times per second" counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Syncs {
    /// Of all threads together.
    OfTheVm,
    OfEachThread,
}

/// How many threads one synchronization makes wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waits {
    /// Every second one finds what it waits for (an uncontended lock), the others block one thread.
    Half,
    One,
    /// Both of a pair of threads.
    Two,
    /// All but the one that comes last (a barrier of all threads).
    AllButOne,
}

impl Waits {
    pub const ALL: [Waits; 4] = [Waits::Half, Waits::One, Waits::Two, Waits::AllButOne];

    fn threads(self, of: u32) -> f64 {
        match self {
            Waits::Half => 0.5,
            Waits::One => 1.0,
            Waits::Two => 2.0,
            Waits::AllButOne => f64::from(of) - 1.0,
        }
    }
}

/// One way to read W3, and the load that its 60 000 then needs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reading {
    pub counting: Counting,
    pub syncs: Syncs,
    pub waits: Waits,
    /// Idle periods per second of the whole VM.
    pub idle_periods: f64,
    /// The load that gives the printed 60 000; none where no load from 0 to 1 does.
    pub load: Option<f64>,
    /// The mean idle period in seconds: 0 is the limit of vCPUs that are busy all the time but for
    /// periods too short to count.
    pub idle_period: Option<f64>,
    /// W3 computed anew from the load and the idle periods.
    pub tickless: Option<f64>,
    /// The periodic row of one VM; 40 000 is printed.
    pub periodic: f64,
    pub periodic_agrees: bool,
    /// Whether four such VMs' vCPUs could be so busy at once on W4's 16 pCPUs.
    pub fits_w4: Option<bool>,
}

/// Every way to read W3 that the text leaves open, whether it can be or not: how exits are counted,
/// what "1000 times per second" counts, and how many threads each synchronization makes wait.
pub fn readings() -> Vec<Reading> {
    let mut all = Vec::new();
    for counting in COUNTINGS {
        for syncs in [Syncs::OfTheVm, Syncs::OfEachThread] {
            for waits in Waits::ALL {
                all.push(reading(counting, syncs, waits));
            }
        }
    }
    all
}

fn reading(counting: Counting, syncs: Syncs, waits: Waits) -> Reading {
    let [w1, _, w3, w4] = SCENARIOS;
    let threads = match syncs {
        Syncs::OfTheVm => 1.0,
        Syncs::OfEachThread => f64::from(counting.vcpus),
    };
    let idle_periods = SYNCS * threads * waits.threads(counting.vcpus);
    let load = counting.load(f64::from(w3.tickless), idle_periods);
    let load = Some(load).filter(|load| (0.0..=1.0).contains(load));
    let idle_time = |load: f64| (1.0 - load) * f64::from(counting.vcpus);
    let busy = |load: f64| load * f64::from(counting.vcpus * w4.vms);
    Reading {
        counting,
        syncs,
        waits,
        idle_periods,
        load,
        idle_period: load.map(|load| idle_time(load) / idle_periods),
        tickless: load.map(|load| counting.tickless(load, idle_periods)),
        periodic: counting.periodic(),
        periodic_agrees: counting.periodic() == f64::from(w1.periodic),
        fits_w4: load.map(|load| busy(load) <= f64::from(PCPUS)),
    }
}

/// The reading in which all eight cells agree and that changes nothing that the paper states: ticks
/// are counted once, each of the VM's synchronizations makes one thread wait, and vCPUs are busy
/// but for a moment.
pub fn agreeing() -> Reading {
    let [_, once, ..] = COUNTINGS;
    reading(once, Syncs::OfTheVm, Waits::One)
}

/// How many idle periods per synchronization 60 000 exits can be, at the most: with a load of 0,
/// and with one of 1 (less than 0: with no idle period at all there are more exits).
pub fn most_waits(counting: Counting, syncs: f64) -> (f64, f64) {
    let each = counting.per_idle_period * counting.time.seconds() * syncs;
    let exits = f64::from(SCENARIOS[2].tickless);
    (exits / each, (exits - counting.periodic()) / each)
}
