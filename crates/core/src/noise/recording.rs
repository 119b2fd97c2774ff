// SPDX-License-Identifier: GPL-2.0-only
//! What was recorded of noise, on a host and in a guest.

use super::{clock::Clock, parts::Told};
use crate::{cause::Cause, vms::OfVms};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// In ns; osnoise takes no shorter gap for noise (kernel/trace/trace_osnoise.c).
pub const OSNOISE_THRESHOLD: u64 = 1_000;

/// A function of the guest's in which a nohz_full CPU stops or starts its tick, on its way out of
/// an interrupt.  It is told apart from that, as an IRQ of this name.
pub const TICK_NOHZ_IRQ_EXIT: &str = "tick_nohz_irq_exit";

/// Where a CPU with virtual ticks looks at its deadline, on the same way: a function of the series
/// `halt-until`.  Recorded if it writes the deadline, until it does.
pub const TICK_DEFER_IRQ_EXIT: &str = "tick_defer_irq_exit";

/// With PREEMPT_RT or `threadirqs`, an interrupt wakes threads on the same way.
pub const WAKE_UP: &str = "wake-up";

/// Whether it is on the way out of an interrupt, of which the kernel itself does not tell it apart.
pub fn is_way_out(name: &str) -> bool {
    [TICK_NOHZ_IRQ_EXIT, TICK_DEFER_IRQ_EXIT, WAKE_UP].contains(&name)
}

/// Whether the kernel names the interrupt of its own tick so, or of ours.
pub fn is_tick(name: &str) -> bool {
    !is_way_out(name) && (name.contains("tick") || name.contains("timer"))
}

/// A part of the recording, in which an emulator counts, too: exits as world switches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// Those with an absence are marked as audited; the others had not ended.
    pub exits: u64,
    /// None where no emulator counts.
    pub world_switches: Option<u64>,
    /// When the part began and ended, by the host's CLOCK_MONOTONIC; 0 in older recordings.
    #[serde(default)]
    pub begin_ns: u64,
    #[serde(default)]
    pub end_ns: u64,
    /// What each of the host's CPUs executed in guests, as the emulator counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guest_instructions: Vec<u64>,
}

/// What a guest's exits cost it, as its host saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostNoise {
    pub clock: Clock,
    /// Of the vCPUs of all VMs that still ran at the end.
    pub tsc_offsets: Vec<TscOffset>,
    /// How many exits there were just before the end; of each vCPU, the last may have no absence.
    pub exits: u64,
    /// How many of them found no room in the recording, by VM; the others are whole.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost: BTreeMap<u32, u64>,
    /// The same by KVM's own statistics, of all guests; none where they cannot be read.
    #[serde(default)]
    pub exits_by_kvm: Option<u64>,
    /// Who delivers interrupts without exits: AVIC or APICv.
    #[serde(default)]
    pub offload: Option<String>,
    /// Where the VMM's time could not be told from KVM's: `vmm_ns` then ends with the absence.
    pub vmm_end_unknown: bool,
    /// Of the exits in a part of the recording, if there were any.
    #[serde(default)]
    pub audit: Option<Audit>,
    /// What processes are called, of those that run a VM with a name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<u32, String>,
    /// Absences that kept a vCPU from less than this are not among them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub least_ns: u64,
    pub absences: Vec<Absence>,
}

impl HostNoise {
    /// Of a host that tells of each exit, without an independent count.
    pub fn whole(clock: Clock, tsc_offsets: Vec<TscOffset>, absences: Vec<Absence>) -> HostNoise {
        HostNoise {
            clock,
            tsc_offsets,
            exits: absences.len() as u64,
            lost: BTreeMap::new(),
            exits_by_kvm: None,
            offload: None,
            vmm_end_unknown: false,
            audit: None,
            names: BTreeMap::new(),
            least_ns: 0,
            absences,
        }
    }

    /// Whether all its times are times, and an absence's states no longer than the absence: nothing
    /// else can be reckoned with.
    pub fn is_sound(&self) -> bool {
        let mut absences = self.absences.iter();
        let is_whole = |one: &Absence| {
            let states =
                [one.kvm_ns, one.vmm_ns, one.blocked_ns, one.waited_ns, one.interrupted_ns];
            states
                .iter()
                .try_fold(0u64, |sum, ns| sum.checked_add(*ns))
                .is_some_and(|sum| sum <= one.ns)
        };
        self.clock.is_sound()
            && absences.all(|one| is_time((one.begin_ns, one.ns)) && is_whole(one))
    }

