// SPDX-License-Identifier: GPL-2.0-only
//! The BPF programs that listen to what disturbs a program, in this kernel.

use crate::{
    bpf::{self, Field},
    osnoise::program::attach_ways_out,
    symbols::variable_addresses,
    tracefs::Tracefs,
};
use anyhow::{Context, Result};
use aya::Ebpf;

const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/sampler.bpf.o"));

/// Each has a program for its entry and one for its exit; the second is whether a kernel must have
/// it.
const INTERRUPTS: [(&str, bool); 13] = [
    ("irq_vectors/local_timer", true),
    ("irq_vectors/reschedule", true),
    ("irq_vectors/call_function", true),
    ("irq_vectors/call_function_single", true),
    ("irq_vectors/irq_work", false),
    ("irq_vectors/x86_platform_ipi", false),
    ("irq_vectors/thermal_apic", false),
    ("irq_vectors/threshold_apic", false),
    ("irq_vectors/deferred_error_apic", false),
    ("irq_vectors/error_apic", false),
    ("irq_vectors/spurious_apic", false),
    ("irq_vectors/virtual_tick", false),
    ("irq_vectors/kvm_asyncpf", false),
];

/// Each has a program of its name; the same of these.
const EVENTS: [(&str, bool); 6] = [
    ("irq/irq_handler_entry", true),
    ("irq/irq_handler_exit", true),
    ("irq/softirq_entry", true),
    ("irq/softirq_exit", true),
    ("nmi/nmi_handler", false),
    ("sched/sched_switch", true),
];

#[rustfmt::skip]
const FIELDS: &[Field] = &[
    ("next_comm_at", "sched/sched_switch", "next_comm[16]", 16),
    ("next_pid_at", "sched/sched_switch", "next_pid", 4),
    ("irq_name_at", "irq/irq_handler_entry", "name", 4),
];

/// Of arch/x86/kernel/kvm.c, and where each CPU's own variables are.
const VARIABLES: [&str; 2] = ["steal_time", "__per_cpu_offset"];

pub const WHAT: &str = "noise cannot be sampled by a program";

pub fn load() -> Result<Ebpf> {
    let tracefs = Tracefs::open().context(WHAT)?;
    let ends = INTERRUPTS.iter().flat_map(|(event, needed)| {
        ["entry", "exit"].map(|end| (format!("{event}_{end}"), *needed))
    });
    let ends: Vec<_> = ends.collect();
    let ends = ends.iter().map(|(event, needed)| (event.as_str(), *needed));
    let all: Vec<_> = ends.chain(EVENTS).collect();
    let events = tracefs.present(&all).context(WHAT)?;
    let offsets = bpf::field_offsets(&tracefs, FIELDS).context(WHAT)?;
    let mut addresses = Vec::new();
    // Where one is not known, none is of use.
    if let [Some(steal), Some(cpus)] = variable_addresses(&VARIABLES)?[..] {
        addresses = vec![("steal_time_at", steal), ("cpu_offsets_at", cpus)];
    }
    let mut ebpf = bpf::load(OBJECT, &offsets, &addresses).context(WHAT)?;
    attach_ways_out(&tracefs, &mut ebpf)?;
    bpf::attach(&mut ebpf, events)?;
    Ok(ebpf)
}
