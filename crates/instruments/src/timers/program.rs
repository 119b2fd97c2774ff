// SPDX-License-Identifier: GPL-2.0-only
//! The BPF programs that record what wakes CPUs, in this kernel.

use crate::{
    bpf::{self, Field},
    tracefs::Tracefs,
};
use anyhow::{Context, Result};
use aya::Ebpf;

const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/timers.bpf.o"));

/// Each has a BPF program of its name; the second is whether a kernel must have it.
const EVENTS: &[(&str, bool)] = &[
    ("timer/timer_start", true),
    ("timer/hrtimer_start", true),
    ("timer/timer_expire_entry", true),
    ("timer/timer_expire_exit", true),
    ("timer/hrtimer_expire_entry", true),
    ("timer/hrtimer_expire_exit", true),
    ("workqueue/workqueue_queue_work", true),
    ("power/cpu_idle", true),
    ("sched/sched_waking", true),
    ("sched/sched_switch", true),
    ("irq/irq_handler_entry", true),
    ("irq_vectors/local_timer_entry", true),
    ("irq_vectors/reschedule_entry", true),
    ("irq_vectors/call_function_entry", true),
    ("irq_vectors/call_function_single_entry", true),
    ("irq_vectors/irq_work_entry", false),
    ("irq_vectors/virtual_tick_entry", false),
    ("irq_vectors/kvm_asyncpf_entry", false),
    // Linux 6.4
    (IPI, false),
];

const IPI: &str = "ipi/ipi_send_cpu";

#[rustfmt::skip]
const FIELDS: &[Field] = &[
    ("start_timer_at", "timer/timer_start", "timer", 8),
    ("start_expires_at", "timer/timer_start", "expires", 8),
    ("start_flags_at", "timer/timer_start", "flags", 4),
    ("start_now_at", "timer/timer_start", "now", 8),
    ("expire_timer_at", "timer/timer_expire_entry", "timer", 8),
    ("expire_function_at", "timer/timer_expire_entry", "function", 8),
    ("expire_now_at", "timer/timer_expire_entry", "now", 8),
    ("hrstart_timer_at", "timer/hrtimer_start", "hrtimer", 8),
    ("hrstart_expires_at", "timer/hrtimer_start", "expires", 8),
    ("hrstart_soft_at", "timer/hrtimer_start", "softexpires", 8),
    ("hrexpire_timer_at", "timer/hrtimer_expire_entry", "hrtimer", 8),
    ("hrexpire_function_at", "timer/hrtimer_expire_entry", "function", 8),
    ("hrexpire_now_at", "timer/hrtimer_expire_entry", "now", 8),
    ("work_function_at", "workqueue/workqueue_queue_work", "function", 8),
    ("idle_state_at", "power/cpu_idle", "state", 4),
    ("irq_number_at", "irq/irq_handler_entry", "irq", 4),
    ("irq_name_at", "irq/irq_handler_entry", "name", 4),
    ("prev_pid_at", "sched/sched_switch", "prev_pid", 4),
    ("next_pid_at", "sched/sched_switch", "next_pid", 4),
    ("next_comm_at", "sched/sched_switch", "next_comm[16]", 16),
    ("waking_pid_at", "sched/sched_waking", "pid", 4),
];

/// Only where there is the event.
const IPI_FIELDS: &[Field] = &[("ipi_cpu_at", IPI, "cpu", 4)];

pub fn load() -> Result<Ebpf> {
    const WHAT: &str = "what wakes CPUs cannot be recorded";
    let tracefs = Tracefs::open().context(WHAT)?;
    let events = tracefs.present(EVENTS).context(WHAT)?;
    let mut offsets = bpf::field_offsets(&tracefs, FIELDS).context(WHAT)?;
    if tracefs.has(IPI) {
        offsets.extend(bpf::field_offsets(&tracefs, IPI_FIELDS).context(WHAT)?);
    }
    // Linux 6.4
    if let Ok(bucket) = tracefs.format("timer/timer_start")?.offset("bucket_expiry", 8) {
        offsets.push(("start_bucket_at", bucket));
    }
    let mut ebpf = bpf::load(OBJECT, &offsets, &[]).context(WHAT)?;
    bpf::attach(&mut ebpf, events)?;
    Ok(ebpf)
}
