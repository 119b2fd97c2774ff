// SPDX-License-Identifier: GPL-2.0-only
//! From the events of all threads to exits by VM, vCPU and cause.  Pure.

use super::{
    formats::{Formats, ENTRY, EXIT},
    lives::Lives,
};
use paratick_core::{
    cause::Cause,
    observed::{Exits, Kind, Observed, Spent, Vm, SCHEMA},
};
use paratick_instruments::{
    facts::{
        self, explain,
        raw::{
            Arguments, Thread, FACT_HV_CALL, FACT_HYPERCALL, FACT_NESTED, FACT_REFLECTED,
            FACT_XEN_CALL,
        },
    },
    Format,
};
use std::collections::{BTreeMap, HashMap};

/// Events without which less is known, and what.
const TELLING: [(&str, &str); 5] = [
    ("kvm_msr", "which register an MSR exit was for"),
    ("kvm_hypercall", "which hypercall it was"),
    ("kvm_mmio", "which address of memory-mapped I/O"),
    ("kvm_pio", "what a port of a timer was told"),
    ("kvm_apic", "whether an APIC's timer was armed or stopped"),
];

/// `enum kvm_mmio_type` and KVM_PIO_OUT, as in bpf/note.h.
const MMIO_WRITE: u64 = 2;
const PIO_OUT: u64 = 1;

/// The reason of an exit whose record cannot be read.
pub const UNREAD: &str = "a record that cannot be read";
pub const NO_ENTRY: &str = "Not recorded: kvm_entry, so no exit has a time.";

pub struct Event<'a> {
    pub at_ns: Option<u64>,
    pub process: Option<u32>,
    pub thread: Option<u32>,
    /// What the tracepoint wrote.
    pub data: &'a [u8],
}

/// What an exit is counted by: `None` is one whose record cannot be read.
type Key = (u32, u32, Option<(u32, u32, u64, u32)>);

/// A process and its thread: the kernel gives a thread's number to others later.
type Who = (u32, u32);

#[derive(Default)]
struct Vcpu {
    number: u32,
    noted: Thread,
    /// When the exit was that has no entry yet.
    since_ns: Option<u64>,
    is_out: bool,
}

pub struct Gather<'a> {
    formats: &'a Formats,
    /// By process and thread.
    threads: HashMap<Who, Vcpu>,
    /// Of each thread the last record, and its attribute's place; where some may come again.
    last: HashMap<Who, (usize, Vec<u8>)>,
    exits: BTreeMap<Key, Spent>,
    lives: Lives,
    began_ns: Option<u64>,
    ended_ns: u64,
    unread: u64,
    lost: u64,
    lost_samples: u64,
    has_entries: bool,
}

