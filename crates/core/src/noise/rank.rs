// SPDX-License-Identifier: GPL-2.0-only
//! What noise comes from, and what can be done about it.

use super::{
    knob::Knob,
    recording::{is_tick, is_way_out, Absence, Kind, TICK_DEFER_IRQ_EXIT},
};
use crate::cause::Cause;
use serde::Serialize;
use std::{collections::BTreeMap, fmt};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case", tag = "of")]
pub enum Source {
    /// KVM, with the host's interrupts that came meanwhile.
    Exit {
        cause: Cause,
        reason: String,
        /// It was for the guest's tick.
        tick: bool,
    },
    /// The VMM, which KVM had to ask.
    Vmm { cause: Cause, reason: String },
    /// The vCPU's thread slept.
    Blocked { cause: Cause, reason: String },
    /// Another task of the host ran on the vCPU's pCPU.
    Preempted { by: String },
    /// The thread could have run, and its pCPU idled: a cgroup's quota was used up.
    Held,
    /// The vCPU's thread was woken, and nobody was in its way: the pCPU came out of idle.
    Waking,
    /// The exits of a gap, as the guest's kernel was told: how long each took was not.
    Exits { causes: Vec<Cause> },
    /// The same of the time outside of KVM.
    Away { place: Place },
    /// The guest itself.
    Guest { kind: Kind, name: String },
    /// What no tracepoint sees: the world switches, the way into and out of interrupts, and
    /// osnoise's own loop.
    Edges,
    /// Exits, steal and hardware, which only the host could tell apart.
    Outside,
    /// More than that: nobody knows of it.  Hardware, firmware, or an instrument's error.
    Unexplained,
}

/// Where a vCPU was, as a guest is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Place {
    #[serde(rename = "VMM")]
    #[strum(serialize = "VMM")]
    Vmm,
    Blocked,
    Steal,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Source::Exit { cause, reason, tick } => {
                let tick = if *tick { ", its tick" } else { "" };
                write!(f, "exit: {cause} ({reason}{tick})")
            }
            Source::Vmm { cause, reason } => write!(f, "VMM: {cause} ({reason})"),
            Source::Blocked { cause, reason } => write!(f, "blocked: {cause} ({reason})"),
            Source::Preempted { by } => write!(f, "preempted by {by}"),
            Source::Held => f.write_str("held back (quota)"),
            Source::Waking => f.write_str("waking up"),
            Source::Exits { causes } => {
                let causes: Vec<&str> = causes.iter().map(|cause| cause.name()).collect();
                write!(f, "exits: {}", causes.join(" + "))
            }
            Source::Away { place } => place.fmt(f),
            Source::Guest { kind, name } => write!(f, "guest's {kind}: {name}"),
            Source::Edges => f.write_str("switches between contexts"),
            Source::Outside => f.write_str("outside of the guest"),
            Source::Unexplained => f.write_str("unexplained"),
        }
    }
}

impl Source {
    /// The knob that ends it.  One knob may end several sources.
    pub fn knob(&self) -> Option<Knob> {
        Some(match self {
            Source::Exit { cause, reason, tick } => return of_exit(*cause, reason, *tick),
            // Of osnoise, which never sleeps, and as its kernel knows them.
            Source::Exits { causes } => {
                let (first, others) = causes.split_first()?;
                let knob = of_exits(*first)?;
                return others.iter().all(|cause| of_exits(*cause) == Some(knob)).then_some(knob);
            }
            Source::Vmm { cause, reason } if is_old_clock(*cause, reason) => Knob::GuestClock,
            Source::Away { place: Place::Steal } => Knob::HostTasks,
            // KVM's own thread for it.
            Source::Preempted { by } if by.starts_with("kvm-pit") => Knob::GuestClock,
            Source::Preempted { by } if is_bound(by) => return None,
            Source::Preempted { by } if by.starts_with("kworker") => Knob::HostWorkers,
            Source::Preempted { .. } => Knob::HostTasks,
            Source::Guest { kind: Kind::Irq, name }
                if is_tick(name) || name == TICK_DEFER_IRQ_EXIT =>
            {
                Knob::GuestTicks
            }
            // The CPU is one of nohz_full already, or who is woken has a knob of its own.
            Source::Guest { kind: Kind::Irq, name } if is_way_out(name) => return None,
            Source::Guest { kind: Kind::Irq, name } if is_of_cpus(name) => return None,
            Source::Guest { kind: Kind::Irq, .. } => Knob::GuestInterrupts,
            Source::Guest { kind: Kind::Thread, name } if is_bound(name) => return None,
            Source::Guest { kind: Kind::Thread, .. } => Knob::GuestThreads,
            Source::Held => Knob::Quota,
            Source::Waking => Knob::HaltPolling,
            Source::Vmm { .. }
            | Source::Away { place: Place::Vmm }
            | Source::Blocked { .. }
            | Source::Away { place: Place::Blocked }
            | Source::Guest { kind: Kind::Nmi | Kind::Softirq | Kind::Scheduler, .. }
            | Source::Edges
            | Source::Outside
            | Source::Unexplained => return None,
        })
    }

    /// What else would do.
    pub fn alternative(&self) -> Option<&'static str> {
        match self {
            // The series knows the APIC's timer alone.
            Source::Exit { reason, .. } if OF_OTHERS.iter().any(|one| reason.starts_with(one)) => {
                None
            }
            Source::Exit { .. } | Source::Exits { .. } if self.knob() == Some(Knob::GuestTicks) => {
                Some("boot in paratick")
            }
            Source::Preempted { .. } if self.knob() == Some(Knob::HostWorkers) => {
                Some("isolcpus=domain,…")
            }
            _ => None,
        }
    }
}

