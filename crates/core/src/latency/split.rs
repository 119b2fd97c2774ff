// SPDX-License-Identifier: GPL-2.0-only
//! Every activation, split into disjoint parts that add up to timerlat's numbers, or a program's.
//!
//! The way from the deadline to the thread has six stations, each at or after the one before; a
//! part is what is between two of them.  Whenever the vCPU is out of its guest again after it was
//! entered with the interrupt, that is a part of its own.

use super::recording::{Activation, GuestLatency, HostSteps, Via, What};
use crate::cause::Cause;
use serde::Serialize;

/// In ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// From the deadline to the host's handler of the timer.
    pub timer: u64,
    /// Until the vCPU's thread runs on a pCPU.
    pub wake: u64,
    /// Until the guest is entered.
    pub entry: u64,
    /// Until the guest's interrupt begins.
    pub injection: u64,
    /// Until the thread's timer has its turn in it.
    pub irq: u64,
    /// Exits after the entry and until then.
    pub irq_exits: u64,
    /// Until that thread runs.
    pub thread: u64,
    /// Exits meanwhile.
    pub thread_exits: u64,
}

impl Parts {
    pub const NAMES: [&'static str; 8] = [
        "host's timer late",
        "wake-up",
        "entry",
        "injection",
        "guest's IRQ",
        "exits before its end",
        "guest's thread",
        "exits meanwhile",
    ];

    /// In the order of [`Parts::NAMES`].
    pub fn all(&self) -> [u64; 8] {
        let Parts { timer, wake, entry, injection, irq, irq_exits, thread, thread_exits } = *self;
        [timer, wake, entry, injection, irq, irq_exits, thread, thread_exits]
    }

    /// The sampler's number for the interrupt.
    pub fn until_irq(&self) -> u64 {
        self.all()[..6].iter().sum()
    }

