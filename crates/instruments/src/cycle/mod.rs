// SPDX-License-Identifier: GPL-2.0-only
//! What happens to a vCPU in one idle cycle, from a trace of its host.
//!
//! The trace has two parts: one with every event, in cycles of the processor, which is the only
//! clock that tracefs prints exactly, and one with the window's marks alone, in time.  The marks
//! are in both, so they tell how long a cycle of the processor is.
//!
//! [`trace`] reads the text, [`story`] tells from it what one vCPU went through, and [`choose`]
//! chooses one cycle that stands for all.  [`clock`] knows how the guest's clock differs from the
//! trace's, and [`writes`] traces the guest itself: why it wrote a deadline.

mod choose;
mod clock;
mod story;
mod trace;
mod writes;

pub use writes::DeadlineWrites;

use crate::{
    exits,
    facts::raw::MARKER_LEAF,
    tracefs::{Instance, Tracefs},
    Instrument,
};
use anyhow::{Context, Result};
use paratick_core::cycle::Traced;

/// The vCPU whose cycles are told: the one that leads the workloads.
pub const VCPU: u32 = 0;
/// The trace's buffer of each CPU, in KiB: some twenty times what is written.
const BUFFER_KIB: u32 = 32 << 10;
const MARKS_KIB: u32 = 16;
/// Has the marks of a window.
const MARKS: &str = "kvm/kvm_cpuid";
/// What a story needs beside the events that tell causes.
const MORE_EVENTS: [(&str, bool); 4] = [
    ("kvm/kvm_entry", true),
    ("kvm/kvm_vcpu_wakeup", true),
    ("kvm/kvm_apic_accept_irq", true),
    ("sched/sched_switch", true),
];

/// Traces the host until it is read, which can be done once.
pub struct Cycle(Option<Recording>);

struct Recording {
    events: Instance,
    marks: Instance,
}

impl Instrument for Cycle {
    const NAME: &'static str = "cycle";
    type Reading = Traced;

    fn start() -> Result<Cycle> {
        let recording = Recording::start().context(
            "the host cannot trace its guests\n\
             hint: its kernel needs KVM and CONFIG_FTRACE, as the lab's kernels have",
        )?;
        Ok(Cycle(Some(recording)))
    }

    /// The cycle that stands for all of [`VCPU`] in the only window since the start.
    fn read(&mut self) -> Result<Traced> {
        let recording = self.0.take().context("the trace has been read already")?;
        let traces = recording.stop().context("reading the host's trace")?;
        let (records, window) = traces.read()?;
        let told = story::tell(&records, VCPU, window)?;
        choose::choose(&told)
            .with_context(|| format!("vCPU {VCPU} did not halt twice in the trace"))
    }
}

impl Recording {
    fn start() -> Result<Recording> {
        let tracefs = Tracefs::open()?;
        let (events, marks) = (tracefs.instance("events")?, tracefs.instance("marks")?);
        events.set("buffer_size_kb", BUFFER_KIB)?;
        events.set("trace_clock", "x86-tsc")?;
        for event in tracefs.present(exits::events().chain(&MORE_EVENTS))? {
            events.set(&format!("events/{event}/enable"), 1)?;
        }
        marks.set("buffer_size_kb", MARKS_KIB)?;
        marks.set("trace_clock", "mono")?;
        let filter = format!("function == {MARKER_LEAF:#x}");
        marks.set(&format!("events/{MARKS}/filter"), filter)?;
        marks.set(&format!("events/{MARKS}/enable"), 1)?;
        marks.set("tracing_on", 1)?;
        events.set("tracing_on", 1)?;
        Ok(Recording { events, marks })
    }

    fn stop(self) -> Result<Traces> {
        self.events.set("tracing_on", 0)?;
        self.marks.set("tracing_on", 0)?;
        Ok(Traces {
            events: self.events.trace()?,
            marks: self.marks.trace()?,
            stats: self.events.stats()? + &self.marks.stats()?,
            guest_offset: clock::guest_offset(VCPU),
        })
    }
}

/// As tracefs printed them.
struct Traces {
    events: String,
    marks: String,
    stats: String,
    guest_offset: Option<i64>,
}

impl Traces {
    fn read(&self) -> Result<(Vec<trace::Record>, story::Window)> {
        trace::check_stats(&self.stats)?;
        let records = trace::parse(&self.events)?;
        let (open, close) = trace::marks(&records)?;
        let (from, to) = trace::marks(&trace::parse(&self.marks)?)?;
        let ns_per_tick = (to - from) as f64 / (close - open) as f64;
        let guest_offset = self.guest_offset;
        Ok((records, story::Window { open, close, ns_per_tick, guest_offset }))
    }
}

#[cfg(test)]
mod tests;
