// SPDX-License-Identifier: GPL-2.0-only
//! What one vCPU went through, from the events of all threads.
//!
//! Facts are noted and causes decided as those of the counts are ([`crate::facts`]).

use super::trace::{ExitLine, Record, Seen};
use crate::facts::{
    self,
    raw::{Thread, FACT_HYPERCALL},
    Explained,
};
use paratick_core::{
    cause::{Cause, Facts, TSC_DEADLINE},
    cycle::{Event, Until, Waker, What},
    reason::{self, Isa},
};

/// The number of the hypercall that halts until a deadline (kvm_para.h).
const HALT_UNTIL: u64 = 20;

/// Of that one: the deadline outlives the halt.
const HALT_UNTIL_KEEP: u64 = 1 << 0;

/// A trace that cannot have happened so: something is missing.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Gap {
    #[error("no exit of vCPU {vcpu} is in the trace")]
    NoVcpu { vcpu: u32 },
    #[error(
        "vCPU {vcpu} has two {what} in a row in the trace, {t_ns} ns after the workload's begin"
    )]
    Twice { vcpu: u32, what: &'static str, t_ns: u64 },
    #[error("vCPU {vcpu} is run by several threads in the trace: {first} and {second}")]
    Threads { vcpu: u32, first: u32, second: u32 },
}

/// A stretch of a trace, and how its clock is turned into ns.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The trace's clock at its begin and end.
    pub open: u64,
    pub close: u64,
    pub ns_per_tick: f64,
    /// What the guest's clock is ahead of the trace's; none: not known.
    pub guest_offset: Option<i64>,
}

impl Window {
    fn holds(&self, record: &Record) -> bool {
        (self.open..=self.close).contains(&record.clock)
    }

    fn ns(&self, clock: u64) -> u64 {
        (clock.saturating_sub(self.open) as f64 * self.ns_per_tick).round() as u64
    }

    /// From one reading of the clock to another.
    fn ns_between(&self, from: u64, to: u64) -> i64 {
        (to.wrapping_sub(from) as i64 as f64 * self.ns_per_tick).round() as i64
    }
}

/// Everything that happened to `vcpu` in the window, with times from its begin.
pub fn tell(records: &[Record], vcpu: u32, window: Window) -> Result<Vec<Event>, Gap> {
    let thread = thread_of(records, vcpu)?;
    let mut story = Story {
        vcpu,
        window,
        events: Vec::new(),
        open: None,
        wake: None,
        waker: None,
        deadline: None,
        in_guest: None,
    };
    for record in records.iter().filter(|record| window.holds(record)) {
        story.take(record, record.thread == thread)?;
    }
    story.settle();
    Ok(story.events)
}

fn thread_of(records: &[Record], vcpu: u32) -> Result<u32, Gap> {
    let mut threads = records.iter().filter_map(|record| match &record.what {
        Seen::Exit(exit) if exit.vcpu == vcpu => Some(record.thread),
        _ => None,
    });
    let first = threads.next().ok_or(Gap::NoVcpu { vcpu })?;
    match threads.find(|other| *other != first) {
        Some(second) => Err(Gap::Threads { vcpu, first, second }),
        None => Ok(first),
    }
}

struct Story {
    vcpu: u32,
    window: Window,
    events: Vec<Event>,
    /// The last exit, whose cause is open until the next one.
    open: Option<Open>,
    /// The halt's wake, whose reason is open until the entry.
    wake: Option<usize>,
    /// The first interrupt since the halt.
    waker: Option<Waker>,
    /// As last written.
    deadline: Option<u64>,
    /// Not known before the first exit or entry.
    in_guest: Option<bool>,
}

struct Open {
    place: usize,
    isa: Isa,
    noted: Thread,
    clock: u64,
    moved_ns: Option<i64>,
    until: Option<Until>,
}

impl Story {
    /// `own`: on the vCPU's thread.
    fn take(&mut self, record: &Record, own: bool) -> Result<(), Gap> {
        let t_ns = self.window.ns(record.clock);
        match &record.what {
            Seen::Exit(exit) if exit.vcpu == self.vcpu => {
                self.cross(false, t_ns)?;
                self.exit(exit, record.clock);
            }
            Seen::Entry { vcpu } if *vcpu == self.vcpu => {
                self.cross(true, t_ns)?;
                self.entry(t_ns);
            }
            Seen::Accepted { vcpu, vector } if *vcpu == self.vcpu => {
                self.waker.get_or_insert(Waker::of_vector(*vector));
            }
            Seen::Tick { vcpu, what } if *vcpu == self.vcpu => self.tick(what, t_ns),
            Seen::Woken if own => {
                self.wake = Some(self.events.len());
                self.push(t_ns, What::Wake { by: Waker::Unknown });
            }
            Seen::SwitchedOut if own && self.is_halting() => self.push(t_ns, What::Sleep),
            Seen::Msr { write, index, value } if own => self.msr(*write, *index, *value),
            Seen::Hypercall { number, arguments } if own => self.hypercall(*number, *arguments),
            Seen::Handler(fact) if own => self.note(|noted| facts::note_handler(noted, *fact)),
            Seen::Timer(which) if own => self.note(|noted| facts::note_timer(noted, *which, 0)),
            _ => {}
        }
        Ok(())
    }