    /// For how long it was recorded.
    pub fn window_ns(&self) -> u64 {
        self.clock.end.ns.saturating_sub(self.clock.begin.ns)
    }

    /// By process.
    pub fn vms(&self) -> BTreeMap<u32, Vec<&Absence>> {
        let mut vms: BTreeMap<u32, Vec<&Absence>> = BTreeMap::new();
        for one in &self.absences {
            vms.entry(one.process).or_default().push(one);
        }
        vms
    }

    /// Leaves out absences that kept a vCPU from less.
    pub fn above(&mut self, least_ns: u64) {
        self.least_ns = self.least_ns.max(least_ns);
        self.absences.retain(|one| one.kept_ns() >= least_ns);
    }

    /// Why it is not all that there was.
    pub fn incomplete(&self) -> Option<String> {
        let each = self.lost.iter().map(|(vm, count)| match vm {
            0 => format!("{count} exits of further VMs"),
            vm => format!("{count} exits of VM {vm}"),
        });
        let all: Vec<String> = each.collect();
        (!all.is_empty()).then(|| format!("{} found no room in the recording", all.join(", ")))
    }

    /// How many of the audited exits had ended, by class.
    pub fn audited(&self, class: Class) -> u64 {
        let those = self.absences.iter().filter(|one| one.audited && one.class == class);
        those.count() as u64
    }
}

impl OfVms for HostNoise {
    fn vcpus(&self) -> BTreeSet<(u32, u32)> {
        let offsets = self.tsc_offsets.iter().map(|one| (one.process, one.vcpu));
        offsets.chain(self.absences.iter().map(|one| (one.process, one.vcpu))).collect()
    }

    fn only(&mut self, has: impl Fn(u32, u32) -> bool) {
        let seen = self.vcpus();
        let its = |process: u32| seen.iter().any(|(vm, vcpu)| *vm == process && has(*vm, *vcpu));
        self.lost.retain(|process, _| *process == 0 || its(*process));
        self.names.retain(|process, _| its(*process));
        self.tsc_offsets.retain(|one| has(one.process, one.vcpu));
        self.absences.retain(|one| has(one.process, one.vcpu));
    }

    fn names(&self) -> &BTreeMap<u32, String> {
        &self.names
    }

    fn set_names(&mut self, names: BTreeMap<u32, String>) {
        self.names = names;
    }
}

/// What a vCPU's TSC is ahead of its host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TscOffset {
    pub process: u32,
    pub vcpu: u32,
    pub offset: i64,
}

/// How far an exit went (thesis 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Class {
    /// KVM alone dealt with it.
    Light,
    /// It left KVM_RUN.
    Heavy,
    /// The vCPU had nothing to do.
    Halt,
}

/// A vCPU was out of its guest, from an exit to the next entry.
///
/// Its five parts add up to `ns`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absence {
    pub process: u32,
    pub vcpu: u32,
    /// The host's CLOCK_MONOTONIC.
    pub begin_ns: u64,
    pub ns: u64,
    pub kvm_ns: u64,
    pub vmm_ns: u64,
    pub blocked_ns: u64,
    /// It could have run, and another task did: steal.
    pub waited_ns: u64,
    /// The host's interrupts and softirqs in the vCPU's thread.
    pub interrupted_ns: u64,
    pub cause: Cause,
    /// As KVM names it.
    pub reason: String,
    /// What it was about, where more than the reason is known: an MSR, a port, a timer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// It was for the guest's tick ([`super::tick::mark`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tick: bool,
    pub class: Class,
    pub exit_cpu: u32,
    pub entry_cpu: u32,
    /// It was taken off its pCPU although nobody else was to run there: a quota was used up.
    pub held: bool,
    /// It is one of [`Audit::exits`].
    #[serde(default)]
    pub audited: bool,
    /// Who ran instead of it, last, in the longest of its waits.
    pub taker: Option<String>,
}

