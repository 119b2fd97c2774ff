// SPDX-License-Identifier: GPL-2.0-only
//! The time of each CPU, cut where it wakes up: what woke it, and what that cost.

use super::recording::{Event, GuestWakeups, Irq, Process, Timer, What};
use crate::{
    cause::Cause,
    noise::{absences, Class, HostNoise},
};
use serde::Serialize;
use std::{collections::BTreeMap, fmt};

/// Who was woken that long after a CPU had woken up was woken by what ran there, not by what had
/// woken that CPU.
const SHORT_NS: u64 = 10_000_000;

/// A CPU that is woken wakes up sooner than that.
const LATELY_NS: u64 = 100_000_000;

/// What wakes a CPU, or keeps it awake.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case", tag = "of")]
pub enum Source {
    Timer {
        #[serde(flatten)]
        timer: Timer,
    },
    /// The scheduler's own, with no timer of anybody's.
    Tick,
    /// `task` is who runs then.
    Device { name: String, task: Option<String> },
    /// Of an interrupt nothing more is known.
    Interrupt { irq: Irq },
    /// A task on another CPU, which had been awake for long.
    Task { name: String },
    /// It woke up for nothing that its kernel tells of.
    Nothing,
    /// It was awake when the recording began.
    Awake,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Source::Timer { timer } => f.write_str(&timer.function),
            Source::Tick => f.write_str("tick"),
            Source::Device { name, task: None } => write!(f, "interrupt of {name}"),
            Source::Device { name, task: Some(task) } => write!(f, "{name}, for {task}"),
            Source::Interrupt { irq } => write!(f, "interrupt: {irq}"),
            Source::Task { name } => write!(f, "woken by {name}"),
            Source::Nothing => f.write_str("unexplained"),
            Source::Awake => f.write_str("awake from the beginning"),
        }
    }
}

impl Source {
    pub fn process(&self) -> Option<&Process> {
        match self {
            Source::Timer { timer } => timer.process.as_ref(),
            _ => None,
        }
    }
}

/// From one wake-up of a CPU to the next: what woke it, ran, and halted again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Round {
    pub cpu: u32,
    /// The guest's CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// When it woke up: where no host was asked, the round begins as the CPU becomes idle.
    pub woke_ns: u64,
    pub end_ns: u64,
    pub source: Source,
    /// Another CPU than the source's, which it has woken in turn, or a tick that goes on for it.
    pub passed_on: bool,
    /// Of these, a tick that goes on.
    pub goes_on: bool,
    /// Of all timers that expired in it, the tick apart.
    pub timers: Vec<Timer>,
    /// Of its exits, the last is the halt.
    pub exits: BTreeMap<Cause, u64>,
    /// Its halt let the pCPU sleep.
    pub slept: bool,
}

/// Cuts a CPU's time at the ends of its halts where a host was asked, and else where it became
/// idle.  `process` is the guest's VMM.  In the order of time.
///
/// Each exit between `begin_ns` and `end_ns` is in one round.
pub fn rounds(guest: &GuestWakeups, host: Option<(&HostNoise, u32)>) -> Vec<Round> {
    let mut rounds: Vec<Round> = Vec::new();
    let mut firsts: Vec<(usize, Vec<&Event>)> = Vec::new();
    for cpu in guest.numbers() {
        let events: Vec<&Event> = guest.events.iter().filter(|event| event.cpu == cpu).collect();
        for (round, within) in of_cpu(guest, host, cpu, &events) {
            firsts.push((rounds.len(), within));
            rounds.push(round);
        }
    }
    // Whoever woke a CPU woke up before it.
    firsts.sort_by_key(|(index, _)| rounds[*index].begin_ns);
    for (index, events) in firsts {
        if rounds[index].source == Source::Awake {
            continue;
        }
        let direct = direct(&events);
        let is_tick = matches!(direct, Direct::Is(Source::Tick));
        let (source, passed_on) = match direct {
            Direct::Is(Source::Tick) => goes_on(&rounds, index),
            Direct::Is(source) => (source, false),
            Direct::From { task, irq } => {
                passed(guest, &rounds, rounds[index].cpu, &events, task, irq)
            }
        };
        let round = &mut rounds[index];
        (round.source, round.passed_on, round.goes_on) = (source, passed_on, passed_on && is_tick);
    }
    rounds.sort_by_key(|round| (round.begin_ns, round.cpu));
    rounds
}

