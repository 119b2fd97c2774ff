// SPDX-License-Identifier: GPL-2.0-only
//! The BPF programs that record steps, in this kernel.

use crate::{
    bpf::{self, Field},
    tracefs::Tracefs,
};
use anyhow::{Context, Result};
use aya::Ebpf;

const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/steps.bpf.o"));

/// Each has a BPF program of its name.
const EVENTS: &[(&str, bool)] = &[
    ("sched/sched_switch", true),
    ("sched/sched_waking", true),
    ("irq/irq_handler_entry", true),
    ("irq_vectors/local_timer_entry", true),
    ("irq_vectors/reschedule_entry", false),
    ("irq_vectors/call_function_entry", false),
    ("irq_vectors/call_function_single_entry", false),
    ("irq_vectors/irq_work_entry", false),
    ("timer/hrtimer_start", true),
    ("timer/hrtimer_expire_entry", true),
    ("kvm/kvm_msr", true),
    ("kvm/kvm_hypercall", true),
    ("kvm/kvm_entry", true),
    // Last: what comes after an exit must be seen from its beginning on.
    ("kvm/kvm_exit", true),
];

#[rustfmt::skip]
const FIELDS: &[Field] = &[
    ("exit_reason_at", "kvm/kvm_exit", "exit_reason", 4),
    ("exit_isa_at", "kvm/kvm_exit", "isa", 4),
    ("exit_info1_at", "kvm/kvm_exit", "info1", 8),
    ("exit_info2_at", "kvm/kvm_exit", "info2", 8),
    ("exit_intr_info_at", "kvm/kvm_exit", "intr_info", 4),
    ("exit_vcpu_at", "kvm/kvm_exit", "vcpu_id", 4),
    ("start_timer_at", "timer/hrtimer_start", "hrtimer", 8),
    ("start_function_at", "timer/hrtimer_start", "function", 8),
    ("expire_timer_at", "timer/hrtimer_expire_entry", "hrtimer", 8),
    ("expire_function_at", "timer/hrtimer_expire_entry", "function", 8),
    ("prev_pid_at", "sched/sched_switch", "prev_pid", 4),
    ("next_pid_at", "sched/sched_switch", "next_pid", 4),
    ("waking_pid_at", "sched/sched_waking", "pid", 4),
];

pub fn load() -> Result<Ebpf> {
    const WHAT: &str = "the way of a timer cannot be followed";
    let tracefs = Tracefs::open().context(WHAT)?;
    let events = tracefs.present(EVENTS).context(WHAT)?;
    let addresses = bpf::vcpu_timers()?;
    let offsets = bpf::field_offsets(&tracefs, FIELDS)?;
    let mut ebpf = bpf::load(OBJECT, &offsets, &addresses).context(WHAT)?;
    bpf::attach(&mut ebpf, events)?;
    Ok(ebpf)
}
