// SPDX-License-Identifier: GPL-2.0-only
//! From records to gaps, each with what disturbed it.

use super::raw::{
    Noise, Parts as Split, OSNOISE_DEADLINE, OSNOISE_GAP, OSNOISE_IRQ, OSNOISE_NMI, OSNOISE_SCHED,
    OSNOISE_SOFTIRQ, OSNOISE_THREAD, OSNOISE_TICK, OSNOISE_WAKE,
};
use crate::bpf::name;
use paratick_core::noise::{
    Disturbance, Exits, Gap, Kind, Parts, Told, TICK_DEFER_IRQ_EXIT, TICK_NOHZ_IRQ_EXIT, WAKE_UP,
};
use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
};

/// Linux's softirqs, by number (include/linux/interrupt.h).
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// In ns: some gap is told within that, so what is known by when it was told seems to have been
/// earlier by no more.
const LATE: u64 = 1_000;

/// In ns: osnoise does not write of a gap for longer, without what comes meanwhile.
const WRITING: u64 = 10_000;

/// In the order of the CPUs, and of time.  `splits` are what the kernel says of some gaps.
pub fn gather(records: &[Noise], splits: &[Split]) -> Vec<Gap> {
    clocks_offset(records).map_or(Vec::new(), |offset| gather_at(records, splits, offset))
}

/// The same where it is known what CLOCK_MONOTONIC is ahead of the gaps' clock.
pub fn gather_at(records: &[Noise], splits: &[Split], offset: u64) -> Vec<Gap> {
    let monotonic = |trace_ns: u64| trace_ns.wrapping_add(offset);
    let splits: HashMap<_, _> =
        splits.iter().map(|split| ((split.cpu, split.start), told(split))).collect();
    let mut waiting: BTreeMap<u32, Vec<&Noise>> = BTreeMap::new();
    let mut gaps: BTreeMap<u32, Vec<Gap>> = BTreeMap::new();
    for record in records {
        if record.kind != OSNOISE_GAP {
            waiting.entry(record.cpu).or_default().push(record);
            continue;
        }
        let told = splits.get(&(record.cpu, record.start_ns)).copied();
        let gaps = gaps.entry(record.cpu).or_default();
        // Stock osnoise takes its own writing for a part of the next gap.
        let written_ns = gaps
            .last()
            .filter(|_| told.is_some())
            .map(|gap: &Gap| monotonic(record.start_ns).saturating_sub(gap.begin_ns + gap.ns))
            .filter(|ns| *ns <= WRITING)
            .unwrap_or(record.name_high);
        let end = record.start_ns.saturating_add(record.ns);
        let within = record.start_ns - written_ns..end;
        // Of what came before, some may have been too short for a gap.
        let waiting = waiting.entry(record.cpu).or_default();
        let before = std::mem::take(waiting);
        let mut disturbances: Vec<Disturbance> = Vec::new();
        for one in before {
            // It came while osnoise wrote of this gap, as what came before it.
            let comes_later = is_instant(one) && !waiting.is_empty();
            if comes_later || start(one, offset) >= end {
                waiting.push(one);
                continue;
            }
            let Some(start) = start_within(one, offset, &within) else { continue };
            let begin_ns = match (one.kind, disturbances.last()) {
                // The way out of an interrupt begins where what was before ends.
                (OSNOISE_DEADLINE | OSNOISE_WAKE, Some(last)) => last.end_ns,
                _ => monotonic(start),
            };
            // Those were none that came in a handler, which is told only as it ends.
            let handler = [OSNOISE_NMI, OSNOISE_IRQ, OSNOISE_SOFTIRQ].contains(&one.kind);
            let within = |it: &Disturbance| it.name == WAKE_UP && it.end_ns + LATE > begin_ns;
            while handler && disturbances.last().is_some_and(within) {
                disturbances.pop();
            }
            disturbances.push(Disturbance {
                kind: kind(one.kind),
                name: of(one),
                begin_ns,
                // With what was within it: that is told apart by its own record.
                end_ns: one.told_ns.max(begin_ns),
            });
        }
        gaps.push(Gap {
            cpu: record.cpu,
            begin_ns: monotonic(record.start_ns),
            ns: record.ns,
            written_ns,
            interference: record.number,
            disturbances,
            told,
            stolen_ns: record.name_low.checked_sub(1),
        });
    }
    gaps.into_values().flatten().collect()
}

fn told(split: &Split) -> Told {
    Told {
        exits: Exits {
            light: split.light,
            heavy: split.heavy,
            halts: split.halts,
            arms: split.arms,
            stops: split.stops,
            expiries: split.expiries,
            host_ticks: split.ticks,
        },
        parts: Parts {
            nmi: split.nmi,
            irq: split.irq,
            softirq: split.softirq,
            thread: split.thread,
            kvm: split.hv,
            vmm: split.vmm,
            blocked: split.blocked,
            waited: split.steal,
            interrupted: split.hv_irq,
            rest: split.hw,
        },
    }
}

/// What CLOCK_MONOTONIC is ahead of the trace's clock, which nobody can read but the kernel: a gap
/// is told right after its end, and of all gaps the one that was told soonest shows it best.
fn clocks_offset(records: &[Noise]) -> Option<u64> {
    let gaps = records.iter().filter(|record| record.kind == OSNOISE_GAP);
    let ahead = |gap: &Noise| gap.told_ns.wrapping_sub(gap.start_ns.wrapping_add(gap.ns)) as i64;
    gaps.map(ahead).min().map(|offset| offset as u64)
}

/// Whether it is known by when it was told, and so exactly.
fn is_instant(record: &Noise) -> bool {
    [OSNOISE_SCHED, OSNOISE_DEADLINE, OSNOISE_WAKE].contains(&record.kind)
}

/// When it began, if that is in the gap.
fn start_within(record: &Noise, offset: u64, gap: &Range<u64>) -> Option<u64> {
    let start = start(record, offset);
    let just_before = is_instant(record) && (start..start + LATE).contains(&gap.start);
    (just_before || gap.contains(&start)).then_some(start)
}

/// On the trace's clock.
fn start(record: &Noise, offset: u64) -> u64 {
    match is_instant(record) || record.kind == OSNOISE_TICK {
        true => record.told_ns.wrapping_sub(record.ns + offset),
        false => record.start_ns,
    }
}

fn kind(kind: u32) -> Kind {
    match kind {
        OSNOISE_NMI => Kind::Nmi,
        OSNOISE_IRQ | OSNOISE_TICK | OSNOISE_DEADLINE | OSNOISE_WAKE => Kind::Irq,
        OSNOISE_SOFTIRQ => Kind::Softirq,
        OSNOISE_SCHED => Kind::Scheduler,
        _ => Kind::Thread,
    }
}

fn of(record: &Noise) -> String {
    let named = name(record.name_low, record.name_high);
    match record.kind {
        OSNOISE_IRQ if named.is_empty() => record.number.to_string(),
        OSNOISE_IRQ | OSNOISE_THREAD => named,
        OSNOISE_SOFTIRQ => match SOFTIRQS.get(record.number as usize) {
            Some(name) => name.to_string(),
            None => record.number.to_string(),
        },
        OSNOISE_SCHED => "nobody else to run".into(),
        OSNOISE_TICK => TICK_NOHZ_IRQ_EXIT.into(),
        OSNOISE_DEADLINE => TICK_DEFER_IRQ_EXIT.into(),
        OSNOISE_WAKE => WAKE_UP.into(),
        _ => "NMI".into(),
    }
}
