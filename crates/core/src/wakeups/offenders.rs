// SPDX-License-Identifier: GPL-2.0-only
//! Sums of rounds: who wakes a guest most, and how much it is woken in all.

use super::{
    recording::{Class, GuestWakeups, What},
    rounds::{Round, Source},
};
use crate::cause::Cause;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// All rounds of one source; timers of processes with the same name are one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Offender {
    #[serde(flatten)]
    pub source: Source,
    /// How many processes they are of.
    pub processes: usize,
    /// Wake-ups of a CPU, with those that it passed on to another one.
    pub wakeups: u64,
    /// How often it expired, also where something else had woken the CPU.
    pub expiries: u64,
    /// Exits in its rounds; none where no host was asked.
    pub exits: BTreeMap<Cause, u64>,
    /// … and those in rounds that were for it alone.
    pub exits_alone: u64,
    /// Wake-ups for which the pCPU had to wake up, too.
    pub pcpu_wakeups: u64,
}

impl Offender {
    pub fn all_exits(&self) -> u64 {
        self.exits.values().sum()
    }
}

/// By exits, then by wake-ups, the most first.
pub fn offenders(rounds: &[Round]) -> Vec<Offender> {
    let mut offenders: BTreeMap<Source, (Offender, BTreeSet<u32>)> = BTreeMap::new();
    let mut of = |source: &Source, change: &dyn Fn(&mut Offender)| {
        let (source, pid) = without_pid(source);
        let fresh = || (Offender::of(source.clone()), BTreeSet::new());
        let (offender, pids) = offenders.entry(source.clone()).or_insert_with(fresh);
        pids.extend(pid);
        change(offender);
    };
    for round in rounds {
        let alone = round.timers.iter().all(|timer| {
            let its = matches!(&round.source, Source::Timer { timer: its } if its == timer);
            its || timer.class == Class::Deferrable
        });
        of(&round.source, &|offender| {
            let woken = u64::from(round.source != Source::Awake);
            offender.wakeups += woken;
            offender.pcpu_wakeups += woken * u64::from(round.slept);
            for (cause, count) in &round.exits {
                *offender.exits.entry(*cause).or_default() += count;
                offender.exits_alone += if alone { *count } else { 0 };
            }
        });
        for timer in &round.timers {
            of(&Source::Timer { timer: timer.clone() }, &|offender| offender.expiries += 1);
        }
    }
    let mut offenders: Vec<Offender> =
        offenders.into_values().map(|(offender, pids)| offender.with(&pids)).collect();
    offenders.retain(|one| one.all_exits() + one.wakeups + one.expiries > 0);
    offenders.sort_by_key(|one| std::cmp::Reverse((one.all_exits(), one.wakeups, one.expiries)));
    offenders
}

fn without_pid(source: &Source) -> (Source, Option<u32>) {
    let mut source = source.clone();
    let pid = match &mut source {
        Source::Timer { timer } => timer.process.as_mut().and_then(|process| process.pid.take()),
        _ => None,
    };
    (source, pid)
}

impl Offender {
    fn of(source: Source) -> Offender {
        Offender {
            source,
            processes: 0,
            wakeups: 0,
            expiries: 0,
            exits: BTreeMap::new(),
            exits_alone: 0,
            pcpu_wakeups: 0,
        }
    }

    /// Where it is one process, that has a number.
    fn with(mut self, pids: &BTreeSet<u32>) -> Offender {
        self.processes = pids.len();
        if let (Source::Timer { timer }, [pid]) = (&mut self.source, &Vec::from_iter(pids)[..]) {
            timer.process.iter_mut().for_each(|process| process.pid = Some(**pid));
        }
        self
    }
}

/// The metrics of "Getting maximum mileage out of tickless", and those of a VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub window_ns: u64,
    pub cpus: u32,
    /// By kind; devices' together.
    pub interrupts: BTreeMap<String, u64>,
    /// Timers that expired, without the tick's own.
    pub timer_events: u64,
    /// How often a CPU became idle, and for how long in all.
    pub idle_entries: u64,
    pub idle_ns: u64,
    /// None where no host was asked.
    pub exits: BTreeMap<Cause, u64>,
    pub pcpu_wakeups: u64,
    /// Exits in rounds of which nobody knows why.
    pub unexplained: u64,
}

impl Summary {
    /// For how long a CPU stays idle on average; none that became idle, none.
    pub fn residency_ns(&self) -> Option<u64> {
        self.idle_ns.checked_div(self.idle_entries)
    }

    pub fn all_exits(&self) -> u64 {
        self.exits.values().sum()
    }

    pub fn all_interrupts(&self) -> u64 {
        self.interrupts.values().sum()
    }
}

pub fn summary(guest: &GuestWakeups, rounds: &[Round]) -> Summary {
    let mut interrupts = BTreeMap::new();
    let (mut idle_entries, mut idle_ns) = (0, 0);
    let window = guest.begin_ns..guest.end_ns;
    for cpu in guest.numbers() {
        let its = guest.events.iter().filter(|event| event.cpu == cpu);
        let mut idle_since = None;
        for event in its.filter(|event| window.contains(&event.at_ns)) {
            if let Some(since) = idle_since.take() {
                idle_ns += event.at_ns.saturating_sub(since);
            }
            let irq = match &event.what {
                What::Idle => {
                    idle_entries += 1;
                    idle_since = Some(event.at_ns);
                    continue;
                }
                What::Irq { irq } => irq.to_string(),
                What::Device { .. } => "devices".into(),
                _ => continue,
            };
            *interrupts.entry(irq).or_default() += 1;
        }
        idle_ns += idle_since.map_or(0, |since| window.end - since);
    }
    let mut exits = BTreeMap::new();
    for (cause, count) in rounds.iter().flat_map(|round| &round.exits) {
        *exits.entry(*cause).or_default() += count;
    }
    let unknown = rounds.iter().filter(|round| round.source == Source::Nothing);
    Summary {
        window_ns: window.end - window.start,
        cpus: guest.numbers().len() as u32,
        interrupts,
        timer_events: rounds.iter().map(|round| round.timers.len() as u64).sum(),
        idle_entries,
        idle_ns,
        exits,
        pcpu_wakeups: rounds.iter().filter(|round| round.slept).count() as u64,
        unexplained: unknown.flat_map(|round| round.exits.values()).sum(),
    }
}
