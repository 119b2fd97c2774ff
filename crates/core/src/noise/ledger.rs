// SPDX-License-Identifier: GPL-2.0-only
//! Every gap of osnoise's sampling, split into disjoint parts that add up to it.
//!
//! Each moment belongs to one part: to the host while the vCPU was out of its guest, else to the
//! innermost that ran in the guest.  What is left is nobody's.

use super::{
    join::{absences, Away},
    parts::{Exits, Parts, Told},
    rank::{sources, Place, Source},
    recording::{
        self, Absence, Disturbance, Gap, GuestNoise, HostNoise, Kind, SamplingProgram,
        OSNOISE_THRESHOLD, TICK_NOHZ_IRQ_EXIT,
    },
};
use serde::Serialize;

impl Parts {
    fn of(&mut self, kind: Kind) -> &mut u64 {
        match kind {
            Kind::Nmi => &mut self.nmi,
            Kind::Irq => &mut self.irq,
            Kind::Softirq => &mut self.softirq,
            Kind::Thread | Kind::Scheduler => &mut self.thread,
        }
    }

    /// What is left of an absence after `cut` ns, KVM's own part first.
    fn absent(&mut self, absence: &Absence, cut: u64) {
        let mut cut = cut;
        let mut left = |ns: u64| {
            let less = ns.min(cut);
            cut -= less;
            ns - less
        };
        self.kvm += left(absence.kvm_ns);
        self.interrupted += left(absence.interrupted_ns);
        self.vmm += left(absence.vmm_ns);
        self.waited += left(absence.waited_ns);
        self.blocked += left(absence.blocked_ns);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    pub cpu: u32,
    /// The guest's CLOCK_MONOTONIC.
    pub begin_ns: u64,
    pub ns: u64,
    /// The guest's kernel knows of nothing in it: its osnoise calls it hardware noise.
    pub unknown_to_guest: bool,
    pub parts: Parts,
    /// Where the guest's kernel was told of them, and nobody looked on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exits: Option<Exits>,
    /// In the order in which they began; what the guest's kernel was told comes first.
    pub events: Vec<Event>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    #[serde(flatten)]
    pub source: Source,
    pub ns: u64,
}

/// What the ways there and back take outside all tracepoints, in ns: the median of what is nobody's
/// in gaps that are one such event and nothing else, where there are some.  A thread seldom comes
/// alone, nor does an exit where it brings a virtual tick: else it is the median of what is
/// nobody's in gaps with one thread or exit, less what is usual of all else in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Edges {
    /// Out of the guest.
    pub exit: Option<u64>,
    /// Into an interrupt or a softirq.
    pub interrupt: Option<u64>,
    /// To another thread.
    pub thread: Option<u64>,
    /// To the scheduler, which stays with osnoise.
    pub scheduler: Option<u64>,
}

/// So many gaps tell what is usual.
const SOME: usize = 3;

impl Edges {
    fn of(entries: &[Entry]) -> Edges {
        let median = |mut rests: Vec<u64>| {
            rests.sort_unstable();
            rests.get(rests.len() / 2).copied().filter(|_| rests.len() >= SOME)
        };
        let alone = |is: &dyn Fn(&Source) -> bool| {
            let alone = |entry: &&Entry| matches!(&entry.events[..], [one] if is(&one.source));
            median(entries.iter().filter(alone).map(|entry| entry.parts.rest).collect())
        };
        let mut edges = Edges {
            exit: alone(&is_usual_exit),
            interrupt: alone(&|source| {
                matches!(source, Source::Guest { kind: Kind::Nmi | Kind::Irq | Kind::Softirq, .. })
            }),
            thread: alone(&is_thread),
            scheduler: alone(&is_scheduler),
        };
        let with_one = |edges: &Edges, is: fn(&Source) -> bool| {
            let left = |entry: &Entry| {
                let (its, others): (Vec<Event>, Vec<Event>) =
                    entry.events.iter().cloned().partition(|event| is(&event.source));
                (its.len() == 1).then(|| entry.parts.rest.saturating_sub(edges.usual(&others)))
            };
            median(entries.iter().filter_map(left).collect())
        };
        edges.exit = edges.exit.or_else(|| with_one(&edges, is_usual_exit));
        edges.thread = edges.thread.or_else(|| with_one(&edges, is_thread));
        edges
    }

    /// How much of a gap with these events may be nobody's; osnoise's own loop is part of it.
    fn allowed(&self, events: &[Event]) -> u64 {
        OSNOISE_THRESHOLD + self.usual(events)
    }

