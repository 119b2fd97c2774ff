// SPDX-License-Identifier: GPL-2.0-only
//! The BPF programs that see a thread's timer expire, in this kernel.

use crate::{
    bpf::{self, Field},
    symbols::function_address,
    tracefs::Tracefs,
};
use anyhow::{Context, Result};
use aya::Ebpf;

const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/timerlat.bpf.o"));

/// Each has a BPF program of its name.
const EVENTS: &[(&str, bool)] = &[
    ("irq_vectors/local_timer_entry", true),
    ("irq_vectors/local_timer_exit", true),
    ("irq_vectors/virtual_tick_entry", false),
    ("irq_vectors/virtual_tick_exit", false),
    ("timer/hrtimer_start", true),
    ("timer/hrtimer_expire_entry", true),
];

#[rustfmt::skip]
const FIELDS: &[Field] = &[
    ("start_timer_at", "timer/hrtimer_start", "hrtimer", 8),
    ("start_function_at", "timer/hrtimer_start", "function", 8),
    ("start_expires_at", "timer/hrtimer_start", "expires", 8),
    ("expire_timer_at", "timer/hrtimer_expire_entry", "hrtimer", 8),
    ("expire_function_at", "timer/hrtimer_expire_entry", "function", 8),
];

pub const WHAT: &str = "latency cannot be measured";

/// For the kernel's tracer.
pub fn for_tracer(tracefs: &Tracefs) -> Result<Ebpf> {
    let function = function_address("timerlat_irq").context(WHAT)?.context(
        "this kernel has no timerlat\n\
         hint: let a program sample (`paratick timerlat --sampler user`), or have a kernel of \
         5.14 or newer with CONFIG_TIMERLAT_TRACER",
    );
    load(tracefs, &[("timer_fn", function.context(WHAT)?)])
}

/// For threads of ours, which sleep.
pub fn for_program(tracefs: &Tracefs) -> Result<Ebpf> {
    let function = function_address("hrtimer_wakeup").context(WHAT)?.context(
        "this kernel's sleeps are not known: /proc/kallsyms has no hrtimer_wakeup\n\
         hint: the kernel needs CONFIG_KALLSYMS",
    );
    load(tracefs, &[("timer_fn", function.context(WHAT)?), ("by_program", 1)])
}

fn load(tracefs: &Tracefs, addresses: &[(&str, u64)]) -> Result<Ebpf> {
    let events = tracefs.present(EVENTS).context(WHAT)?;
    let offsets = bpf::field_offsets(tracefs, FIELDS).context(WHAT)?;
    let mut ebpf = bpf::load(OBJECT, &offsets, addresses).context(WHAT)?;
    bpf::attach(&mut ebpf, events)?;
    Ok(ebpf)
}
