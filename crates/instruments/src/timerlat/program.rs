// SPDX-License-Identifier: GPL-2.0-only
//! The BPF programs that see timerlat's timer expire, in this kernel.

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
    ("start_function_at", "timer/hrtimer_start", "function", 8),
    ("start_expires_at", "timer/hrtimer_start", "expires", 8),
    ("expire_function_at", "timer/hrtimer_expire_entry", "function", 8),
];

/// What timerlat's timer calls.
const FUNCTION: &str = "timerlat_irq";

pub const WHAT: &str = "latency cannot be measured";

pub fn load(tracefs: &Tracefs) -> Result<Ebpf> {
    let function = function_address(FUNCTION).context(WHAT)?.context(
        "this kernel has no timerlat\n\
         hint: the guest needs a kernel of 5.14 or newer with CONFIG_TIMERLAT_TRACER",
    );
    let function = function.context(WHAT)?;
    let events = tracefs.present(EVENTS).context(WHAT)?;
    let offsets = bpf::field_offsets(tracefs, FIELDS).context(WHAT)?;
    let mut ebpf = bpf::load(OBJECT, &offsets, &[("timerlat_fn", function)]).context(WHAT)?;
    bpf::attach(&mut ebpf, events)?;
    Ok(ebpf)
}
