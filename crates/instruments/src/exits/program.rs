// SPDX-License-Identifier: GPL-2.0-only
//! Loading the BPF programs and attaching them to this kernel's tracepoints.

use crate::{
    bpf::{self, Field},
    told,
    tracefs::Tracefs,
};
use anyhow::{Context, Result};
use aya::Ebpf;

const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/exits.bpf.o"));

/// Beside those of [`told::EVENTS`].  Each has a BPF program of its name.
const OWN_EVENTS: &[(&str, bool)] = &[
    ("kvm/kvm_cpuid", true),
    (TICK_EVENT, false),
    // Last, so that an exit that is counted finds everything that explains it attached.
    ("kvm/kvm_exit", true),
];

/// What counting needs and explains; an event that is not needed may be missing.
pub fn events() -> impl Iterator<Item = &'static (&'static str, bool)> {
    told::EVENTS.iter().chain(OWN_EVENTS)
}

const TICK_EVENT: &str = "kvm/kvm_pv_tick";
/// Only where KVM may tell late: a hook more is part of what is measured.
const ENTRY: &str = "kvm/kvm_entry";

#[rustfmt::skip]
const FIELDS: &[Field] = &[
    ("cpuid_function_at", "kvm/kvm_cpuid", "function", 4),
    ("cpuid_index_at", "kvm/kvm_cpuid", "index", 4),
    ("hrtimer_function_at", "timer/hrtimer_expire_entry", "function", 8),
];

pub struct Programs {
    pub ebpf: Ebpf,
    /// Whether this kernel delivers virtual ticks.
    pub ticks: bool,
}

impl Programs {
    pub fn load() -> Result<Programs> {
        let tracefs = Tracefs::open().context("exits cannot be counted")?;
        let ticks = tracefs.has(TICK_EVENT);
        let mut fields = FIELDS.to_vec();
        if ticks {
            fields.push(("tick_what_at", TICK_EVENT, "what", 4));
        }
        let mut ebpf = told::load(&tracefs, OBJECT, &fields).context("exits cannot be counted")?;
        if told::tells_late() {
            bpf::attach(&mut ebpf, [ENTRY])?;
        }
        bpf::attach(&mut ebpf, tracefs.present(events())?)?;
        Ok(Programs { ebpf, ticks })
    }
}
