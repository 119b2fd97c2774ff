// SPDX-License-Identifier: GPL-2.0-only
//! What one vCPU went through, from the events of all threads.
//!
//! Facts are noted as bpf/exits.bpf.c notes them, and [`cause::decide`] decides: a time line names
//! an exit as the counts do.

use super::trace::{ExitLine, Handler, Record, Seen};
use paratick_core::{
    cause::{self, Cause, Facts},
    reason::{self, Isa},
    timeline::{Event, Waker, What},
};

/// A trace that cannot have happened so: something is missing.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Gap {
    #[error("no exit of vCPU {vcpu} is in the trace")]
    NoVcpu { vcpu: u32 },
    #[error(
        "vCPU {vcpu} has two {what} in a row in the trace, {t_ns} ns after the workload's begin"
    )]
    Twice {
        vcpu: u32,
        what: &'static str,
        t_ns: u64,
    },
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
}

impl Window {
    fn holds(&self, record: &Record) -> bool {
        (self.open..=self.close).contains(&record.clock)
    }

    fn ns(&self, clock: u64) -> u64 {
        (clock.saturating_sub(self.open) as f64 * self.ns_per_tick).round() as u64
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
        Some(second) => Err(Gap::Threads {
            vcpu,
            first,
            second,
        }),
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
    /// Its place in the events.
    place: usize,
    /// None: a reason that nobody has named yet.
    code: Option<(Isa, u32)>,
    register: u32,
    facts: Facts,
    /// No handler has run yet after an exit by an interrupt.
    wait: bool,
    /// The first handler was the timer's, and is the latest.
    in_timer: bool,
    moved_ns: Option<i64>,
}

impl Story {
    /// `own`: on the vCPU's thread.
    fn take(&mut self, record: &Record, own: bool) -> Result<(), Gap> {
        let t_ns = self.window.ns(record.clock);
        match &record.what {
            Seen::Exit(exit) if exit.vcpu == self.vcpu => {
                self.cross(false, t_ns)?;
                self.exit(exit, t_ns);
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
            Seen::Msr {
                write,
                index,
                value,
            } if own => self.msr(*write, *index, *value),
            Seen::Handler(handler) if own => self.handler(*handler),
            Seen::VcpuTimer if own => self.vcpu_timer(),
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

    fn exit(&mut self, exit: &ExitLine, t_ns: u64) {
        self.settle();
        self.open = Some(Open::describe(exit, self.events.len()));
        self.waker = None;
        let reason = exit.reason.clone();
        self.push(
            t_ns,
            What::Exit {
                reason,
                cause: Cause::Other,
                msr: None,
                moved_ns: None,
            },
        );
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
        self.push(
            t_ns,
            match raised {
                true => What::Tick { what },
                false => What::NoTick { what },
            },
        );
    }

    fn is_halting(&self) -> bool {
        let place = self.open.as_ref().map(|open| open.place);
        self.in_guest == Some(false) && place.is_some_and(|place| self.events[place].what.is_halt())
    }

    fn msr(&mut self, write: bool, index: u32, value: u64) {
        let Some(open) = &mut self.open else { return };
        if !open.is_msr() || open.facts.has(Facts::MSR) {
            return;
        }
        open.register = index;
        open.facts = open.facts | Facts::MSR;
        if write && value != 0 {
            open.facts = open.facts | Facts::NONZERO;
        }
        if write && index == cause::TSC_DEADLINE && value != 0 {
            let before = self.deadline.replace(value);
            let ns = self.window.ns_per_tick;
            open.moved_ns =
                before.map(|before| (value.wrapping_sub(before) as i64 as f64 * ns).round() as i64);
        }
    }

    fn handler(&mut self, handler: Handler) {
        let Some(open) = &mut self.open else { return };
        open.in_timer = open.wait && handler == Handler::Timer;
        if std::mem::take(&mut open.wait) {
            open.facts = open.facts
                | match handler {
                    Handler::Timer => Facts::TIMER,
                    Handler::Ipi => Facts::IPI,
                    Handler::Device => Facts::DEVICE,
                };
        }
    }

    fn vcpu_timer(&mut self) {
        if let Some(open) = self.open.as_mut().filter(|open| open.in_timer) {
            open.facts = open.facts | Facts::VCPU_TIMER;
        }
    }

    /// The last exit has met all that could tell its cause.
    fn settle(&mut self) {
        self.update();
        self.open = None;
    }

    fn update(&mut self) {
        let Some(open) = &self.open else { return };
        let Some((isa, code)) = open.code else { return };
        let write = open.facts.has(Facts::WRITE);
        let known = open.facts.has(Facts::MSR);
        self.events[open.place].what = What::Exit {
            reason: reason::name(isa, code, write),
            cause: cause::decide(isa, code, open.register, open.facts),
            msr: known.then(|| reason::msr_name(open.register)),
            moved_ns: open.moved_ns,
        };
    }
}

impl Open {
    /// The same as bpf/describe.h.
    fn describe(exit: &ExitLine, place: usize) -> Open {
        const PFERR_RSVD: u64 = 1 << 3;
        const APIC_PAGE: u64 = 0xfee00;
        let mut open = Open {
            place,
            code: reason::find(&exit.reason),
            register: 0,
            facts: Facts::default(),
            wait: false,
            in_timer: false,
            moved_ns: None,
        };
        let mut apic =
            |register: u64, facts| (open.register, open.facts) = (register as u32, facts);
        match open.code {
            Some((Isa::Svm, 0x60)) => open.wait = true,
            Some((Isa::Svm, 0x7c)) if exit.info1 != 0 => open.facts = Facts::WRITE,
            Some((Isa::Svm, 0x400)) if exit.info2 >> 12 == APIC_PAGE => {
                apic(exit.info2 & 0xfff, Facts::MMIO | Facts::APIC_REGISTER);
            }
            Some((Isa::Svm, 0x400)) if exit.info1 & PFERR_RSVD != 0 => open.facts = Facts::MMIO,
            Some((Isa::Svm, 0x402)) => apic(exit.info1 & 0xff0, Facts::APIC_REGISTER),
            Some((Isa::Vmx, 1)) if is_posted(exit.intr_info) => open.facts = Facts::IPI,
            Some((Isa::Vmx, 1)) => open.wait = true,
            Some((Isa::Vmx, 32)) => open.facts = Facts::WRITE,
            Some((Isa::Vmx, 44 | 56)) => apic(exit.info1 & 0xfff, Facts::APIC_REGISTER),
            _ => {}
        }
        open
    }

    fn is_msr(&self) -> bool {
        matches!(self.code, Some((Isa::Svm, 0x7c) | (Isa::Vmx, 31 | 32)))
    }
}

/// Posted-interrupt vectors have no tracepoint of their own; VMX names the vector with the exit.
fn is_posted(intr_info: u64) -> bool {
    intr_info & (1 << 31) != 0 && (0xf0..=0xf2).contains(&(intr_info & 0xff))
}