impl Gather<'_> {
    pub fn of(formats: &Formats) -> Gather<'_> {
        Gather {
            formats,
            threads: HashMap::new(),
            last: HashMap::new(),
            exits: BTreeMap::new(),
            lives: Lives::default(),
            began_ns: None,
            ended_ns: 0,
            unread: 0,
            lost: 0,
            lost_samples: 0,
            has_entries: false,
        }
    }

    /// Events that perf had no room for, on some CPU: an entry may be among them.  An exit before
    /// them has none, then: its thread may have been on any CPU meanwhile.
    pub fn lose(&mut self, events: u64) {
        self.lost = self.lost.saturating_add(events);
        self.leave_all();
    }

    /// The same at the end of the file, from perf 6.1 and Linux 6.0 on: by tracepoint, of all the
    /// time.  The kernel counts a loss for the buffer, which `lose` tells as soon as there is room
    /// again, and for the event (`__perf_output_begin()`).  So these have all losses in them, but
    /// for perfs that are older or were killed, and the larger sum is what was lost.
    pub fn lose_samples(&mut self, events: u64) {
        self.lost_samples = self.lost_samples.saturating_add(events);
    }

    pub fn cannot_read(&mut self) {
        self.unread += 1;
    }

    pub fn has_entries(&self) -> bool {
        self.has_entries
    }

    /// perf recorded at this time.
    pub fn see(&mut self, at_ns: u64) {
        self.began_ns = Some(self.began_ns.map_or(at_ns, |began_ns| began_ns.min(at_ns)));
        self.ended_ns = self.ended_ns.max(at_ns);
    }

    /// A process begins.
    pub fn begin(&mut self, process: u32, at_ns: u64) {
        self.see_on(at_ns);
        self.lives.begin(process, at_ns, self.began_ns.unwrap_or(at_ns));
    }

    /// perf tells of processes also while it gets ready or waits (`-D`): it does not record yet.
    fn see_on(&mut self, at_ns: u64) {
        if self.began_ns.is_some() {
            self.see(at_ns);
        }
    }

    /// A thread ends, and with its first one a process.
    pub fn end(&mut self, process: u32, thread: u32, at_ns: u64) {
        self.see_on(at_ns);
        self.leave((process, thread));
        if process == thread {
            self.lives.end(process, at_ns);
        }
    }

    /// The same pass of a tracepoint, by another attribute of it: they come one after the other.
    pub fn is_again(&mut self, place: usize, who: Option<Who>, data: &[u8]) -> bool {
        let Some(who) = who else { return false };
        if self.last.get(&who).is_some_and(|(other, last)| *other != place && last == data) {
            return true;
        }
        self.last.insert(who, (place, data.to_vec()));
        false
    }

    pub fn take(&mut self, event: &Event) {
        if let Some(at_ns) = event.at_ns {
            self.see(at_ns);
        }
        let Some(who) = event.process.zip(event.thread) else { return self.cannot_read() };
        match self.formats.find(event.data) {
            Some((EXIT, format)) => self.exit(event, format, who),
            Some((ENTRY, format)) => {
                self.has_entries = true;
                self.entry(event, format, who);
            }
            Some((name, format)) => {
                if let Some(vcpu) = self.threads.get_mut(&who).filter(|vcpu| vcpu.is_out) {
                    note(&mut vcpu.noted, name, format, event.data);
                }
            }
            // Of another subsystem, or cut off before it says which.
            None if event.data.len() < 2 => self.cannot_read(),
            None => {}
        }
    }

    fn exit(&mut self, event: &Event, format: &Format, who: Who) {
        self.leave(who);
        let field = |name| format.number(event.data, name);
        let number = |name| field(name).map(|number| number as u32);
        self.lives.acts(who.0, event.at_ns.unwrap_or(0));
        let vcpu = self.threads.entry(who).or_default();
        let read = || {
            let isa = number("isa")?;
            let arguments = Arguments {
                info1: field("info1")?,
                info2: field("info2")?,
                intr_info: field("intr_info")?,
            };
            Some((number("vcpu_id")?, isa, number("exit_reason")?, arguments))
        };
        let Some((id, isa, reason, arguments)) = read() else {
            self.exits.entry((who.0, vcpu.number, None)).or_default().count += 1;
            return;
        };
        vcpu.number = id;
        vcpu.noted.isa = isa;
        facts::note_exit(&mut vcpu.noted, reason, &arguments);
        (vcpu.since_ns, vcpu.is_out) = (event.at_ns, true);
    }

    fn entry(&mut self, event: &Event, format: &Format, who: Who) {
        let Some(vcpu) = self.threads.get_mut(&who).filter(|vcpu| vcpu.is_out) else { return };
        // A thread may run several vCPUs in turn.
        let entered = format.number(event.data, "vcpu_id");
        if entered.is_some_and(|entered| entered != u64::from(vcpu.number)) {
            return self.leave(who);
        }
        vcpu.is_out = false;
        let spent = self.exits.entry(key(who.0, vcpu)).or_default();
        spent.count += 1;
        if let Some((from, to)) = vcpu.since_ns.zip(event.at_ns) {
            let ns = to.saturating_sub(from);
            *spent.unplaced_ns.get_or_insert(0) += ns;
            spent.add_length(ns);
        }
    }

    /// The entry after its last exit was not seen.
    fn leave(&mut self, who: Who) {
        if let Some(vcpu) = self.threads.get_mut(&who).filter(|vcpu| vcpu.is_out) {
            vcpu.is_out = false;
            self.exits.entry(key(who.0, vcpu)).or_default().count += 1;
        }
    }

    fn leave_all(&mut self) {
        let threads: Vec<Who> = self.threads.keys().copied().collect();
        threads.into_iter().for_each(|who| self.leave(who));
    }

    /// None: there was no exit.  `early` is why the file was not read to its end.
    pub fn finish(mut self, early: Option<String>) -> Option<Observed> {
        self.leave_all();
        let (began_ns, ended_ns) = (self.began_ns?, self.ended_ns);
        let ns = ended_ns.saturating_sub(began_ns);
        let lacks = self.lacks(early);
        let mut kinds: BTreeMap<u32, BTreeMap<(u32, Kind), Spent>> = BTreeMap::new();
        for ((process, vcpu, what), mut spent) in self.exits {
            spent.unplaced_ns.get_or_insert(0);
            let kind = match what {
                Some((isa, reason, detail, facts)) => {
                    let explained = explain(isa, reason, detail, facts);
                    let about = explained.about.map(Into::into);
                    Kind { cause: explained.cause, reason: explained.reason.into(), about }
                }
                None => Kind { cause: Cause::Other, reason: UNREAD.into(), about: None },
            };
            *kinds.entry(process).or_default().entry((vcpu, kind)).or_default() += &spent;
        }
        let vm = |(process, kinds): (u32, BTreeMap<(u32, Kind), Spent>)| {
            let exits = kinds.into_iter().map(|((vcpu, kind), spent)| Exits { vcpu, kind, spent });
            let (name, exits) = (process.to_string(), exits.collect());
            let (ns, ended) = self.lives.of(process, began_ns, ended_ns);
            Vm { name, others: Vec::new(), process, ended, ns, lost: 0, exits }
        };
        let vms: Vec<Vm> = kinds.into_iter().map(vm).collect();
        (!vms.is_empty()).then(|| Observed {
            schema: SCHEMA.into(),
            ns,
            vms,
            earlier: 0,
            lost: 0,
            exits_by_kvm: None,
            vmm_end_unknown: false,
            host_hz: None,
            lacks,
        })
    }

    fn lacks(&self, early: Option<String>) -> Vec<String> {
        let mut lacks = vec![
            "Recorded by perf, which does not tell: what VMs are called, where the time of their \
             exits went, and what an interrupt was for that ended a guest's turn (`other`)."
                .to_string(),
        ];
        let is_missing = |event: &&(&str, &str)| self.formats.of(event.0).is_none();
        let missing: Vec<_> = TELLING.iter().filter(is_missing).collect();
        if !missing.is_empty() {
            let each = missing.iter().map(|(event, what)| format!("{event} ({what})"));
            lacks.push(format!("Not recorded: {}.", each.collect::<Vec<_>>().join(", ")));
        }
        if self.formats.of(ENTRY).is_none() {
            lacks.push(NO_ENTRY.into());
        }
        let lost = self.lost.max(self.lost_samples);
        if lost > 0 {
            let what = "exits may be missing, and times be too long";
            lacks.push(format!("perf lost {lost} events: {what}."));
        }
        if self.unread > 0 {
            lacks.push(format!("Records that cannot be read, of no known VM: {}.", self.unread));
        }
        if let Some(why) = early {
            lacks.push(format!("The file cannot be read to its end: {why}."));
        }
        lacks
    }
}

