// SPDX-License-Identifier: GPL-2.0-only
//! The BPF programs of bpf/away.h in this kernel: where each vCPU's thread is between an exit and
//! the next entry.

use crate::{
    bpf::{self, Field},
    entries::entries,
    symbols::function_address,
    told,
    tracefs::Tracefs,
    unsampled,
};
use anyhow::{Context, Result};
use aya::{maps::HashMap, Ebpf};
use std::{collections::BTreeMap, os::fd::OwnedFd};

/// Beside those of [`told::EVENTS`].  Each has a BPF program of its name.
const EVENTS: &[(&str, bool)] = &[
    ("sched/sched_process_exec", true),
    ("sched/sched_process_exit", true),
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
    /// Programs are attached as long as these are open.
    _events: Vec<OwnedFd>,
    /// Whether the end of the VMM's time is seen.
    pub sees_run: bool,
}

impl Programs {
    /// `object` is of a program that includes the header.
    pub fn load(object: &[u8]) -> Result<Programs> {
        const WHAT: &str = "the time that exits take cannot be recorded";
        let tracefs = Tracefs::open().context(WHAT)?;
        let events = tracefs.present(told::EVENTS.iter().chain(EVENTS)).context(WHAT)?;
        let mut ebpf = told::load(&tracefs, object, FIELDS).context(WHAT)?;
        // For VMs that find no place of their own.
        let vms: &mut _ = ebpf.map_mut("vms").context("no BPF map vms")?;
        HashMap::<_, u32, u64>::try_from(vms)?.insert(0, 0, 0)?;
        let sees_run = function_address(RUN)?.is_some() && bpf::probe(&mut ebpf, RUN).is_ok();
        let _events = unsampled::attach(&tracefs, &mut ebpf, events)?;
        Ok(Programs { ebpf, _events, sees_run })
    }

    /// How many exits of each VM whose vCPUs made one found no room; 0 is for VMs without a place.
    pub fn lost(&self) -> Result<BTreeMap<u32, u64>> {
        Ok(entries(&self.ebpf, "vms")?.into_iter().collect())
    }
}
