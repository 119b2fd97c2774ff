// SPDX-License-Identifier: GPL-2.0-only
//! What more timer slack would save: the recorded sleeps of processes, replayed with it.

use super::{
    recording::{Class, Event, GuestWakeups, Timer, What},
    rounds::{exits, Round, Source},
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What programs have that ask for none (include/linux/init_task.h).
const USUAL_NS: u64 = 50_000;

/// Expiries, and exits of the whole guest, in the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saving {
    pub slack_ns: u64,
    /// Names of processes whose timers may be late.
    pub processes: BTreeSet<String>,
    pub expiries: u64,
    pub exits: u64,
    pub predicted_expiries: u64,
    pub predicted_exits: f64,
}

/// The timers of one process on one CPU, one after the other.
#[derive(Default)]
struct Chain {
    /// When it may fire first.
    due: u64,
    /// From one expiry until the next may come.
    sleeps: std::collections::VecDeque<u64>,
    done: bool,
}

/// Replays each timer that has a slack, as if that were `slack_ns`.
///
/// A timer with slack expires with the first interrupt of a timer on its CPU from its time on, at
/// the latest when its slack is used up (kernel/time/hrtimer.c).  A process sleeps on from then.
/// That others sleep longer because it does is not known here.
pub fn with_slack(guest: &GuestWakeups, rounds: &[Round], slack_ns: u64) -> Saving {
    let window = guest.begin_ns..guest.end_ns;
    let name = |event: &Event| match &event.what {
        What::Expiry { timer, .. } if timer.class == Class::Slack => {
            timer.process.as_ref().map(|process| (process.pid, process.name.clone()))
        }
        _ => None,
    };
    let all: Vec<(&Event, (Option<u32>, String))> = guest
        .events
        .iter()
        .filter(|event| window.contains(&event.at_ns))
        .filter_map(|event| Some((event, name(event)?)))
        .collect();
    let processes: BTreeSet<String> = all.iter().map(|(_, (_, name))| name.clone()).collect();
    let exits = exits(rounds);

    let (mut fires, mut wakes) = (0, 0);
    for cpu in guest.numbers() {
        let mut chains: BTreeMap<&(Option<u32>, String), Vec<u64>> = BTreeMap::new();
        for (event, who) in all.iter().filter(|(event, _)| event.cpu == cpu) {
            chains.entry(who).or_default().push(event.at_ns);
        }
        let chains = chains.into_values().map(|times| chain(&times)).collect();
        let others = rounds.iter().filter(|round| round.cpu == cpu && !only_late(round));
        let others = others.filter(|round| is_timer_s(round)).map(|round| round.woke_ns).collect();
        let (fired, woken) = replay(chains, others, slack_ns, window.end);
        (fires, wakes) = (fires + fired, wakes + woken);
    }
    // What a wake-up of its own costs, and what each expiry costs on other CPUs.
    let own: Vec<&Round> = rounds.iter().filter(|round| only_late(round)).collect();
    let passed: Vec<&Round> =
        rounds.iter().filter(|round| round.passed_on && is_late(&round.source)).collect();
    let sum = |of: &[&Round]| of.iter().flat_map(|round| round.exits.values()).sum::<u64>() as f64;
    let each = |of: f64, number: usize| of / number.max(1) as f64;
    let predicted_exits = exits as f64 - sum(&own) - sum(&passed)
        + wakes as f64 * each(sum(&own), own.len())
        + fires as f64 * each(sum(&passed), all.len());
    Saving {
        slack_ns,
        processes,
        expiries: all.len() as u64,
        exits,
        predicted_expiries: fires,
        predicted_exits,
    }
}

/// Whether a process started it, which may be given another slack.
fn has_slack(timer: &Timer) -> bool {
    timer.class == Class::Slack && timer.process.is_some()
}

fn is_late(source: &Source) -> bool {
    matches!(source, Source::Timer { timer } if has_slack(timer))
}

/// A round that would not be, if its timers waited.
fn only_late(round: &Round) -> bool {
    !round.passed_on && is_late(&round.source) && round.timers.iter().all(has_slack)
}

/// A tick that goes on stands in the queue before all timers with slack, which stay behind it.
fn is_timer_s(round: &Round) -> bool {
    !round.passed_on && matches!(round.source, Source::Timer { .. })
}

fn chain(times: &[u64]) -> Chain {
    let sleeps = times.windows(2).map(|pair| (pair[1] - pair[0]).saturating_sub(USUAL_NS));
    Chain { due: times[0].saturating_sub(USUAL_NS), sleeps: sleeps.collect(), done: false }
}

/// How often they fire, and how often a CPU wakes up for nothing else.
fn replay(mut chains: Vec<Chain>, others: Vec<u64>, slack_ns: u64, end: u64) -> (u64, u64) {
    let (mut fires, mut wakes) = (0, 0);
    let mut others = others.into_iter().peekable();
    loop {
        let waiting = chains.iter().filter(|chain| !chain.done);
        let Some(last) = waiting.map(|chain| chain.due + slack_ns).min() else { break };
        let now = match others.peek() {
            Some(other) if *other <= last => others.next().unwrap_or(last),
            _ => {
                wakes += u64::from(last < end);
                last
            }
        };
        if now >= end {
            break;
        }
        for chain in chains.iter_mut().filter(|chain| !chain.done && chain.due <= now) {
            fires += 1;
            match chain.sleeps.pop_front() {
                Some(sleep) => chain.due = now + sleep,
                None => chain.done = true,
            }
        }
    }
    (fires, wakes)
}