    fn usual(&self, events: &[Event]) -> u64 {
        let edge = |event: &Event| {
            let (measured, edges) = match event.source {
                // To the thread and back, each time by way of the scheduler: both take longer than
                // the way into an interrupt.
                Source::Guest { kind: Kind::Thread, .. } => {
                    (self.thread.max(self.scheduler.map(|ns| 2 * ns)), 3)
                }
                Source::Guest { kind: Kind::Scheduler, .. } => (self.scheduler, 2),
                // They begin where the interrupt ends.
                _ if is_instant_way_out(&event.source) => return 0,
                Source::Guest { .. } => (self.interrupt, 1),
                Source::Exit { .. } | Source::Exits { .. } => (self.exit, 1),
                // Part of an exit.
                _ => return 0,
            };
            measured.unwrap_or(0).max(edges * OSNOISE_THRESHOLD)
        };
        let seen = events.iter().filter(|event| event.ns > 0 || is_scheduler(&event.source));
        seen.map(edge).sum()
    }
}

fn is_exit(source: &Source) -> bool {
    matches!(source, Source::Exit { .. } | Source::Exits { .. })
}

/// What an NMI of the host's takes is not what an exit usually takes.
fn is_usual_exit(source: &Source) -> bool {
    is_exit(source) && !is_nmi(source)
}

/// For an NMI of the host's, as KVM names it on AMD.
fn is_nmi(source: &Source) -> bool {
    matches!(source, Source::Exit { reason, .. } if reason == "nmi")
}

fn is_thread(source: &Source) -> bool {
    matches!(source, Source::Guest { kind: Kind::Thread, .. })
}

fn is_way_out(source: &Source) -> bool {
    matches!(source, Source::Guest { kind: Kind::Irq, name } if recording::is_way_out(name))
}

/// Of which only the end is known.
fn is_instant_way_out(source: &Source) -> bool {
    is_way_out(source)
        && !matches!(source, Source::Guest { name, .. } if name == TICK_NOHZ_IRQ_EXIT)
}

