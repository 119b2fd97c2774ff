// SPDX-License-Identifier: GPL-2.0-only
//! The BPF programs that record steps, in this kernel.

use crate::{
    bpf::{self, Field},
    told,
    tracefs::Tracefs,
};
use anyhow::{Context, Result};
use aya::Ebpf;

const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/steps.bpf.o"));

/// Beside those of [`told::EVENTS`].  Each has a BPF program of its name.
const EVENTS: &[(&str, bool)] = &[
    ("sched/sched_switch", true),
    ("sched/sched_waking", true),
    ("timer/hrtimer_start", true),
    ("kvm/kvm_entry", true),
    // Last: what comes after an exit must be seen from its beginning on.
    ("kvm/kvm_exit", true),
];

#[rustfmt::skip]
const FIELDS: &[Field] = &[
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
    let events = tracefs.present(told::EVENTS.iter().chain(EVENTS)).context(WHAT)?;
    let mut ebpf = told::load(&tracefs, OBJECT, FIELDS).context(WHAT)?;
    bpf::attach(&mut ebpf, events)?;
    Ok(ebpf)
}
