// SPDX-License-Identifier: GPL-2.0-only
//! The reading of the instrument `cycle`: what happens to a vCPU in one idle cycle, from a trace of
//! its host.  docs/timeline.md describes it.

use crate::{
    cause::{Cause, TSC_DEADLINE},
    reason,
    stats::Summary,
};
use serde::{de::Error, Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use strum::VariantNames;

/// One idle cycle of one vCPU, chosen from all that were traced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IdleCycle {
    /// Whose it is.
    pub vcpu: u32,
    #[serde(flatten)]
    pub chosen: Chosen,
    /// What the workload took, traced, on the guest's clock.
    pub traced_ns: u64,
    /// And just before, without tracing.
    pub untraced_ns: u64,
    /// Deadlines that the guest wrote all the same, by why.
    ///
    /// Though it can hand them over: how often for each reason, in the whole traced run. Absent:
    /// its kernel does not say.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub deadline_writes: Option<BTreeMap<Why, u32>>,
}

/// What is read of a host's trace: a cycle, and which of the vCPU's writes of its timer's deadline
/// are in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Traced {
    pub chosen: Chosen,
    /// Writes of a deadline before the cycle, and in all.
    pub writes_before: usize,
    pub writes: usize,
}

/// The cycle that stands for all, and what all have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Chosen {
    /// The chosen cycle, in the order of time.
    ///
    /// From the halt's exit, at 0, to the moment before the next halt's, which is an `end`.
    #[serde(deserialize_with = "known")]
    pub events: Vec<Event>,
    /// Whole cycles in the trace.
    pub cycles: u32,
    /// How many have the same events in the same order as the chosen one.
    pub alike: u32,
    /// Over all cycles.
    pub exits_per_cycle: Summary,
    /// Mean exits of a cycle, over all cycles.
    pub exits_by_cause: BTreeMap<Cause, f64>,
}

/// Later versions may have further kinds of events.
fn known<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Event>, D::Error> {
    let all = Vec::<serde_json::Value>::deserialize(from)?.into_iter();
    let known = all
        .filter(|event| event["kind"].as_str().is_none_or(|kind| What::VARIANTS.contains(&kind)));
    known.map(|event| serde_json::from_value(event).map_err(D::Error::custom)).collect()
}

/// An event of the cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Event {
    /// Since the cycle began.
    pub t_ns: u64,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, strum::VariantNames)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum What {
    /// An exit.
    Exit {
        /// KVM's name for it.
        reason: String,
        /// Its cause.
        cause: Cause,
        /// Its name, of an exit for an MSR.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        msr: Option<String>,
        /// Of an arm: how much later than the deadline before it.
        ///
        /// Negative: earlier.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        moved_ns: Option<i64>,
        /// Of a halt by hypercall: the deadline that goes with it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        until: Option<Until>,
        /// Of an arm: why the guest did not leave the deadline to a halt or a tick.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        why: Option<Why>,
    },
    /// The guest runs again.
    Entry,
    /// The halted vCPU's thread gives its pCPU away.
    Sleep,
    /// What the halted vCPU waited for has come.
    ///
    /// Its thread has its pCPU back.
    Wake {
        /// What ended the halt.
        by: Waker,
    },
    /// KVM raises a virtual tick.
    Tick {
        /// `delivered`, `late` or `timer`.
        what: String,
    },
    /// A virtual tick was due, and KVM raises none.
    NoTick {
        /// Why: `absorbed`, `pending`, `halted`, `disabled`.
        what: String,
    },
    /// The next cycle begins.
    End,
}

/// The deadline that a halt hands over to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Until {
    /// False: there is none, and only an interrupt ends the halt.
    pub deadline: bool,
    /// It stays armed if something else ends the halt.
    pub keep: bool,
    /// How long after the exit it is due (negative: before).
    ///
    /// `null`: there is none, or the guest's clock is not known.
    pub due_ns: Option<i64>,
}

/// Why a guest that can hand its deadlines over wrote one to its timer's register.
///
/// As `tick_deadline_write` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum Why {
    /// On return to user mode.
    User,
    /// On a switch to a task.
    Switch,
    /// At the end of an interrupt.
    Irq,
    /// By a virtual tick.
    Tick,
    /// For another reason.
    Other,
}

impl Why {
    /// When it was written.
    pub fn about(self) -> &'static str {
        match self {
            Why::User => "on return to user mode",
            Why::Switch => "on a switch to a task",
            Why::Irq => "at the end of an interrupt",
            Why::Tick => "by a virtual tick",
            Why::Other => "for another reason",
        }
    }
}