    /// … and for the thread.
    pub fn sum(&self) -> u64 {
        self.all().iter().sum()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Split {
    pub cpu: u32,
    pub number: u64,
    pub deadline_ns: u64,
    pub via: Via,
    pub irq_ns: u64,
    pub thread_ns: u64,
    pub parts: Parts,
    /// Whether KVM's own timer for the vCPU expired for it.
    pub host_timer: bool,
    /// The host says that the vCPU was away when its guest says that the interrupt began: the
    /// clocks are not joined well, and parts may be some µs off.
    pub doubtful: bool,
    /// The exits among the parts, in their order.
    pub exits: Vec<Absent>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Absent {
    pub cause: Cause,
    pub reason: String,
    pub ns: u64,
}

/// So much do the joined clocks of a guest and its host differ at most, in ns.
const JOINED: i64 = 1_000;

/// How long before a deadline KVM lets its timer expire at most, in ns
/// (LAPIC_TIMER_ADVANCE_NS_MAX).
const ADVANCE: i64 = 5_000;

/// What happened to a vCPU, on its guest's clock.
#[derive(Default)]
struct Path<'a> {
    timers: Vec<i64>,
    woken: Vec<i64>,
    /// When its thread left its pCPU, and ran again.
    off: Vec<(i64, i64)>,
    away: Vec<Away<'a>>,
}

struct Away<'a> {
    begin: i64,
    end: i64,
    cause: Cause,
    reason: &'a str,
}

/// Explains each activation by what the guest knows itself and, if there is one, by what its host
/// knows: `process` is its VMM's.
pub fn splits(guest: &GuestLatency, host: Option<(&HostSteps, u32)>) -> Vec<Split> {
    let mut cpus: Vec<u32> = guest.activations.iter().map(|one| one.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let mut splits = Vec::with_capacity(guest.activations.len());
    for cpu in cpus {
        let path = host.map_or(Path::default(), |(host, process)| {
            Path::of(guest, host, process, cpu).unwrap_or_default()
        });
        let those = guest.activations.iter().filter(|one| one.cpu == cpu);
        splits.extend(those.map(|one| path.split(one)));
    }
    splits.sort_by_key(|split| (split.deadline_ns, split.cpu));
    splits
}

impl<'a> Path<'a> {
    fn of(guest: &GuestLatency, host: &'a HostSteps, process: u32, vcpu: u32) -> Option<Path<'a>> {
        let mut offsets = host.tsc_offsets.iter();
        let offset = offsets.find(|one| one.process == process && one.vcpu == vcpu)?.offset;
        let mut path = Path::default();
        let (mut left, mut out) = (None, None);
        for step in host.steps.iter().filter(|one| one.process == process && one.vcpu == vcpu) {
            // The host's time on the guest's clock: the TSCs' offset the other way round.
            let ahead = host.clock.ahead(&guest.clock, offset.wrapping_neg(), step.at_ns)?;
            let at = step.at_ns as i64 + ahead;
            match &step.what {
                What::Exit => (left, out) = (Some(at), None),
                What::Timer => path.timers.push(at),
                What::Woken => path.woken.push(at),
                What::Out => out = Some(at),
                What::Runs => path.off.extend(out.take().map(|out| (out, at.max(out)))),
                What::Entry { cause, reason } => path.away.extend(left.take().map(|begin| Away {
                    begin,
                    end: at.max(begin),
                    cause: *cause,
                    reason,
                })),
            }
        }
        path.put_in_order();
        Some(path)
    }

    /// Steps of several CPUs may have been told out of order; absences come one at a time.
    fn put_in_order(&mut self) {
        self.timers.sort_unstable();
        self.woken.sort_unstable();
        self.off.sort_unstable();
        self.away.sort_by_key(|away| away.begin);
        let mut free = i64::MIN;
        for away in &mut self.away {
            away.begin = away.begin.max(free);
            away.end = away.end.max(away.begin);
            free = away.end;
        }
    }

    fn split(&self, one: &Activation) -> Split {
        let deadline = one.deadline_ns as i64;
        let thread = deadline + one.thread_ns as i64;
        let irq = (deadline + one.irq_ns as i64).min(thread);
        let began = (one.irq_began_ns as i64).clamp(deadline, irq);
        let within = |at: i64| at.clamp(deadline, began);
        let timer = self.timer(deadline, began);
        let handler = within(timer.unwrap_or_else(|| self.first_known(deadline, began)));
        // Where the thread was off its pCPU then, until it ran.
        let runs = self.off[..self.off.partition_point(|off| off.0 <= handler)].last();
        let runs = runs.map_or(handler, |off| off.1.max(handler));
        let carrying = self.ended_after(runs).first().filter(|away| away.begin <= began);
        let entered = carrying.map_or(runs, |away| away.end);
        let doubtful = entered.max(runs) - began > JOINED;
        let (runs, entered) = (within(runs), within(entered.max(runs)));
        let mut exits = Vec::new();
        let mut away = |from, to| self.away_between(from, to, &mut exits);
        let before = away(entered, began);
        let in_irq = away(began, irq);
        let thread_exits = away(irq, thread);
        Split {
            cpu: one.cpu,
            number: one.number,
            deadline_ns: one.deadline_ns,
            via: one.via,
            irq_ns: (irq - deadline) as u64,
            thread_ns: one.thread_ns,
            parts: Parts {
                timer: (handler - deadline) as u64,
                wake: (runs - handler) as u64,
                entry: (entered - runs) as u64,
                injection: (began - entered) as u64 - before,
                irq: (irq - began) as u64 - in_irq,
                irq_exits: before + in_irq,
                thread: (thread - irq) as u64 - thread_exits,
                thread_exits,
            },
            host_timer: timer.is_some(),
            doubtful,
            exits,
        }
    }

    /// When KVM's timer expired for this deadline: the first time after it, or right before.
    fn timer(&self, deadline: i64, began: i64) -> Option<i64> {
        let after = self.timers.partition_point(|at| *at < deadline);
        let first = self.timers.get(after).filter(|at| **at <= began);
        let before = || self.timers[..after].last().filter(|at| **at >= deadline - ADVANCE);
        first.or_else(before).copied()
    }

    /// When the host first had to do with a deadline for which no timer of KVM's expired.
    fn first_known(&self, deadline: i64, began: i64) -> i64 {
        let Some(away) = self.ended_after(deadline).first() else { return deadline };
        if away.begin > deadline {
            return if away.begin <= began { away.begin } else { deadline };
        }
        // Blocked, and woken for something else.
        let woken = self.woken.get(self.woken.partition_point(|at| *at < deadline));
        woken.copied().filter(|at| *at <= away.end).unwrap_or(deadline)
    }

    fn ended_after(&self, at: i64) -> &[Away<'a>] {
        &self.away[self.away.partition_point(|away| away.end <= at)..]
    }

    fn away_between(&self, from: i64, to: i64, exits: &mut Vec<Absent>) -> u64 {
        let mut sum = 0;
        for away in self.ended_after(from).iter().take_while(|away| away.begin < to) {
            let ns = (away.end.min(to) - away.begin.max(from)) as u64;
            exits.push(Absent { cause: away.cause, reason: away.reason.into(), ns });
            sum += ns;
        }
        sum
    }
}

#[cfg(test)]
#[path = "split_tests.rs"]
mod tests;