impl Absence {
    /// What it was kept from: neither sleep nor a poll for the end of a halt is that.
    pub fn kept_ns(&self) -> u64 {
        match self.class {
            Class::Halt => self.waited_ns + self.interrupted_ns,
            Class::Light | Class::Heavy => self.ns - self.blocked_ns,
        }
    }

    /// The best that is known of its exit, in few words.
    pub fn words(&self) -> &String {
        self.about.as_ref().unwrap_or(&self.reason)
    }
}

/// What a guest's sampler saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestNoise {
    pub clock: Clock,
    /// From when to when it sampled, by the guest's CLOCK_MONOTONIC.
    pub begin_ns: u64,
    pub end_ns: u64,
    /// None: it was osnoise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<SamplingProgram>,
    pub gaps: Vec<Gap>,
}

impl GuestNoise {
    /// As [`HostNoise::is_sound`].
    pub fn is_sound(&self) -> bool {
        let end = self.end_ns.checked_sub(self.begin_ns).map(|ns| (self.begin_ns, ns));
        let gaps = self.gaps.iter().map(|gap| Some((gap.begin_ns, gap.ns)));
        let within = self.gaps.iter().flat_map(|gap| &gap.disturbances);
        let within = within.map(|one| Some((one.begin_ns, one.end_ns.checked_sub(one.begin_ns)?)));
        let mut all = gaps.chain(within).chain([end]);
        // Its last gap may go beyond what was asked for, but not beyond what was recorded.
        let recorded = self.clock.end.ns.saturating_sub(self.clock.begin.ns);
        let fits = |gap: &Gap| gap.ns <= recorded && self.begin_ns < self.end_ns;
        self.clock.is_sound()
            && all.all(|time| time.is_some_and(is_time))
            && self.gaps.iter().all(fits)
    }

    /// Only what began in `ns` from `skip_ns` after the beginning on: whoever starts and ends a
    /// recording makes noise, too.
    pub fn cut(mut self, skip_ns: u64, ns: u64) -> GuestNoise {
        self.begin_ns = self.begin_ns.saturating_add(skip_ns).min(self.end_ns);
        self.end_ns = self.begin_ns.saturating_add(ns).min(self.end_ns);
        let (begin, end) = (self.begin_ns, self.end_ns);
        self.gaps.retain(|gap| (begin..end).contains(&gap.begin_ns));
        self
    }
}

/// Who finds the gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Sampler {
    /// The kernel's tracer.
    Osnoise,
    /// A program in user space, which reads the TSC.
    User,
}

/// What a program that sampled can say of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplingProgram {
    /// From one reading of the TSC to the next: the mean.
    pub reading_ns: u64,
    /// What it takes at least to tell of a gap.  That is in no gap.
    pub telling_ns: u64,
    /// So much of its time it told of gaps, in millionths.
    pub telling_ppm: u64,
    /// Of its own.
    pub page_faults: u64,
}

/// Less than a century after the beginning of its clock.
pub(crate) fn is_time((begin_ns, ns): (u64, u64)) -> bool {
    begin_ns.checked_add(ns).is_some_and(|end| end < 1 << 61)
}

fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

/// A sampler was away for longer than its threshold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    pub cpu: u32,
    /// The guest's CLOCK_MONOTONIC.
    pub begin_ns: u64,
    pub ns: u64,
    /// The sampler told of the gap before that long ago.  What came meanwhile is of this gap, which
    /// is longer for that; the telling is not, nor are ways out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub written_ns: u64,
    /// How often the guest's kernel knows it was disturbed.  None at all: its osnoise calls the
    /// gap hardware noise.
    pub interference: u32,
    pub disturbances: Vec<Disturbance>,
    /// None where no host tells the guest of its exits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Told>,
    /// Steal by the guest's own clock of it, since the gap before; of a program's gaps, where there
    /// is such a clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_ns: Option<u64>,
}

/// The innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[derive(strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Kind {
    Nmi,
    Irq,
    Softirq,
    Thread,
    /// An instant: it looks for another thread than osnoise's.
    Scheduler,
}

/// An interrupt, a softirq or a thread, from its beginning to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disturbance {
    pub kind: Kind,
    pub name: String,
    /// The guest's CLOCK_MONOTONIC.
    pub begin_ns: u64,
    pub end_ns: u64,
}
