// SPDX-License-Identifier: GPL-2.0-only
//! From idle states to the halts of each CPU.

use super::raw::{Idling, IDLE_CHANGED, IDLE_MEASURED, IDLE_TIMED_OUT};
use crate::halts::waker;
use paratick_core::halts::{Halt, Halts, Rule, Side, Traced, VcpuHalts};
use std::collections::BTreeMap;

/// The idle state in which a CPU polls, where cpuidle has one (cpuidle-haltpoll).
const POLL: u32 = 0;

pub struct Recorded<'a> {
    /// CLOCK_MONOTONIC.
    pub begun_ns: u64,
    pub ended_ns: u64,
    /// In force all the time.
    pub rule: Option<Rule>,
    pub records: &'a [Idling],
}

/// Each poll with the halt that it ended in, if it did: a halt follows at once where the poll was
/// not enough.
pub fn gather(recorded: &Recorded) -> Halts {
    let mut cpus: BTreeMap<u32, Vec<&Idling>> = BTreeMap::new();
    for record in recorded.records {
        cpus.entry(record.cpu).or_default().push(record);
    }
    let halts = |states: &[&Idling]| {
        let mut halts: Vec<Halt> = Vec::new();
        // A poll that has timed out, and what comes next is the halt.
        let mut open = false;
        for state in states {
            let has = |flag: u32| state.flags & flag != 0;
            let polls = state.state == POLL && has(IDLE_MEASURED);
            match halts.last_mut().filter(|_| open && !polls) {
                Some(poll) => *poll = joined(poll, state),
                None => halts.push(halt(state, polls, recorded.begun_ns)),
            }
            open = polls && has(IDLE_TIMED_OUT) && state.ran == 0;
        }
        halts
    };
    let of_cpu = |(cpu, states): (u32, Vec<&Idling>)| VcpuHalts {
        side: Side::Guest,
        vcpu: cpu,
        rule: recorded.rule,
        halts: halts(&states),
        ..VcpuHalts::default()
    };
    let window_ns = recorded.ended_ns.saturating_sub(recorded.begun_ns);
    let vcpus = cpus.into_iter().map(of_cpu).collect();
    Halts { window_ns, vcpus, ..Halts::default() }
}

fn halt(state: &Idling, polls: bool, window_begin: u64) -> Halt {
    let measured = state.flags & IDLE_MEASURED != 0;
    let ns = match measured {
        true => state.residency_ns,
        false => state.ended_ns.saturating_sub(state.began_ns),
    };
    Halt {
        polled_ns: if polls { ns } else { 0 },
        waited: !polls,
        limit_ns: measured.then_some(state.limit_ns as u32),
        traced: traced(state),
        waker: waker(state.vector),
        // KTIME_MAX: there is none.
        deadline_ns: (measured && state.deadline_ns <= i64::MAX as u64 / 2)
            .then(|| state.deadline_ns.saturating_sub(state.began_ns)),
        ..Halt::blocked(state.began_ns.saturating_sub(window_begin), ns)
    }
}

/// A poll and the halt after it.
fn joined(poll: &Halt, state: &Idling) -> Halt {
    let halt = halt(state, false, 0);
    Halt {
        ns: poll.polled_ns + halt.ns,
        waited: true,
        traced: halt.traced,
        waker: halt.waker,
        ..poll.clone()
    }
}

fn traced(state: &Idling) -> Option<Traced> {
    let changed = state.flags & IDLE_CHANGED != 0;
    changed.then_some(Traced { old: state.old, new: state.new })
}
