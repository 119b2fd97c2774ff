// SPDX-License-Identifier: GPL-2.0-only
//! The BPF programs that record idle states, in this kernel.

use crate::{bpf, symbols::function_address, tracefs::Tracefs};
use anyhow::{Context, Result};
use aya::Ebpf;

const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/polls.bpf.o"));

/// Each has a BPF program of its name.  A guest of one CPU has no IPIs, and one that does not poll
/// no governor that says so.
const EVENTS: &[(&str, bool)] = &[
    ("sched/sched_switch", true),
    ("irq/irq_handler_entry", true),
    ("irq_vectors/local_timer_entry", true),
    ("irq_vectors/reschedule_entry", false),
    ("irq_vectors/call_function_entry", false),
    ("irq_vectors/call_function_single_entry", false),
    ("irq_vectors/virtual_tick_entry", false),
    ("power/guest_halt_poll_ns", false),
    ("power/cpu_idle", true),
];

/// Where the governor is told of what was measured; it has a BPF program of its name.
const REFLECT: &str = "haltpoll_reflect";

pub fn load() -> Result<Ebpf> {
    const WHAT: &str = "what a guest does when it is idle cannot be recorded";
    let tracefs = Tracefs::open().context(WHAT)?;
    let events = tracefs.present(EVENTS).context(WHAT)?;
    let mut ebpf = bpf::load(OBJECT, &[], &[]).context(WHAT)?;
    // A kernel without the governor polls for nothing.
    if function_address(REFLECT)?.is_some() {
        bpf::probe(&mut ebpf, REFLECT).context(WHAT)?;
    }
    bpf::attach(&mut ebpf, events)?;
    Ok(ebpf)
}
