// SPDX-License-Identifier: GPL-2.0-only
//! Loading the BPF programs and attaching them to this kernel's tracepoints.

use crate::{
    bpf::{self, Field},
    tracefs::Tracefs,
};
use anyhow::{Context, Result};
use aya::{programs::TracePoint, Ebpf};
use std::os::fd::{AsFd, AsRawFd};

const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/exits.bpf.o"));

/// What tells the cause of an exit, and whether kernels without it cannot be counted on.  Each
/// event has a BPF program of its name.
pub const EVENTS: &[(&str, bool)] = &[
    ("kvm/kvm_msr", true),
    ("kvm/kvm_cpuid", true),
    ("kvm/kvm_hypercall", true),
    ("irq_vectors/local_timer_entry", true),
    ("timer/hrtimer_expire_entry", true),
    ("irq/irq_handler_entry", true),
    ("irq_vectors/reschedule_entry", false),
    ("irq_vectors/call_function_entry", false),
    ("irq_vectors/call_function_single_entry", false),
    ("irq_vectors/irq_work_entry", false),
    (TICK_EVENT, false),
    // Last, so that an exit that is counted finds everything that explains it attached.
    ("kvm/kvm_exit", true),
];

const EXIT_PROGRAM: &str = "kvm_exit";
const TICK_EVENT: &str = "kvm/kvm_pv_tick";

#[rustfmt::skip]
const FIELDS: &[Field] = &[
    ("exit_reason_at", "kvm/kvm_exit", "exit_reason", 4),
    ("exit_isa_at", "kvm/kvm_exit", "isa", 4),
    ("exit_info1_at", "kvm/kvm_exit", "info1", 8),
    ("exit_info2_at", "kvm/kvm_exit", "info2", 8),
    ("exit_intr_info_at", "kvm/kvm_exit", "intr_info", 4),
    ("exit_vcpu_at", "kvm/kvm_exit", "vcpu_id", 4),
    ("cpuid_function_at", "kvm/kvm_cpuid", "function", 4),
    ("cpuid_index_at", "kvm/kvm_cpuid", "index", 4),
    ("hrtimer_function_at", "timer/hrtimer_expire_entry", "function", 8),
];

pub struct Programs {
    pub ebpf: Ebpf,
    /// Whether this kernel delivers virtual ticks.
    pub ticks: bool,
}

impl Programs {
    pub fn load() -> Result<Programs> {
        let tracefs = Tracefs::open().context("exits cannot be counted")?;
        let ticks = tracefs.has(TICK_EVENT);
        let mut globals = bpf::field_offsets(&tracefs, FIELDS)?;
        if ticks {
            let offset = tracefs.format(TICK_EVENT)?.offset("what", 4)?;
            globals.push(("tick_what_at", offset));
        }
        let mut ebpf =
            bpf::load(OBJECT, &globals, &bpf::vcpu_timers()?).context("exits cannot be counted")?;
        bpf::attach(&mut ebpf, tracefs.present(EVENTS)?)?;
        Ok(Programs { ebpf, ticks })
    }

    /// Exits whose program did not run because another one was running on that CPU.
    pub fn missed(&self) -> Result<u64> {
        let program: &TracePoint =
            self.ebpf.program(EXIT_PROGRAM).context("no program that counts exits")?.try_into()?;
        let fd = program.fd()?.as_fd().as_raw_fd();
        let info = fs_err::read_to_string(format!("/proc/self/fdinfo/{fd}"))?;
        info.lines()
            .find_map(|line| line.strip_prefix("recursion_misses:"))
            .and_then(|value| value.trim().parse().ok())
            .context(
                "whether exits were missed is not known: no recursion_misses in fdinfo\n\
                 hint: Linux 5.12 or newer is needed",
            )
    }
}