fn key(process: u32, vcpu: &Vcpu) -> Key {
    let noted = &vcpu.noted;
    (process, vcpu.number, Some((noted.isa, noted.reason, noted.detail, noted.facts)))
}

/// As bpf/told.h does.
fn note(noted: &mut Thread, event: &str, format: &Format, data: &[u8]) -> Option<()> {
    let field = |name| format.number(data, name);
    match event {
        "kvm_msr" if facts::awaits_msr(noted) => {
            facts::note_msr(noted, field("ecx")? as u32, field("data")?);
        }
        "kvm_hypercall" => facts::note_hypercall(noted, FACT_HYPERCALL, field("nr")?, 0),
        "kvm_hv_hypercall" => {
            facts::note_hypercall(noted, FACT_HV_CALL, field("code")? & 0xffff, 0);
        }
        "kvm_xen_hypercall" => {
            let (number, first) = (field("nr")?, field("a0")?);
            let what = (number & 0xff) | (first & 0xff) << 32;
            facts::note_hypercall(noted, FACT_XEN_CALL, what, first);
        }
        "kvm_mmio" => {
            let write = field("type")? == MMIO_WRITE;
            facts::note_mmio(noted, field("gpa")?, write.into());
        }
        "kvm_fast_mmio" => facts::note_mmio(noted, field("gpa")?, 1),
        "kvm_pio" if field("rw")? == PIO_OUT => {
            facts::note_out(noted, field("port")? as u32, field("val")? as u32 & 0xff);
        }
        "kvm_apic" => {
            let write = u32::from(field("rw")? != 0);
            facts::note_apic(noted, write, field("reg")? as u32, field("val")?);
        }
        "kvm_vmgexit_enter" => {
            let [reason, info1, info2] = ["exit_reason", "info1", "info2"].map(field);
            facts::note_vmgexit(noted, reason?, info1?, info2?);
        }
        "kvm_nested_vmexit" => noted.facts |= FACT_NESTED,
        "kvm_nested_vmexit_inject" if noted.facts & FACT_NESTED != 0 => {
            noted.facts |= FACT_REFLECTED;
        }
        _ => {}
    }
    Some(())
}
