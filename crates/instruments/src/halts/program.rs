// SPDX-License-Identifier: GPL-2.0-only
//! The BPF programs that record halts, in this kernel.

use crate::{
    bpf::{self, Field},
    btf::Btf,
    told,
    tracefs::Tracefs,
};
use anyhow::{Context, Result};
use aya::Ebpf;

const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/halts.bpf.o"));

/// Each has a BPF program of its name; those that are needed are in every kernel that halts can be
/// recorded on.
const EVENTS: &[(&str, bool)] = &[
    ("sched/sched_switch", true),
    ("sched/sched_waking", true),
    ("timer/hrtimer_start", true),
    ("timer/hrtimer_cancel", true),
    ("kvm/kvm_cpuid", true),
    ("kvm/kvm_inj_virq", true),
    // Tells limits that nothing else does: those that were learned.
    ("kvm/kvm_halt_poll_window", false),
    ("kvm/kvm_halt_poll_ns", true),
    ("kvm/kvm_vcpu_wakeup", true),
    // Last: a thread is a vCPU's from its first entry on.
    ("kvm/kvm_entry", true),
];

#[rustfmt::skip]
const FIELDS: &[Field] = &[
    ("entry_vcpu_at", "kvm/kvm_entry", "vcpu_id", 4),
    ("start_timer_at", "timer/hrtimer_start", "hrtimer", 8),
    ("start_function_at", "timer/hrtimer_start", "function", 8),
    ("start_expires_at", "timer/hrtimer_start", "expires", 8),
    ("waking_pid_at", "sched/sched_waking", "pid", 4),
    ("cancel_timer_at", "timer/hrtimer_cancel", "hrtimer", 8),
    ("cpuid_function_at", "kvm/kvm_cpuid", "function", 4),
    ("cpuid_index_at", "kvm/kvm_cpuid", "index", 4),
];

pub fn load() -> Result<Ebpf> {
    let tracefs = Tracefs::open().context("halts cannot be recorded")?;
    let events = tracefs.present(EVENTS).context("halts cannot be recorded")?;
    let timers = told::timers().context("deadlines cannot be recorded")?;
    let mut offsets = bpf::field_offsets(&tracefs, FIELDS)?;
    let maximum = Btf::of_module("kvm").and_then(|btf| maximum(&btf));
    offsets.extend(maximum.iter().flatten());
    let mut ebpf = bpf::load(OBJECT, &offsets, &timers).context("halts cannot be recorded")?;
    bpf::attach(&mut ebpf, events)?;
    if maximum.is_some() {
        bpf::attach_raw(&mut ebpf, "kvm_entry_vcpu", "kvm_entry")?;
    }
    Ok(ebpf)
}

/// Where a VM's own maximum is; none where it cannot be read.
fn maximum(btf: &Btf) -> Option<[(&'static str, u32); 3]> {
    // Before 5.10 it begins with the vCPU's number.
    btf.begins_with("kvm_entry", "kvm_vcpu").then_some(())?;
    Some([
        ("vcpu_kvm_at", btf.offset("kvm_vcpu", "kvm")?),
        ("kvm_max_at", btf.offset("kvm", "max_halt_poll_ns")?),
        ("kvm_override_at", btf.offset("kvm", "override_halt_poll_ns").unwrap_or(0)),
    ])
}
