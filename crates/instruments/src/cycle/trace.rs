// SPDX-License-Identifier: GPL-2.0-only
//! Reading the text of tracefs' file `trace`.
//!
//! All of it or nothing: a trace in which the kernel lost an event, of which the end is missing, or
//! that has a line which cannot be read, is an error, never a trace with a gap.

use crate::facts::raw::{
    Arguments, FACT_DEVICE, FACT_IPI, FACT_TIMER, MARKER_CLOSE, MARKER_LEAF, MARKER_OPEN,
    TIMER_NONE,
};
use paratick_core::{cause::TIMERS, cycle::Why};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub thread: u32,
    /// In the trace's clock: ns, or a processor's cycles.
    pub clock: u64,
    pub what: Seen,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Exit(ExitLine),
    Entry {
        vcpu: u32,
    },
    Msr {
        write: bool,
        index: u32,
        value: u64,
    },
    /// A hypercall, with its first two arguments.
    Hypercall {
        number: u64,
        arguments: [u64; 2],
    },
    /// The first that runs after an exit by an interrupt names the interrupt, by this fact.
    Handler(u32),
    /// An hrtimer has expired, one of TIMER_….
    Timer(u32),
    Woken,
    /// The thread gives its CPU away.
    SwitchedOut,
    /// A vCPU's local APIC takes an interrupt.
    Accepted {
        vcpu: u32,
        vector: u32,
    },
    Tick {
        vcpu: u32,
        what: String,
    },
    /// In a guest: a deadline is written, and why.
    DeadlineWrite(Why),
    WindowOpen,
    WindowClose,
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitLine {
    pub vcpu: u32,
    /// As the tracepoint prints it.
    pub reason: String,
    pub arguments: Arguments,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadTrace {
    #[error("the trace does not say how many events are in it")]
    NoCount,
    #[error("the trace ends in the middle of a line")]
    Cut,
    #[error("the kernel lost events of the trace: {what}")]
    Lost { what: String },
    #[error("the trace has {found} events, where {due} were recorded")]
    Incomplete { found: u64, due: u64 },
    #[error("line {number} of the trace cannot be read: {text:?}")]
    Line { number: usize, text: String },
    #[error("the trace has no workload in it: its window was {0}")]
    NoWindow(&'static str),
}

/// All events of a trace, in the order of time.
pub fn parse(text: &str) -> Result<Vec<Record>, BadTrace> {
    let (mut due, mut records) = (None, Vec::new());
    for (number, line) in text.lines().enumerate() {
        if let Some(counts) = line.strip_prefix("# entries-in-buffer/entries-written:") {
            due = Some(recorded(counts)?);
        } else if line.contains(" [LOST ") {
            let what = line.trim().to_string();
            return Err(BadTrace::Lost { what });
        } else if !line.starts_with('#') && !line.trim().is_empty() {
            let bad = || BadTrace::Line { number: number + 1, text: line.to_string() };
            records.push(record(line).ok_or_else(bad)?);
        }
    }
    let (found, due) = (records.len() as u64, due.ok_or(BadTrace::NoCount)?);
    // An event may be written to its end after the trace has stopped, when its count was printed.
    match found < due {
        true => Err(BadTrace::Incomplete { found, due }),
        // The last line could still lack the end of its last number.
        false if !text.ends_with('\n') => Err(BadTrace::Cut),
        false => Ok(records),
    }
}

/// From `205/205   #P:3`; the second is larger where old events were overwritten.
fn recorded(counts: &str) -> Result<u64, BadTrace> {
    let words = counts.split_ascii_whitespace().next();
    let numbers = words.and_then(|word| word.split_once('/'));
    let (kept, written) = numbers.ok_or(BadTrace::NoCount)?;
    if kept != written {
        let what = format!("{kept} of {written} are left");
        return Err(BadTrace::Lost { what });
    }
    kept.parse().map_err(|_| BadTrace::NoCount)
}

/// Checks what a CPU's file `stats` says: nothing was overwritten or dropped.
pub fn check_stats(text: &str) -> Result<(), BadTrace> {
    let lossy = |name: &str| matches!(name, "overrun" | "commit overrun" | "dropped events");
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    let mut counts = lines.filter(|(name, _)| lossy(name)).peekable();
    if counts.peek().is_none() {
        return Err(BadTrace::NoCount);
    }
    match counts.find(|(_, count)| count.trim() != "0") {
        Some((name, count)) => {
            let what = format!("{name} {}", count.trim());
            Err(BadTrace::Lost { what })
        }
        None => Ok(()),
    }
}

/// The clock's readings at the marks of the only window.
pub fn marks(records: &[Record]) -> Result<(u64, u64), BadTrace> {
    let clock = |mark: Seen, missing| {
        let mut marks = records.iter().filter(|record| record.what == mark);
        match (marks.next(), marks.next()) {
            (Some(record), None) => Ok(record.clock),
            (None, _) => Err(BadTrace::NoWindow(missing)),
            _ => Err(BadTrace::NoWindow("marked more than once")),
        }
    };
    let open = clock(Seen::WindowOpen, "never opened")?;
    let close = clock(Seen::WindowClose, "never closed")?;
    match open < close {
        true => Ok((open, close)),
        false => Err(BadTrace::NoWindow("closed before it was opened")),
    }
}

/// Reads `  CPU 0/KVM-85  [001] d..1.  1234: kvm_entry: vcpu 0, rip 0x1`; the thread's name may
/// have spaces in it.
fn record(line: &str) -> Option<Record> {
    let (task, rest) = line.split_once(" [")?;
    let thread = task.trim_end().rsplit_once('-')?.1.parse().ok()?;
    let (cpu, rest) = rest.split_once(']')?;
    cpu.parse::<u32>().ok()?;
    let (head, rest) = rest.split_once(": ")?;
    let clock = clock(head.split_ascii_whitespace().last()?)?;
    let (event, text) = rest.split_once(": ").or(rest.strip_suffix(':').map(|e| (e, "")))?;
    Some(Record { thread, clock, what: seen(event, text.trim_end())? })
}

/// Seconds with a fraction, or a plain number of cycles.
fn clock(text: &str) -> Option<u64> {
    match text.split_once('.') {
        None => text.parse().ok(),
        Some((seconds, fraction)) => {
            let seconds: u64 = seconds.parse().ok()?;
            let fraction = format!("{fraction:0<9}");
            seconds.checked_mul(1_000_000_000)?.checked_add(fraction.get(..9)?.parse().ok()?)
        }
    }
}

/// None: an event that should be understood is not.
fn seen(event: &str, text: &str) -> Option<Seen> {
    Some(match event {
        "kvm_exit" => Seen::Exit(exit(text)?),
        "kvm_entry" => {
            Seen::Entry { vcpu: text.strip_prefix("vcpu ")?.split(',').next()?.parse().ok()? }
        }
        "kvm_msr" => msr(text)?,
        "kvm_hypercall" => hypercall(text)?,
        "kvm_cpuid" => mark(text)?,
        "kvm_vcpu_wakeup" => Seen::Woken,
        "kvm_apic_accept_irq" => Seen::Accepted {
            vcpu: hex(field(text, "apicid ")?)?,
            vector: field(text, "vec ")?.parse().ok()?,
        },
        "kvm_pv_tick" => tick(text)?,
        "sched_switch" => Seen::SwitchedOut,
        "tick_deadline_write" => Seen::DeadlineWrite(field(text, "why=")?.parse().ok()?),
        "hrtimer_expire_entry" => Seen::Timer(timer(field(text, "function=")?)),
        "local_timer_entry" => Seen::Handler(FACT_TIMER),
        "reschedule_entry"
        | "call_function_entry"
        | "call_function_single_entry"
        | "irq_work_entry" => Seen::Handler(FACT_IPI),
        "irq_handler_entry" => Seen::Handler(FACT_DEVICE),
        _ => Seen::Other,
    })
}

/// Reads `vcpu 0 reason msr rip 0x1 info1 0x2 info2 0x3 intr_info 0x4 error_code 0x5`.
fn exit(text: &str) -> Option<ExitLine> {
    let number = |name| u64::from_str_radix(field(text, name)?.strip_prefix("0x")?, 16).ok();
    Some(ExitLine {
        vcpu: field(text, "vcpu ")?.parse().ok()?,
        // Some reasons are of two words.
        reason: text.split_once(" reason ")?.1.split_once(" rip ")?.0.to_string(),
        arguments: Arguments {
            info1: number(" info1 ")?,
            info2: number(" info2 ")?,
            intr_info: number(" intr_info ")?,
        },
    })
}

/// Reads `msr_write 6e0 = 0x1234`.
fn msr(text: &str) -> Option<Seen> {
    let (access, rest) = text.split_once(' ')?;
    let (index, value) = rest.split_once(" = 0x")?;
    let value = value.split_ascii_whitespace().next()?;
    Some(Seen::Msr {
        write: access == "msr_write",
        index: hex(index)?,
        value: u64::from_str_radix(value, 16).ok()?,
    })
}

/// Reads `nr 0x14 a0 0x1234 a1 0x1 a2 0x0 a3 0x0`.
fn hypercall(text: &str) -> Option<Seen> {
    let number = |name| u64::from_str_radix(field(text, name)?.strip_prefix("0x")?, 16).ok();
    let arguments = [number(" a0 ")?, number(" a2 ")?];
    Some(Seen::Hypercall { number: number("nr ")?, arguments })
}

/// Reads `func 50415241 idx 101 rax …`; other leaves do not matter.
fn mark(text: &str) -> Option<Seen> {
    let number = |name| hex(field(text, name)?);
    Some(match (number("func ")?, number("idx ")? & 0xff) {
        (MARKER_LEAF, MARKER_OPEN) => Seen::WindowOpen,
        (MARKER_LEAF, MARKER_CLOSE) => Seen::WindowClose,
        _ => Seen::Other,
    })
}

/// Reads `vcpu 0 delivered, 120 ns after it was due`.
fn tick(text: &str) -> Option<Seen> {
    let (vcpu, rest) = text.strip_prefix("vcpu ")?.split_once(' ')?;
    Some(Seen::Tick { vcpu: vcpu.parse().ok()?, what: rest.split_once(',')?.0.to_string() })
}

fn timer(function: &str) -> u32 {
    let which = TIMERS.iter().zip(1..).find(|(names, _)| names.contains(&function));
    which.map_or(TIMER_NONE, |(_, which)| which)
}

/// The word behind `name`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split_once(name)?.1.split_ascii_whitespace().next()
}

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 16).ok()
}
