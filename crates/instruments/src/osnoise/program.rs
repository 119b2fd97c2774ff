// SPDX-License-Identifier: GPL-2.0-only
//! The BPF programs that listen to osnoise, in this kernel.

use crate::{
    bpf::{self, Field},
    symbols::function_address,
    tracefs::{Format, Tracefs},
};
use anyhow::{bail, Context, Result};
use aya::Ebpf;
use paratick_core::noise::TICK_NOHZ_IRQ_EXIT;

const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/osnoise.bpf.o"));

/// Each has a BPF program of its name.
const EVENTS: [&str; 5] = [
    "osnoise/nmi_noise",
    "osnoise/irq_noise",
    "osnoise/softirq_noise",
    "osnoise/thread_noise",
    GAPS,
];

const GAPS: &str = "osnoise/sample_threshold";

/// The scheduler looks for another thread.
const LOOK: &str = "rcu/rcu_utilization";

/// Only where the series `noise` is; it is told where the host keeps a record of the guest's exits.
const PARTS: &str = "osnoise/sample_parts";

/// Only where the series `halt-until` is.
const DEADLINE: &str = "timer/tick_deadline_write";

/// Only where interrupts leave work to threads.
const WAKE: &str = "sched/sched_wakeup";

/// As struct parts in bpf/osnoise.h has them.
const PARTS_FIELDS: [&str; 20] = [
    "start",
    "duration",
    "interference",
    "light",
    "heavy",
    "halts",
    "arms",
    "stops",
    "expiries",
    "ticks",
    "nmi",
    "irq",
    "softirq",
    "thread",
    "hv",
    "hv_irq",
    "vmm",
    "blocked",
    "steal",
    "hw",
];

#[rustfmt::skip]
const FIELDS: &[Field] = &[
    ("thread_comm_at", "osnoise/thread_noise", "comm[16]", 16),
    ("thread_pid_at", "osnoise/thread_noise", "pid", 4),
    ("thread_start_at", "osnoise/thread_noise", "start", 8),
    ("thread_duration_at", "osnoise/thread_noise", "duration", 8),
];

pub const WHAT: &str = "noise cannot be sampled";

/// Whether this kernel has the tracer.
pub fn is_there(tracefs: &Tracefs) -> bool {
    tracefs.has(GAPS)
}

pub fn load(tracefs: &Tracefs) -> Result<Ebpf> {
    if let Some(missing) = EVENTS.iter().chain([&LOOK]).find(|event| !tracefs.has(event)) {
        return Err(anyhow::anyhow!(
            "there is no tracepoint {missing}\n\
             hint: let a program sample (`paratick noise --sampler user`), or have a kernel of \
             5.14 or newer with CONFIG_OSNOISE_TRACER"
        ))
        .context(WHAT);
    }
    let offsets = bpf::field_offsets(tracefs, FIELDS).context(WHAT)?;
    let mut ebpf = bpf::load(OBJECT, &offsets, &[]).context(WHAT)?;
    attach_ways_out(tracefs, &mut ebpf)?;
    bpf::attach(&mut ebpf, EVENTS)?;
    if tracefs.has(PARTS) {
        check_parts(&tracefs.format(PARTS)?).context(WHAT)?;
        bpf::attach(&mut ebpf, [PARTS])?;
    }
    Ok(ebpf)
}

/// What bpf/gaps.h has: what no kernel tells apart from an interrupt, and looks of the scheduler's.
pub fn attach_ways_out(tracefs: &Tracefs, ebpf: &mut Ebpf) -> Result<()> {
    if has_nohz_full() && function_address(TICK_NOHZ_IRQ_EXIT)?.is_some() {
        // Without it, some of the time of these CPUs stays unexplained.
        bpf::probe_both_ends(ebpf, TICK_NOHZ_IRQ_EXIT).ok();
    }
    if tracefs.has(LOOK) {
        bpf::attach(ebpf, [LOOK])?;
    }
    if tracefs.has(DEADLINE) {
        bpf::attach(ebpf, [DEADLINE])?;
    }
    if has_interrupt_threads() {
        bpf::attach(ebpf, [WAKE])?;
    }
    Ok(())
}

/// The kernel's fields are those that we know, one after the other.
fn check_parts(format: &Format) -> Result<()> {
    let first = format.offset(PARTS_FIELDS[0], 8)?;
    for (field, offset) in PARTS_FIELDS.iter().zip((first..).step_by(8)) {
        if format.offset(field, 8)? != offset {
            bail!("this kernel's {PARTS} has {field} at another place");
        }
    }
    Ok(())
}

/// Whether interrupts leave all they can to threads.
fn has_interrupt_threads() -> bool {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    read("/proc/version").contains(" PREEMPT_RT ")
        || read("/proc/cmdline").split_ascii_whitespace().any(|word| word == "threadirqs")
}

/// Whether the kernel keeps its tick away from some CPUs.
fn has_nohz_full() -> bool {
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/nohz_full").unwrap_or_default();
    cpus.contains(|one: char| one.is_ascii_digit())
}