    fn push(&mut self, t_ns: u64, what: What) {
        self.events.push(Event { t_ns, what });
    }

    /// Exits and entries take turns, or some of them are missing.
    fn cross(&mut self, into_guest: bool, t_ns: u64) -> Result<(), Gap> {
        if self.in_guest == Some(into_guest) {
            return Err(Gap::Twice {
                vcpu: self.vcpu,
                what: if into_guest { "entries" } else { "exits" },
                t_ns,
            });
        }
        self.in_guest = Some(into_guest);
        Ok(())
    }

    fn exit(&mut self, exit: &ExitLine, clock: u64) {
        self.settle();
        // None: a reason that nobody has named yet.
        self.open = reason::find(&exit.reason).map(|(isa, code)| {
            let mut noted = Thread { isa: isa.number(), window: 1, ..Thread::default() };
            facts::note_exit(&mut noted, code, &exit.arguments);
            Open { place: self.events.len(), isa, noted, clock, moved_ns: None, until: None }
        });
        self.waker = None;
        let (reason, cause) = (exit.reason.clone(), Cause::Other);
        let what = What::Exit { reason, cause, msr: None, moved_ns: None, until: None, why: None };
        self.push(self.window.ns(clock), what);
        // What follows depends on it at once.
        self.update();
    }

    fn entry(&mut self, t_ns: u64) {
        if let (Some(place), Some(waker)) = (self.wake.take(), self.waker) {
            self.events[place].what = What::Wake { by: waker };
        }
        self.push(t_ns, What::Entry);
    }

    fn tick(&mut self, what: &str, t_ns: u64) {
        let raised = matches!(what, "delivered" | "late" | "timer");
        let what = what.to_string();
        self.push(t_ns, if raised { What::Tick { what } } else { What::NoTick { what } });
    }

    fn is_halting(&self) -> bool {
        let place = self.open.as_ref().map(|open| open.place);
        self.in_guest == Some(false) && place.is_some_and(|place| self.events[place].what.is_halt())
    }

    fn msr(&mut self, write: bool, index: u32, value: u64) {
        let Some(open) = &mut self.open else { return };
        if !facts::awaits_msr(&open.noted) {
            return;
        }
        facts::note_msr(&mut open.noted, index, value);
        if write && index == TSC_DEADLINE && value != 0 {
            let before = self.deadline.replace(value);
            open.moved_ns = before.map(|before| self.window.ns_between(before, value));
        }
    }

    fn hypercall(&mut self, number: u64, [deadline, flags]: [u64; 2]) {
        let Some(open) = &mut self.open else { return };
        facts::note_hypercall(&mut open.noted, FACT_HYPERCALL, number, 0);
        if open.noted.facts & FACT_HYPERCALL != 0 && number == HALT_UNTIL {
            let has_deadline = deadline != 0;
            if has_deadline {
                self.deadline = Some(deadline);
            }
            let offset = self.window.guest_offset.filter(|_| has_deadline);
            open.until = Some(Until {
                deadline: has_deadline,
                keep: flags & HALT_UNTIL_KEEP != 0,
                due_ns: offset.map(|offset| {
                    self.window.ns_between(open.clock.wrapping_add_signed(offset), deadline)
                }),
            });
            // Whether the vCPU sleeps now depends on it.
            self.update();
        }
    }

    /// The last exit has met all that could tell its cause.
    fn settle(&mut self) {
        self.update();
        self.open = None;
    }

    fn update(&mut self) {
        let Some(open) = &self.open else { return };
        let Some(key) = open.noted.pending() else { return };
        let Explained { cause, reason, about } = key.explain(open.isa);
        self.events[open.place].what = What::Exit {
            reason,
            cause,
            msr: about.filter(|_| key.facts().has(Facts::MSR)),
            moved_ns: open.moved_ns,
            until: open.until,
            why: None,
        };
    }

    fn note(&mut self, note: impl FnOnce(&mut Thread)) {
        if let Some(open) = &mut self.open {
            note(&mut open.noted);
        }
    }
}