fn is_scheduler(source: &Source) -> bool {
    matches!(source, Source::Guest { kind: Kind::Scheduler, .. })
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ledger {
    /// For how long it was recorded.
    pub window_ns: u64,
    /// None: osnoise sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<SamplingProgram>,
    /// Whether steal is told apart, by the host, or by the guest's own clock of it.
    pub has_steal: bool,
    pub edges: Edges,
    pub entries: Vec<Entry>,
}

impl Ledger {
    pub fn parts(&self) -> Parts {
        let mut sum = Parts::default();
        self.entries.iter().for_each(|entry| sum.add(&entry.parts));
        sum
    }

    pub fn noise_ns(&self) -> u64 {
        self.entries.iter().map(|entry| entry.ns).sum()
    }

    pub fn cpus(&self) -> usize {
        let mut cpus: Vec<u32> = self.entries.iter().map(|entry| entry.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus.len()
    }

    /// The exits in its gaps, where the guest's kernel was told of them.
    pub fn exits(&self) -> Option<Exits> {
        let told = self.entries.iter().filter_map(|entry| entry.exits);
        told.reduce(|mut sum, exits| {
            sum.add(&exits);
            sum
        })
    }

    /// Gaps of which some time is nobody's.
    pub fn unexplained(&self) -> usize {
        let is = |entry: &&Entry| entry.events.iter().any(|e| e.source == Source::Unexplained);
        self.entries.iter().filter(is).count()
    }
}

/// Explains each gap of a guest by what it knows itself and, if there is one, by what its host
/// knows: `process` is its VMM's.  Without a host, by what that told the guest's kernel.
pub fn ledger(guest: &GuestNoise, host: Option<(&HostNoise, u32)>) -> Ledger {
    let window_ns = guest.end_ns.saturating_sub(guest.begin_ns);
    let mut entries = Vec::with_capacity(guest.gaps.len());
    let mut told = Vec::with_capacity(guest.gaps.len());
    let mut cpus: Vec<u32> = guest.gaps.iter().map(|gap| gap.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    for cpu in cpus {
        let away =
            host.map_or(Vec::new(), |(host, process)| absences(&guest.clock, host, process, cpu));
        for gap in guest.gaps.iter().filter(|gap| gap.cpu == cpu) {
            let mut entry = entry_since(gap, gap.written_ns, &away);
            if entry.parts.sum() > gap.ns {
                entry = entry_since(gap, 0, &away);
            }
            entries.push(match (host, gap.told, gap.stolen_ns) {
                (None, Some(told), _) => split(entry, told),
                (None, None, Some(ns)) => without_steal(entry, ns),
                _ => entry,
            });
            told.push(gap.told);
        }
    }
    let explained = |entry: &Entry| host.is_some() || entry.exits.is_some();
    let edges = match entries.iter().any(explained) {
        true => Edges::of(&entries),
        false => Edges::default(),
    };
    for (entry, told) in entries.iter_mut().zip(told) {
        let edges = explained(entry).then_some(&edges);
        if let (Some(edges), Some(told), true) = (edges, told, host.is_some()) {
            add_told(entry, edges, &told);
        }
        settle(entry, edges);
    }
    entries.sort_by_key(|entry| (entry.begin_ns, entry.cpu));
    let has_steal = host.is_some()
        || guest.gaps.iter().any(|gap| gap.told.is_some() || gap.stolen_ns.is_some());
    Ledger { window_ns, program: guest.program, has_steal, edges, entries }
}

/// With what came since so many ns before the gap.
fn entry_since(gap: &Gap, before_ns: u64, away: &[Away]) -> Entry {
    let begin = gap.begin_ns.saturating_sub(before_ns) as i64;
    let end = (gap.begin_ns + gap.ns) as i64;
    // Absences follow each other: those that end in or after the gap, until it is over.
    let away = &away[away.partition_point(|away| away.end <= begin)..];
    let away = &away[..away.partition_point(|away| away.begin < end)];
    let clip = |from: i64, to: i64| (from.clamp(begin, end), to.clamp(begin, end));
    let mut parts = Parts::default();
    let mut events: Vec<(i64, Event)> = Vec::new();
    // What is taken already: the host first, then the guest from the innermost on.
    let mut taken: Vec<(i64, i64)> = Vec::new();
    for away in away {
        let (from, to) = clip(away.begin, away.end);
        let cut = away.absence.ns - (to - from) as u64;
        parts.absent(away.absence, cut);
        let event = |(source, ns)| (from, Event { source, ns });
        events.extend(sources(away.absence, cut).into_iter().map(event));
        taken.push((from, to));
    }
    let mut inner: Vec<&Disturbance> = gap.disturbances.iter().collect();
    // Of two of one kind, the one that began later is the inner one.
    inner.sort_by_key(|one| (one.kind, std::cmp::Reverse(one.begin_ns)));
    let switched = gap.disturbances.iter().any(|one| one.kind == Kind::Thread);
    for one in inner {
        // A switch to another thread begins with a look for it.
        if one.kind == Kind::Scheduler && switched {
            continue;
        }
        let (from, to) = clip(one.begin_ns as i64, one.end_ns as i64);
        let ns = take(&mut taken, from, to);
        *parts.of(one.kind) += ns;
        let source = Source::Guest { kind: one.kind, name: one.name.clone() };
        events.push((from, Event { source, ns }));
    }
    // On the way out while osnoise wrote: its kernel takes that for the writing.
    let mut excess = parts.sum().saturating_sub(gap.ns);
    for (_, event) in events.iter_mut().filter(|(_, event)| is_way_out(&event.source)) {
        let less = event.ns.min(excess);
        event.ns -= less;
        parts.irq -= less;
        excess -= less;
    }
    parts.rest = gap.ns.saturating_sub(parts.sum());
    events.sort_by_key(|(at, _)| *at);
    Entry {
        cpu: gap.cpu,
        begin_ns: gap.begin_ns,
        ns: gap.ns,
        unknown_to_guest: gap.interference == 0,
        parts,
        exits: None,
        events: events.into_iter().map(|(_, event)| event).collect(),
    }
}

/// The same by what the guest's kernel was told.  That is not told for each of several interrupts
/// or threads in one gap: what is left of them is shared by their lengths.
fn split(mut entry: Entry, told: Told) -> Entry {
    let mut parts = told.parts;
    for kind in [Kind::Nmi, Kind::Irq, Kind::Softirq, Kind::Thread] {
        let is_its = |event: &&mut Event| {
            matches!(event.source, Source::Guest { kind: its, .. } if its == kind)
                && !is_way_out(&event.source)
        };
        let ns = *parts.of(kind);
        let lengths = entry.events.iter_mut().filter(is_its).map(|event| &mut event.ns);
        if !share(ns, lengths.collect()) {
            let source = Source::Guest { kind, name: "unnamed".into() };
            entry.events.push(Event { source, ns });
        }
    }
    // The kernel itself does not tell it apart from the rest.
    for event in entry.events.iter_mut().filter(|event| is_way_out(&event.source)) {
        event.ns = event.ns.min(parts.rest);
        parts.irq += event.ns;
        parts.rest -= event.ns;
    }
    let causes = told.exits.by_cause().into_iter().filter(|(_, count)| *count > 0);
    let causes = causes.map(|(cause, _)| cause).collect();
    let outside = [
        (Source::Exits { causes }, parts.kvm + parts.interrupted),
        (Source::Away { place: Place::Vmm }, parts.vmm),
        (Source::Away { place: Place::Steal }, parts.waited),
        (Source::Away { place: Place::Blocked }, parts.blocked),
    ];
    let outside = outside.into_iter().filter(|(_, ns)| *ns > 0);
    entry.events.splice(0..0, outside.map(|(source, ns)| Event { source, ns }));
    Entry { parts, exits: Some(told.exits), ..entry }
}

/// The same where the guest's kernel has a clock of steal: that is taken from what is nobody's, and
/// then from the longest, in which the vCPU must have been away.
fn without_steal(mut entry: Entry, stolen_ns: u64) -> Entry {
    let stolen = stolen_ns.min(entry.ns);
    let mut left = stolen - stolen.min(entry.parts.rest);
    entry.parts.rest -= stolen - left;
    let mut longest: Vec<&mut Event> = entry.events.iter_mut().collect();
    longest.sort_by_key(|event| std::cmp::Reverse(event.ns));
    for event in longest {
        let Source::Guest { kind, .. } = event.source else { continue };
        let less = left.min(event.ns);
        event.ns -= less;
        *entry.parts.of(kind) -= less;
        left -= less;
    }
    entry.parts.waited += stolen - left;
    if entry.parts.waited > 0 {
        let source = Source::Away { place: Place::Steal };
        entry.events.insert(0, Event { source, ns: entry.parts.waited });
    }
    entry
}

/// Gives an exit for an NMI of the host's what would be unexplained, as far as the guest's kernel
/// was told of it.  On AMD an NMI is handled after the record begins and before `kvm_exit`, where
/// the host's absence begins (svm_vcpu_run(), arch/x86/kvm/svm/svm.c).
fn add_told(entry: &mut Entry, edges: &Edges, told: &Told) {
    if entry.parts.rest <= edges.allowed(&entry.events) {
        return;
    }
    let seen = entry.events.iter().filter(|event| is_exit(&event.source)).count();
    // Else the record is of other exits than the trace.
    if told.exits.all() != seen as u64 {
        return;
    }
    let ways_out = entry.events.iter().filter(|event| is_way_out(&event.source));
    // The record's rest has them, too.
    let nobody_s = told.parts.rest.saturating_sub(ways_out.map(|event| event.ns).sum());
    let kvm_s = |parts: &Parts| parts.kvm + parts.interrupted;
    let more = kvm_s(&told.parts).saturating_sub(kvm_s(&entry.parts));
    let ns = more.min(entry.parts.rest.saturating_sub(nobody_s));
    let mut nmis = entry.events.iter_mut().filter(|event| is_nmi(&event.source));
    if let (Some(nmi), None) = (nmis.next(), nmis.next()) {
        nmi.ns += ns;
        entry.parts.kvm += ns;
        entry.parts.rest -= ns;
    }
}

/// Makes the sum of these `ns`, by how long they were; false if there is nobody to take it.
fn share(ns: u64, mut lengths: Vec<&mut u64>) -> bool {
    let all: u64 = lengths.iter().map(|length| **length).sum();
    let mut left = ns;
    for length in &mut lengths {
        let its = u128::from(**length) * u128::from(ns);
        **length = its.checked_div(all.into()).unwrap_or(0) as u64;
        left -= **length;
    }
    match lengths.first_mut() {
        Some(first) => **first += left,
        None => return left == 0,
    }
    true
}

/// How much of a span was not taken yet; now it is.
fn take(taken: &mut Vec<(i64, i64)>, from: i64, to: i64) -> u64 {
    taken.sort_unstable();
    let (mut free, mut at) = (0, from);
    for (begin, end) in taken.iter().copied() {
        if begin >= to {
            break;
        }
        free += (begin - at).max(0);
        at = at.max(end);
    }
    free += (to - at).max(0);
    taken.push((from, to));
    free as u64
}

/// Says what the rest is: edges, or something that nobody knows.
fn settle(entry: &mut Entry, edges: Option<&Edges>) {
    let ns = entry.parts.rest;
    if ns == 0 {
        return;
    }
    let source = match edges {
        None => Source::Outside,
        Some(edges) if ns <= edges.allowed(&entry.events) => Source::Edges,
        Some(_) => Source::Unexplained,
    };
    entry.events.push(Event { source, ns });
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
