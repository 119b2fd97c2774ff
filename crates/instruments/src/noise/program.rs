// SPDX-License-Identifier: GPL-2.0-only
//! The BPF programs that record absences, in this kernel.

use crate::{
    bpf::{self, Field},
    symbols::function_address,
    told,
    tracefs::Tracefs,
};
use anyhow::{Context, Result};
use aya::Ebpf;

const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/noise.bpf.o"));

/// Beside those of [`told::EVENTS`].  Each has a BPF program of its name.
const EVENTS: &[(&str, bool)] = &[
    ("sched/sched_switch", true),
    ("sched/sched_waking", true),
    ("sched/sched_wakeup", true),
    ("irq/irq_handler_exit", true),
    ("irq/softirq_entry", true),
    ("irq/softirq_exit", true),
    ("irq_vectors/local_timer_exit", true),
    ("irq_vectors/reschedule_exit", false),
    ("irq_vectors/call_function_exit", false),
    ("irq_vectors/call_function_single_exit", false),
    ("irq_vectors/irq_work_exit", false),
    ("kvm/kvm_userspace_exit", true),
    ("kvm/kvm_entry", true),
    // Last: what an absence consists of must be seen from its beginning on.
    ("kvm/kvm_exit", true),
];

#[rustfmt::skip]
const FIELDS: &[Field] = &[
    ("hrtimer_function_at", "timer/hrtimer_expire_entry", "function", 8),
    ("prev_pid_at", "sched/sched_switch", "prev_pid", 4),
    ("prev_state_at", "sched/sched_switch", "prev_state", 8),
    ("prev_comm_at", "sched/sched_switch", "prev_comm[16]", 16),
    ("next_pid_at", "sched/sched_switch", "next_pid", 4),
    ("waking_pid_at", "sched/sched_waking", "pid", 4),
    ("wakeup_pid_at", "sched/sched_wakeup", "pid", 4),
];

/// Where a VMM that was left comes back into the kernel; it has a BPF program of its name.
const RUN: &str = "kvm_arch_vcpu_ioctl_run";

pub struct Programs {
    pub ebpf: Ebpf,
    /// Whether the end of the VMM's time is seen.
    pub sees_run: bool,
}

impl Programs {
    pub fn load() -> Result<Programs> {
        const WHAT: &str = "the time that exits take cannot be recorded";
        let tracefs = Tracefs::open().context(WHAT)?;
        let events = tracefs.present(told::EVENTS.iter().chain(EVENTS)).context(WHAT)?;
        let mut ebpf = told::load(&tracefs, OBJECT, FIELDS).context(WHAT)?;
        let sees_run = function_address(RUN)?.is_some() && bpf::probe(&mut ebpf, RUN).is_ok();
        bpf::attach(&mut ebpf, events)?;
        Ok(Programs { ebpf, sees_run })
    }
}
