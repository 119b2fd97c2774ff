// SPDX-License-Identifier: GPL-2.0-only
//! What every recorder of exits needs of this kernel: the events of bpf/told.h, and where their
//! fields and KVM's timers are.

use crate::{
    bpf::{self, Field},
    symbols::function_addresses,
    tracefs::Tracefs,
};
use anyhow::{Context, Result};
use aya::Ebpf;
use paratick_core::cause::TIMERS;

/// They tell what an exit is about.  Each has a BPF program of its name.
pub const EVENTS: &[(&str, bool)] = &[
    ("kvm/kvm_msr", true),
    ("kvm/kvm_hypercall", true),
    ("kvm/kvm_hv_hypercall", false),
    (XEN_HYPERCALL, false),
    ("kvm/kvm_mmio", true),
    ("kvm/kvm_fast_mmio", false),
    ("kvm/kvm_pio", true),
    ("kvm/kvm_apic", true),
    (VMGEXIT, false),
    ("kvm/kvm_nested_vmexit", false),
    ("kvm/kvm_nested_vmexit_inject", false),
    ("irq_vectors/local_timer_entry", true),
    ("timer/hrtimer_expire_entry", true),
    ("irq/irq_handler_entry", true),
    ("irq_vectors/reschedule_entry", false),
    ("irq_vectors/call_function_entry", false),
    ("irq_vectors/call_function_single_entry", false),
    ("irq_vectors/irq_work_entry", false),
];

const XEN_HYPERCALL: &str = "kvm/kvm_xen_hypercall";
/// Of guests whose registers are hidden; in kernels with support for them.
const VMGEXIT: &str = "kvm/kvm_vmgexit_enter";

/// The first Linux in which KVM for AMD traces an exit before interrupts are on again.
const TELLS_AT_ONCE: (u32, u32) = (6, 12);

#[rustfmt::skip]
const FIELDS: &[Field] = &[
    ("exit_reason_at", "kvm/kvm_exit", "exit_reason", 4),
    ("exit_isa_at", "kvm/kvm_exit", "isa", 4),
    ("exit_info1_at", "kvm/kvm_exit", "info1", 8),
    ("exit_info2_at", "kvm/kvm_exit", "info2", 8),
    ("exit_intr_info_at", "kvm/kvm_exit", "intr_info", 4),
    ("exit_vcpu_at", "kvm/kvm_exit", "vcpu_id", 4),
];

#[rustfmt::skip]
const VMGEXIT_FIELDS: &[Field] = &[
    ("vmgexit_reason_at", VMGEXIT, "exit_reason", 8),
    ("vmgexit_info1_at", VMGEXIT, "info1", 8),
    ("vmgexit_info2_at", VMGEXIT, "info2", 8),
];

/// The variables of bpf/which.h, one for each of [`TIMERS`].
const VARIABLES: [&str; TIMERS.len()] = [
    "timer_apic",
    "timer_pv_tick",
    "timer_stimer",
    "timer_xen",
    "timer_pit",
    "timer_preemption",
    "timer_host_tick",
    "timer_hrtick",
];

/// Loads an object whose programs include bpf/told.h, with fields of its own.
pub fn load(tracefs: &Tracefs, object: &[u8], own: &[Field]) -> Result<Ebpf> {
    let mut offsets = bpf::field_offsets(tracefs, FIELDS)?;
    offsets.extend(bpf::field_offsets(tracefs, own)?);
    if tracefs.has(VMGEXIT) {
        offsets.extend(bpf::field_offsets(tracefs, VMGEXIT_FIELDS)?);
    }
    let has_cpl =
        tracefs.has(XEN_HYPERCALL) && tracefs.format(XEN_HYPERCALL)?.offset("cpl", 1).is_ok();
    offsets.push(("xen_has_cpl", has_cpl.into()));
    offsets.push(("tick_is_no_hrtimer", tick_is_no_hrtimer().into()));
    offsets.push(("tells_late", tells_late().into()));
    bpf::load(object, &offsets, &timers()?)
}

/// Where this kernel has the first of each timer's functions, by the variables of bpf/which.h.
pub fn timers() -> Result<Vec<(&'static str, u64)>> {
    let found = function_addresses(&TIMERS.concat())?;
    let mut found = found.into_iter();
    let mut first = |names: &[&str]| {
        let these: Vec<_> = found.by_ref().take(names.len()).collect();
        these.into_iter().flatten().next().unwrap_or(0)
    };
    let timers: Vec<_> =
        VARIABLES.iter().zip(TIMERS).map(|(global, names)| (*global, first(names))).collect();
    (timers[0].1 != 0).then_some(()).context(
        "expiry cannot be told from the host's tick: no apic_timer_fn in /proc/kallsyms\n\
         hint: load KVM (modprobe kvm_amd or kvm_intel)",
    )?;
    Ok(timers)
}

/// Whether this kernel's KVM may tell of an interrupt's exit after the handler, as it did for AMD.
pub fn tells_late() -> bool {
    is_before(rustix::system::uname().release().to_str().unwrap_or_default(), TELLS_AT_ONCE)
}

fn is_before(release: &str, other: (u32, u32)) -> bool {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse().ok());
    let Some((major, minor)) = numbers.next().zip(numbers.next()) else { return false };
    (major, minor) < other
}

/// Of a host without high-resolution timers (`highres=off`), the tick is no hrtimer that expires.
fn tick_is_no_hrtimer() -> bool {
    let timers = std::fs::read_to_string("/proc/timer_list").unwrap_or_default();
    is_low_resolution(&timers)
}

fn is_low_resolution(timer_list: &str) -> bool {
    let active = |line: &str| Some(line.trim().strip_prefix(".hres_active")?.ends_with(": 0"));
    timer_list.lines().find_map(active).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_older_by_its_numbers() {
        for (release, late) in
            [("6.1.0-56-amd64", true), ("6.9.12", true), ("6.12.1", false), ("7.3-rc1", false)]
        {
            assert_eq!(is_before(release, TELLS_AT_ONCE), late, "{release}");
        }
        assert!(!is_before("unknown", TELLS_AT_ONCE));
    }

    #[test]
    fn a_host_without_high_resolution_says_so_in_its_list_of_timers() {
        let list = "cpu: 0\n  .expires_next   : 7 nsecs\n  .hres_active    : 0\n";
        assert!(is_low_resolution(list));
        assert!(!is_low_resolution(&list.replace(": 0\n", ": 1\n")));
        assert!(!is_low_resolution(""));
    }
}