/// Timers of Hyper-V's and Xen's interfaces.
const OF_OTHERS: [&str; 4] = ["HV_STIMER", "stimer_timer_callback", "Xen", "xen_timer_callback"];

/// Only what surely ends it: of a program's timer none does, nor of a device that the guest asks.
fn of_exit(cause: Cause, about: &str, tick: bool) -> Option<Knob> {
    match cause {
        _ if is_old_clock(cause, about) => Some(Knob::GuestClock),
        Cause::Arm | Cause::Stop | Cause::Expiry => tick.then_some(Knob::GuestTicks),
        Cause::HostTimer => (about == "hrtick").then_some(Knob::HostSlices),
        Cause::Io => is_interrupt(about).then_some(Knob::HostDevices),
        // One that another CPU sent still comes.
        Cause::Ipi => (!is_interrupt(about)).then_some(Knob::GuestIpis),
        _ => of_exits(cause),
    }
}

/// Of exits by their cause alone.
fn of_exits(cause: Cause) -> Option<Knob> {
    match cause {
        Cause::Arm | Cause::Stop | Cause::Expiry => Some(Knob::GuestTicks),
        Cause::HostTick => Some(Knob::HostTicks),
        Cause::HostTimer
        | Cause::Ipi
        | Cause::Halt
        | Cause::Eoi
        | Cause::Clock
        | Cause::Io
        | Cause::Nested
        | Cause::Other => None,
    }
}

/// A thread of the kernel's for one CPU, such as `kworker/1:0`: it works for what runs there.
fn is_bound(name: &str) -> bool {
    let cpu = name.rsplit_once('/').map(|(_, cpu)| cpu);
    cpu.is_some_and(|cpu| cpu.starts_with(|c: char| c.is_ascii_digit()))
}

/// Of no device: CPUs send them to each other and to themselves.  osnoise's names for them are cut
/// after 16 characters.
fn is_of_cpus(name: &str) -> bool {
    ["reschedule", "call_function", "irq_work"].iter().any(|one| name.starts_with(one))
}

/// A device that is armed or read by several exits each time, some of them in the VMM.  The time of
/// the RTC, and a PC's settings beside it, are read by programs.
fn is_old_clock(cause: Cause, about: &str) -> bool {
    let is = |names: &[&str]| names.iter().any(|one| about.starts_with(one));
    is(&["PIT,", "HPET,", "PM timer,", "pit_timer_fn"])
        || is(&["RTC,"]) && matches!(cause, Cause::Arm | Cause::Eoi)
}

/// As KVM names an exit for an interrupt of the host's.
fn is_interrupt(reason: &str) -> bool {
    matches!(reason, "interrupt" | "EXTERNAL_INTERRUPT")
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rank {
    pub source: Source,
    pub count: u64,
    pub total_ns: u64,
    pub longest_ns: u64,
}

/// The sums of each source, the costliest first.
pub fn by_source(events: impl IntoIterator<Item = (Source, u64)>) -> Vec<Rank> {
    let mut ranks: BTreeMap<Source, Rank> = BTreeMap::new();
    for (source, ns) in events {
        let fresh = || Rank { source: source.clone(), count: 0, total_ns: 0, longest_ns: 0 };
        let rank = ranks.entry(source.clone()).or_insert_with(fresh);
        rank.count += 1;
        rank.total_ns += ns;
        rank.longest_ns = rank.longest_ns.max(ns);
    }
    let mut ranks: Vec<Rank> = ranks.into_values().collect();
    ranks.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.source.cmp(&b.source)));
    ranks
}

/// What a vCPU's absence comes from; `cut` ns of it are not to be counted.
///
/// Where the clocks of guest and host disagree by some ns, KVM's own part is cut first.
pub(super) fn sources(absence: &Absence, cut: u64) -> Vec<(Source, u64)> {
    let (cause, reason) = (absence.cause, absence.words());
    let waited = match &absence.taker {
        _ if absence.held => Source::Held,
        Some(by) => Source::Preempted { by: by.clone() },
        None => Source::Waking,
    };
    let parts = [
        (
            Source::Exit { cause, reason: reason.clone(), tick: absence.tick },
            absence.kvm_ns + absence.interrupted_ns,
        ),
        (Source::Vmm { cause, reason: reason.clone() }, absence.vmm_ns),
        (waited, absence.waited_ns),
        (Source::Blocked { cause, reason: reason.clone() }, absence.blocked_ns),
    ];
    let mut cut = cut;
    let left = |(source, ns): (Source, u64)| {
        let less = ns.min(cut);
        cut -= less;
        (source, ns - less)
    };
    parts.into_iter().map(left).filter(|(_, ns)| *ns > 0).collect()
}

/// What all exits of a host come from.  A vCPU that has nothing to do loses nothing while it is
/// blocked, or while KVM polls for it; only when it is late to come back.
pub fn host_sources<'a>(absences: impl IntoIterator<Item = &'a Absence>) -> Vec<Rank> {
    let idle = |source: &Source| {
        matches!(
            source,
            Source::Blocked { cause: Cause::Halt, .. } | Source::Exit { cause: Cause::Halt, .. }
        )
    };
    let all = absences.into_iter().flat_map(|absence| sources(absence, 0));
    by_source(all.filter(|(source, _)| !idle(source)))
}
