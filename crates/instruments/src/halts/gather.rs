// SPDX-License-Identifier: GPL-2.0-only
//! From records to the halts of each vCPU.

use super::raw::{
    Record, HALT_CHANGED, HALT_DEADLINE, HALT_LIMIT, HALT_MAXIMUM, HALT_OWN, HALT_VALID,
    HALT_WAITED, RECORD_HALT, RECORD_MARK,
};
use crate::facts::raw::{MARKER_CLOSE, MARKER_OPEN};
use paratick_core::{
    cycle,
    halts::{
        fill_limits, traced_maximum, Halt, Halts, Maximum, Rule, Side, Traced, VcpuHalts, Waker,
    },
};
use std::collections::{BTreeMap, BTreeSet};

pub struct Recorded<'a> {
    /// CLOCK_MONOTONIC.
    pub begun_ns: u64,
    pub ended_ns: u64,
    /// In force all the time.
    pub rule: Option<Rule>,
    pub records: &'a [Record],
}

/// From when to when a process's halts count.
struct Span {
    from_ns: u64,
    to_ns: u64,
}

/// The halts that ended in a marked window, or in the whole recording where there is none.
pub fn gather(recorded: &Recorded) -> Halts {
    let windows = windows(recorded);
    let span = |process: u32| match windows.get(&process) {
        Some(window) => Some(window),
        None if windows.is_empty() => None,
        // Another guest's, beside the one that is measured.
        None => Some(&NOTHING),
    };
    let begin = windows.values().map(|window| window.from_ns).min().unwrap_or(recorded.begun_ns);
    let end = windows.values().map(|window| window.to_ns).max().unwrap_or(recorded.ended_ns);
    let halts = || recorded.records.iter().filter(|record| record.kind == RECORD_HALT);
    // Of a VM and a thread: which vCPU it is.
    let threads: BTreeMap<(u32, u32), u32> =
        halts().map(|record| ((record.tgid, record.thread), record.vcpu)).collect();
    let others = other_timers(halts());
    let mut vcpus: BTreeMap<(u32, u32), VcpuHalts> = BTreeMap::new();
    for record in halts() {
        let is_in = |span: &Span| (span.from_ns..=span.to_ns).contains(&record.ended_ns);
        if span(record.tgid).is_some_and(|span| !is_in(span)) {
            continue;
        }
        let vcpu = vcpus.entry((record.tgid, record.vcpu)).or_insert_with(|| VcpuHalts {
            side: Side::Host,
            vcpu: record.vcpu,
            process: Some(record.tgid),
            thread: Some(record.thread),
            rule: recorded.rule,
            ..VcpuHalts::default()
        });
        let timer = others.get(&record.tgid).copied();
        let mut halt = halt(record, begin, timer);
        if let (Waker::Ipi, Some(_)) = (halt.waker, halt.woken_ns) {
            halt.sender = threads.get(&(record.tgid, record.woken_by as u32)).copied();
        }
        vcpu.halts.push(halt);
    }
    let mut vcpus: Vec<_> = vcpus.into_values().collect();
    let read = maxima(halts());
    for vm in vcpus.chunk_by_mut(|one, next| one.process == next.process) {
        let read = vm[0].process.and_then(|process| read.get(&process));
        tell_maximum(vm, read);
    }
    for vcpu in &mut vcpus {
        fill_limits(vcpu);
        vcpu.halts.iter_mut().for_each(poll_no_longer_than_allowed);
    }
    Halts { window_ns: end.saturating_sub(begin), vcpus, ..Halts::default() }
}

const NOTHING: Span = Span { from_ns: 1, to_ns: 0 };

/// The first window of each process; one that is still open ends with the recording.
fn windows(recorded: &Recorded) -> BTreeMap<u32, Span> {
    let mut windows: BTreeMap<u32, Span> = BTreeMap::new();
    for mark in recorded.records.iter().filter(|record| record.kind == RECORD_MARK) {
        let at = mark.ended_ns;
        match mark.vector & 0xff {
            MARKER_OPEN => {
                let span = Span { from_ns: at, to_ns: recorded.ended_ns };
                windows.entry(mark.tgid).or_insert(span);
            }
            MARKER_CLOSE => {
                if let Some(span) = windows.get_mut(&mark.tgid) {
                    span.to_ns = span.to_ns.min(at);
                }
            }
            _ => {}
        }
    }
    windows
}

