// SPDX-License-Identifier: GPL-2.0-only
//! From a record to an absence.

use super::raw::{self, ABSENCE_AUDITED, ABSENCE_HEAVY, ABSENCE_HELD};
use crate::{
    bpf::name,
    facts::{explain, Explained},
};
use paratick_core::{
    cause::Cause,
    noise::{Absence, Class},
};

pub fn gather(record: &raw::Absence) -> Absence {
    let Explained { cause, reason, about } =
        explain(record.isa, record.reason, record.detail, record.facts);
    Absence {
        process: record.tgid,
        vcpu: record.vcpu,
        begin_ns: record.began_ns,
        ns: record.ended_ns.saturating_sub(record.began_ns),
        kvm_ns: record.kvm_ns,
        vmm_ns: record.vmm_ns,
        blocked_ns: record.blocked_ns,
        waited_ns: record.waited_ns,
        interrupted_ns: record.interrupted_ns,
        cause,
        reason,
        about,
        tick: false,
        class: match cause {
            Cause::Halt => Class::Halt,
            _ if record.flags & ABSENCE_HEAVY != 0 => Class::Heavy,
            _ => Class::Light,
        },
        exit_cpu: record.exit_cpu,
        entry_cpu: record.entry_cpu,
        held: record.flags & ABSENCE_HELD != 0,
        audited: record.flags & ABSENCE_AUDITED != 0,
        taker: (record.taker != 0).then(|| name(record.taker_low, record.taker_high)),
    }
}
