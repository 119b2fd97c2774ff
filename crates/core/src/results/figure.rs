// SPDX-License-Identifier: GPL-2.0-only
//! The figures of a sample: one definition for summaries, comparisons, tables and docs.

use super::sample::Sample;
use crate::cause::Cause;
use std::{fmt, str::FromStr};
use strum::{EnumIter, IntoEnumIterator, IntoStaticStr};

/// One number of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Figure {
    Exits,
    ExitsPerUnit,
    /// Exits of all causes that a tick technique could have removed.
    TimerExits,
    /// Exits of one cause; there is no figure of this name alone.
    #[strum(disabled)]
    Cause(Cause),
    TscDeadlineWrites,
    TicksDelivered,
    WorldSwitches,
    HostInstructions,
    GuestInstructions,
    /// Of host and guest.
    Instructions,
    /// Of host and guest, in a second on the host's clock.
    InstructionsPerS,
    HostCycles,
    GuestCycles,
    /// Of host and guest.
    Cycles,
    /// What the host's CPUs spent, world switches included: the inverse of system throughput.
    CpuNs,
    DurationNs,
    GuestDurationNs,
    UserNs,
    SystemNs,
    IdleNs,
}

const TSC_DEADLINE: &str = "TSC_DEADLINE";

impl Figure {
    /// Those in which modes are compared.
    pub const COMPARED: [Figure; 7] = [
        Figure::Exits,
        Figure::TimerExits,
        Figure::TscDeadlineWrites,
        Figure::Instructions,
        Figure::Cycles,
        Figure::CpuNs,
        Figure::DurationNs,
    ];

    pub fn all() -> impl Iterator<Item = Figure> {
        let causes = Cause::ALL.into_iter().map(Figure::Cause);
        Self::iter().chain(causes)
    }

    /// Its value in a sample that did `work` units; none where it was not measured.
    pub fn of(self, sample: &Sample, work: u64) -> Option<f64> {
        let exits = sample.exits.as_ref();
        let count = match self {
            Figure::Exits => exits.map(|exits| exits.total),
            Figure::ExitsPerUnit if work == 0 => None,
            Figure::ExitsPerUnit => return Some(exits?.total as f64 / work as f64),
            Figure::TimerExits => exits.map(|exits| {
                let timer = exits.by_cause.iter().filter(|(cause, _)| cause.is_timer());
                timer.map(|(_, count)| count).sum()
            }),
            Figure::Cause(cause) => exits.map(|exits| exits.cause(cause)),
            Figure::TscDeadlineWrites => {
                // Counted, and not there: none.
                let writes = exits.and_then(|exits| exits.msr_writes.as_ref());
                writes.map(|writes| writes.get(TSC_DEADLINE).copied().unwrap_or(0))
            }
            Figure::TicksDelivered => exits.and_then(|exits| exits.ticks_delivered),
            Figure::WorldSwitches => sample.world_switches,
            Figure::HostInstructions => sample.host_instructions,
            Figure::GuestInstructions => sample.guest_instructions,
            Figure::Instructions => sum(sample.host_instructions, sample.guest_instructions),
            Figure::InstructionsPerS => {
                let seconds = sample.duration_ns.filter(|ns| *ns > 0)? as f64 / 1e9;
                return Some(Figure::Instructions.of(sample, work)? / seconds);
            }
            Figure::HostCycles => sample.host_cycles,
            Figure::GuestCycles => sample.guest_cycles,
            Figure::Cycles => sum(sample.host_cycles, sample.guest_cycles),
            Figure::CpuNs => sample.cpu_ns,
            Figure::DurationNs => sample.duration_ns,
            Figure::GuestDurationNs => sample.guest_duration_ns,
            Figure::UserNs => sample.user_ns,
            Figure::SystemNs => sample.system_ns,
            Figure::IdleNs => sample.idle_ns,
        };
        count.map(|count| count as f64)
    }

    /// Its unit and its meaning; the docs' table of figures is made of it.
    pub fn about(self) -> (&'static str, &'static str) {
        match self {
            Figure::Exits => ("exits", "VM exits of all vCPUs"),
            Figure::ExitsPerUnit => ("exits", "`exits` / `work`"),
            Figure::TimerExits => ("exits", "those that a tick technique could have removed"),
            Figure::TscDeadlineWrites => ("exits", "for writes of the guest's timer register"),
            Figure::TicksDelivered => ("ticks", "virtual ticks that the host delivered"),
            Figure::WorldSwitches => ("switches", "#VMEXITs that the emulator counted"),
            Figure::HostInstructions => ("instructions", "executed by the host"),
            Figure::GuestInstructions => ("instructions", "executed by guests"),
            Figure::Instructions => ("instructions", "of host and guests together"),
            Figure::InstructionsPerS => {
                ("instructions", "`instructions` in a second of `duration_ns`")
            }
            Figure::HostCycles => ("cycles", "of the host, by the PMU of the machine"),
            Figure::GuestCycles => ("cycles", "of guests, by the PMU of the machine"),
            Figure::Cycles => ("cycles", "of host and guests together"),
            Figure::CpuNs => ("ns", "what the host's CPUs spent: the inverse of throughput"),
            Figure::DurationNs => ("ns", "between the marks, on the host's clock"),
            Figure::GuestDurationNs => ("ns", "the same on the guest's own clock"),
            Figure::UserNs => ("ns", "time of the vCPUs in user mode"),
            Figure::SystemNs => ("ns", "time of the vCPUs in the kernel"),
            Figure::IdleNs => ("ns", "idle time of the vCPUs"),
            Figure::Cause(cause) => ("exits", cause.about()),
        }
    }
}

fn sum(host: Option<u64>, guest: Option<u64>) -> Option<u64> {
    host.zip(guest).map(|(host, guest)| host + guest)
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Figure::Cause(cause) => write!(f, "exits_{}", cause.name().replace('-', "_")),
            plain => f.write_str(plain.into()),
        }
    }
}

impl FromStr for Figure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Figure::all()
            .find(|figure| figure.to_string() == text)
            .ok_or_else(|| format!("no figure '{text}'"))
    }
}

crate::serde_as_text!(Figure);