/// Which interrupt a halted vCPU woke for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "EndOfHalt"))]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Waker {
    /// Its own timer's.
    Timer,
    /// Another vCPU's.
    Ipi,
    /// A virtual tick.
    Tick,
    /// A device's.
    Device,
    /// No interrupt was seen.
    Unknown,
}

impl Waker {
    /// By the vectors of Linux guests (arch/x86/include/asm/irq_vectors.h) and of our series.
    pub fn of_vector(vector: u32) -> Waker {
        match vector {
            // The local APIC's, and Hyper-V's.
            0xec | 0xed => Waker::Timer,
            0xee => Waker::Tick,
            0xf6..=0xf8 | 0xfb..=0xfd => Waker::Ipi,
            0x20..=0xeb => Waker::Device,
            _ => Waker::Unknown,
        }
    }
}

impl What {
    pub fn cause(&self) -> Option<Cause> {
        match self {
            What::Exit { cause, .. } => Some(*cause),
            _ => None,
        }
    }

    pub fn is_halt(&self) -> bool {
        self.cause() == Some(Cause::Halt)
    }

    /// Whether it writes a deadline to the timer's register.
    pub fn writes_deadline(&self) -> bool {
        let deadline = reason::msr_name(TSC_DEADLINE);
        matches!(self, What::Exit { cause: Cause::Arm, msr: Some(msr), .. } if *msr == deadline)
    }
}

impl Traced {
    /// The cycle with the reasons of its writes; `told` are those of all the vCPU's writes, in
    /// their order.  Without reasons where the guest tells of more or fewer writes than the host
    /// saw.
    pub fn explained(self, told: &[Why]) -> Chosen {
        let mut chosen = self.chosen;
        if told.len() != self.writes {
            return chosen;
        }
        let writes = chosen.events.iter_mut().filter(|event| event.what.writes_deadline());
        for (event, reason) in writes.zip(&told[self.writes_before..]) {
            if let What::Exit { why, .. } = &mut event.what {
                *why = Some(*reason);
            }
        }
        chosen
    }
}

impl Chosen {
    pub fn length_ns(&self) -> u64 {
        self.events.last().map_or(0, |event| event.t_ns)
    }

    pub fn exits(&self) -> usize {
        let causes = self.events.iter().filter_map(|event| event.what.cause());
        causes.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(cause: Cause, msr: Option<&str>) -> Event {
        let (reason, msr) = ("msr_write".into(), msr.map(String::from));
        let what = What::Exit { reason, cause, msr, moved_ns: None, until: None, why: None };
        Event { t_ns: 0, what }
    }

    fn traced() -> Traced {
        let deadline = |cause| exit(cause, Some("TSC_DEADLINE"));
        let events = vec![
            exit(Cause::Halt, None),
            deadline(Cause::Arm),
            exit(Cause::Ipi, Some("X2APIC_ICR")),
            deadline(Cause::Stop),
            exit(Cause::Arm, Some("X2APIC_TMICT")),
            deadline(Cause::Arm),
        ];
        let text = r#"{"cycles": 1, "alike": 1, "exits_by_cause": {}, "events": [],
            "exits_per_cycle":
                {"median": 1, "low": 1, "high": 1, "samples": 1, "method": "range"}}"#;
        let chosen = Chosen { events, ..serde_json::from_str(text).unwrap() };
        Traced { chosen, writes_before: 1, writes: 4 }
    }

    #[test]
    fn kinds_of_events_that_are_not_known_are_ignored() {
        let later = r#"{"events": [{"t_ns": 0, "kind": "newkind", "x": 1},
            {"t_ns": 7, "kind": "notick", "what": "pending"}]}"#;
        #[derive(Deserialize)]
        struct Those {
            #[serde(deserialize_with = "known")]
            events: Vec<Event>,
        }
        let those: Those = serde_json::from_str(later).unwrap();
        assert_eq!(
            those.events,
            [Event { t_ns: 7, what: What::NoTick { what: "pending".into() } }]
        );
        let damaged = r#"{"events": [{"t_ns": 0, "kind": "notick"}]}"#;
        assert!(serde_json::from_str::<Those>(damaged).is_err());
    }

    #[test]
    fn each_write_has_its_own_reason() {
        let chosen = traced().explained(&[Why::Irq, Why::User, Why::Switch, Why::Tick]);
        let whys = chosen.events.iter().map(|event| match event.what {
            What::Exit { why, .. } => why,
            _ => None,
        });
        let due = [None, Some(Why::User), None, None, None, Some(Why::Switch)];
        assert_eq!(whys.collect::<Vec<_>>(), due);
    }

    #[test]
    fn reasons_are_not_guessed_where_guest_and_host_tell_of_other_writes() {
        for told in [&[][..], &[Why::User; 3], &[Why::User; 5]] {
            assert_eq!(traced().explained(told), traced().chosen);
        }
    }
}