/// The rounds of a CPU, of which only the first has its source, and their events.
fn of_cpu<'a>(
    guest: &GuestWakeups,
    host: Option<(&HostNoise, u32)>,
    cpu: u32,
    events: &[&'a Event],
) -> Vec<(Round, Vec<&'a Event>)> {
    let window = guest.begin_ns..guest.end_ns;
    let away =
        host.map_or(Vec::new(), |(host, process)| absences(&guest.clock, host, process, cpu));
    let cuts: Vec<u64> = match host {
        Some(_) => {
            let halts = away.iter().filter(|away| away.absence.class == Class::Halt);
            halts.map(|away| away.end as u64).collect()
        }
        None => events.iter().filter(|event| event.what == What::Idle).map(|e| e.at_ns).collect(),
    };
    let mut edges = vec![window.start];
    edges.extend(cuts.into_iter().filter(|cut| window.contains(cut) && *cut > window.start));
    edges.push(window.end);
    edges
        .windows(2)
        .enumerate()
        .map(|(index, edge)| {
            let span = edge[0]..edge[1];
            let first = events.partition_point(|event| event.at_ns < span.start);
            let within = &events[first..];
            let within = &within[..within.partition_point(|event| event.at_ns < span.end)];
            let mut exits = BTreeMap::new();
            let mut slept = false;
            let first = away.partition_point(|away| away.begin < span.start as i64);
            for one in away[first..].iter().take_while(|away| away.begin < span.end as i64) {
                *exits.entry(one.absence.cause).or_default() += 1;
                slept |= one.absence.class == Class::Halt && one.absence.blocked_ns > 0;
            }
            let round = Round {
                cpu,
                begin_ns: span.start,
                woke_ns: match host {
                    Some(_) => span.start,
                    None => woke(within).map_or(span.start, |event| event.at_ns),
                },
                end_ns: span.end,
                source: if index == 0 { Source::Awake } else { Source::Nothing },
                passed_on: false,
                goes_on: false,
                timers: timers(within).into_iter().filter(|timer| !timer.is_tick()).collect(),
                exits,
                slept,
            };
            (round, within.to_vec())
        })
        .collect()
}

/// Where a guest is idle from the last cut on, that is its first event.
fn woke<'a>(events: &[&'a Event]) -> Option<&'a Event> {
    events.iter().copied().find(|event| event.what != What::Idle)
}

/// The timers that expire, with works in the place of the timers that queue them.
fn timers(events: &[&Event]) -> Vec<Timer> {
    let mut timers = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let What::Expiry { timer, .. } = &event.what else { continue };
        let queued = match events.get(index + 1).map(|next| &next.what) {
            Some(What::Work { function }) if timer.function.contains("work") => Some(function),
            _ => None,
        };
        timers.push(match queued {
            Some(function) => Timer { function: function.clone(), ..timer.clone() },
            None => timer.clone(),
        });
    }
    timers
}

enum Direct {
    Is(Source),
    /// Something on another CPU: it woke this task, or sent this interrupt.
    From {
        task: Option<u32>,
        irq: Option<Irq>,
    },
}