/// Of each VM, all maxima that were read.
fn maxima<'a>(halts: impl Iterator<Item = &'a Record>) -> BTreeMap<u32, BTreeSet<Option<u32>>> {
    let mut read: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for record in halts.filter(|record| record.flags & HALT_MAXIMUM != 0) {
        let own = (record.flags & HALT_OWN != 0).then_some(record.maximum);
        read.entry(record.tgid).or_default().insert(own);
    }
    read
}

/// What was read of one VM, none being the module's maximum, or else what its traces tell.
fn tell_maximum(vm: &mut [VcpuHalts], read: Option<&BTreeSet<Option<u32>>>) {
    let one = read.map(|read| (read.first().copied().flatten(), read.len()));
    let (rule, maximum) = match (one, vm[0].rule) {
        // It was changed meanwhile.
        (Some((_, 2..)), _) => (None, Maximum::Unknown),
        (Some((own, _)), rule) => (rule, own.map_or(Maximum::Module, Maximum::Own)),
        (None, Some(rule)) => (Some(rule), traced_maximum(vm.iter(), rule)),
        (None, None) => (None, Maximum::Unknown),
    };
    for vcpu in vm {
        (vcpu.rule, vcpu.maximum) = (rule, maximum);
    }
}

/// A timer that is due by so much when a halt ends has ended it.
const SOON_NS: u64 = 100_000;
/// So many wake-ups by a timer tell its vector.
const ENOUGH: usize = 5;

/// Of guests that are not Linux, the vector of their timer: what most halts were ended by whose
/// deadline had just come.
fn other_timers<'a>(halts: impl Iterator<Item = &'a Record>) -> BTreeMap<u32, u32> {
    let mut seen: BTreeMap<u32, BTreeMap<u32, usize>> = BTreeMap::new();
    for record in halts.filter(|record| record.vector != 0) {
        let since = record.ended_ns.checked_sub(record.deadline_ns);
        let due = record.flags & HALT_DEADLINE != 0 && since.is_some_and(|ns| ns < SOON_NS);
        if due {
            *seen.entry(record.tgid).or_default().entry(record.vector).or_default() += 1;
        }
    }
    let most = |vectors: BTreeMap<u32, usize>| {
        let (vector, count) = vectors.into_iter().max_by_key(|(_, count)| *count)?;
        let is_linux_s = matches!(waker(vector), Waker::Timer | Waker::VirtualTick);
        (count >= ENOUGH && !is_linux_s).then_some(vector)
    };
    seen.into_iter().filter_map(|(vm, vectors)| Some((vm, most(vectors)?))).collect()
}

/// `timer` is its timer's vector where the guest is not Linux.
fn halt(record: &Record, window_begin: u64, timer: Option<u32>) -> Halt {
    let has = |flag: u32| record.flags & flag != 0;
    let begin = record.ended_ns.saturating_sub(record.ns);
    let waited = has(HALT_WAITED);
    // KVM polls until the thread gives its CPU away.
    let polled = match record.slept_at_ns {
        at if waited && at >= begin => at - begin,
        _ if waited => 0,
        _ => record.ns,
    };
    let changed = has(HALT_CHANGED);
    Halt {
        begin_ns: begin.saturating_sub(window_begin),
        ns: record.ns,
        polled_ns: polled.min(record.ns),
        waited,
        valid: has(HALT_VALID),
        allowed: true,
        limit_ns: has(HALT_LIMIT).then_some(record.limit),
        traced: changed.then_some(Traced { old: record.old, new: record.new }),
        waker: match timer {
            None => waker(record.vector),
            Some(timer) if record.vector == timer => Waker::Timer,
            // Its other vectors mean what nobody told us.
            Some(_) if record.vector != 0 => Waker::Other,
            Some(_) => Waker::Unknown,
        },
        woken_ns: record.woken_at_ns.checked_sub(begin).filter(|_| waited),
        deadline_ns: has(HALT_DEADLINE).then(|| record.deadline_ns.saturating_sub(begin)),
        sender: None,
        switches: record.switches,
    }
}

/// To give the CPU away takes time, too.
fn poll_no_longer_than_allowed(halt: &mut Halt) {
    if let (true, Some(limit)) = (halt.waited, halt.limit_ns) {
        halt.polled_ns = halt.polled_ns.min(limit.into());
    }
}

/// Of whom an interrupt with this vector is; 0 is none.
pub fn waker(vector: u32) -> Waker {
    match cycle::Waker::of_vector(vector) {
        _ if vector == 0 => Waker::Unknown,
        cycle::Waker::Timer => Waker::Timer,
        cycle::Waker::Tick => Waker::VirtualTick,
        cycle::Waker::Ipi => Waker::Ipi,
        cycle::Waker::Device => Waker::Device,
        cycle::Waker::Unknown => Waker::Other,
    }
}