fn direct(events: &[&Event]) -> Direct {
    let ends = |what: &What| {
        matches!(what, What::Irq { .. } | What::Device { .. } | What::Run { .. } | What::Idle)
    };
    let run = events.iter().find_map(|event| match event.what {
        What::Run { task, ref name } => Some((task, name.clone())),
        _ => None,
    });
    let mut left = events.iter().copied().skip_while(|event| event.what == What::Idle).peekable();
    let Some(first) = left.peek() else { return Direct::Is(Source::Nothing) };
    let irq = match &first.what {
        What::Device { name } => {
            let task = run.map(|(_, task)| task);
            return Direct::Is(Source::Device { name: name.clone(), task });
        }
        What::Run { task, .. } => return Direct::From { task: Some(*task), irq: None },
        What::Irq { irq: irq @ (Irq::Reschedule | Irq::Call) } => {
            return Direct::From { task: run.map(|(task, _)| task), irq: Some(*irq) };
        }
        What::Irq { irq } => {
            left.next();
            Some(*irq)
        }
        _ => None,
    };
    let within: Vec<&Event> = left.take_while(|event| !ends(&event.what)).collect();
    let timers = timers(&within);
    // A deferrable timer wakes nobody.
    let wakes = |timer: &&Timer| !timer.is_tick() && timer.class != super::Class::Deferrable;
    let source = match timers.iter().find(wakes) {
        Some(timer) => Source::Timer { timer: timer.clone() },
        None if !timers.is_empty() || irq == Some(Irq::Tick) => Source::Tick,
        None => match irq {
            Some(irq) => Source::Interrupt { irq },
            None => return Direct::From { task: run.map(|(task, _)| task), irq: None },
        },
    };
    Direct::Is(source)
}

/// A tick that has not stopped since the CPU was woken by something else is for that.
fn goes_on(rounds: &[Round], index: usize) -> (Source, bool) {
    let tick = &rounds[index];
    // Those of a CPU are one after the other.
    let before = index.checked_sub(1).map(|before| &rounds[before]);
    match before.filter(|before| before.cpu == tick.cpu) {
        Some(round)
            if tick.woke_ns.saturating_sub(round.woke_ns) < SHORT_NS
                && !matches!(round.source, Source::Awake | Source::Nothing | Source::Tick) =>
        {
            (round.source.clone(), true)
        }
        _ => (Source::Tick, false),
    }
}

/// What another CPU had been woken by that woke this one.
fn passed(
    guest: &GuestWakeups,
    rounds: &[Round],
    cpu: u32,
    events: &[&Event],
    task: Option<u32>,
    irq: Option<Irq>,
) -> (Source, bool) {
    let until = |is: &dyn Fn(&What) -> bool| {
        let found = events.iter().copied().find(|event| is(&event.what));
        found.or(woke(events)).map_or(0, |event| event.at_ns)
    };
    let ran = until(&|what| matches!(what, What::Run { .. }));
    let came = until(&|what| matches!(what, What::Irq { .. }));
    let last = |until: u64, is: &dyn Fn(&What) -> bool| {
        let before = guest.events.partition_point(|event| event.at_ns <= until);
        let lately = |event: &&Event| until - event.at_ns.min(until) < LATELY_NS;
        let mut before = guest.events[..before].iter().rev().take_while(lately);
        before.find(|event| event.cpu != cpu && is(&event.what))
    };
    let waking = task.and_then(|task| {
        last(ran, &|what| matches!(what, What::Waking { task: woken, .. } if *woken == task))
    });
    let sent = || last(came, &|what| *what == What::Ipi { to: cpu });
    let unknown = match irq {
        Some(irq) => Source::Interrupt { irq },
        None => Source::Nothing,
    };
    let Some(sender) = waking.or_else(sent) else { return (unknown, false) };
    let place =
        rounds.partition_point(|round| (round.cpu, round.begin_ns) <= (sender.cpu, sender.at_ns));
    let its = |round: &&Round| round.cpu == sender.cpu;
    match (rounds[..place].last().filter(its), &sender.what) {
        (Some(round), _)
            if sender.at_ns.saturating_sub(round.woke_ns) < SHORT_NS
                && !matches!(round.source, Source::Awake | Source::Nothing) =>
        {
            (round.source.clone(), true)
        }
        (_, What::Waking { by, .. }) => (Source::Task { name: by.clone() }, false),
        _ => (unknown, false),
    }
}

/// All exits of some rounds.
pub fn exits(rounds: &[Round]) -> u64 {
    rounds.iter().flat_map(|round| round.exits.values()).sum()
}
