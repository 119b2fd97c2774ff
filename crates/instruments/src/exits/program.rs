// SPDX-License-Identifier: GPL-2.0-only
//! Loading the BPF programs and attaching them to this kernel's tracepoints.

use super::tracefs::{function_address, Tracefs};
use anyhow::{bail, Context, Result};
use aya::{
    programs::{RawTracePoint, TracePoint},
    Ebpf, EbpfLoader,
};
use std::os::fd::{AsFd, AsRawFd};

const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/exits.bpf.o"));

struct Hook {
    program: &'static str,
    /// Category and name.
    event: &'static str,
    kind: Kind,
    /// Kernels without it can be counted on, too.
    optional: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Fields at offsets that tracefs tells.
    Classic,
    /// Without perf's part, which costs more than what we do.
    Raw,
}

const fn hook(program: &'static str, event: &'static str, kind: Kind, optional: bool) -> Hook {
    Hook {
        program,
        event,
        kind,
        optional,
    }
}

const NEEDED: bool = false;
const OPTIONAL: bool = true;

#[rustfmt::skip]
const HOOKS: &[Hook] = &[
    hook("on_kvm_msr", "kvm/kvm_msr", Kind::Raw, NEEDED),
    hook("on_kvm_cpuid", "kvm/kvm_cpuid", Kind::Classic, NEEDED),
    hook("on_local_timer", "irq_vectors/local_timer_entry", Kind::Raw, NEEDED),
    hook("on_hrtimer", "timer/hrtimer_expire_entry", Kind::Classic, NEEDED),
    hook("on_device", "irq/irq_handler_entry", Kind::Raw, NEEDED),
    hook("on_reschedule", "irq_vectors/reschedule_entry", Kind::Raw, OPTIONAL),
    hook("on_call_function", "irq_vectors/call_function_entry", Kind::Raw, OPTIONAL),
    hook("on_call_function_single", "irq_vectors/call_function_single_entry", Kind::Raw, OPTIONAL),
    hook("on_irq_work", "irq_vectors/irq_work_entry", Kind::Raw, OPTIONAL),
    hook("on_pv_tick", TICK_EVENT, Kind::Classic, OPTIONAL),
    // Last, so that an exit that is counted finds everything that explains it attached.
    hook(EXIT_PROGRAM, "kvm/kvm_exit", Kind::Classic, NEEDED),
];

const EXIT_PROGRAM: &str = "on_kvm_exit";
const TICK_EVENT: &str = "kvm/kvm_pv_tick";

/// Variable in the BPF program, tracepoint, field, size.
const FIELDS: &[(&str, &str, &str, u32)] = &[
    ("exit_reason_at", "kvm/kvm_exit", "exit_reason", 4),
    ("exit_isa_at", "kvm/kvm_exit", "isa", 4),
    ("exit_info1_at", "kvm/kvm_exit", "info1", 8),
    ("exit_info2_at", "kvm/kvm_exit", "info2", 8),
    ("exit_intr_info_at", "kvm/kvm_exit", "intr_info", 4),
    ("exit_vcpu_at", "kvm/kvm_exit", "vcpu_id", 4),
    ("cpuid_function_at", "kvm/kvm_cpuid", "function", 4),
    ("cpuid_index_at", "kvm/kvm_cpuid", "index", 4),
    (
        "hrtimer_function_at",
        "timer/hrtimer_expire_entry",
        "function",
        8,
    ),
];

pub struct Programs {
    pub ebpf: Ebpf,
    /// Whether this kernel delivers virtual ticks.
    pub ticks: bool,
}

impl Programs {
    pub fn load() -> Result<Programs> {
        let tracefs = Tracefs::find()?;
        let ticks = tracefs.has(TICK_EVENT);
        let mut globals = field_offsets(&tracefs)?;
        if ticks {
            let offset = tracefs.format(TICK_EVENT)?.offset("what", 4)?;
            globals.push(("tick_what_at", offset));
        }
        let timer = function_address("apic_timer_fn")?.context(
            "KVM's timer function apic_timer_fn is not in /proc/kallsyms: expiry cannot be told from the host's tick",
        )?;
        let tick_timer = function_address("kvm_pv_tick_timer_fn")?.unwrap_or(timer);

        let mut loader = EbpfLoader::new();
        for (name, offset) in &globals {
            loader.set_global(name, offset, true);
        }
        loader.set_global("vcpu_timer_fn", &timer, true).set_global(
            "vcpu_tick_timer_fn",
            &tick_timer,
            true,
        );
        let ebpf = loader.load(OBJECT).context("cannot load the BPF programs that count exits\nhint: be root, on a kernel with CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS")?;
        let mut programs = Programs { ebpf, ticks };
        programs.attach(&tracefs)?;
        Ok(programs)
    }

    fn attach(&mut self, tracefs: &Tracefs) -> Result<()> {
        for hook in HOOKS {
            if tracefs.has(hook.event) {
                self.attach_one(hook)?;
            } else if !hook.optional {
                bail!(
                    "tracepoint {} is missing\nhint: load KVM (modprobe kvm_amd or kvm_intel)",
                    hook.event
                );
            }
        }
        Ok(())
    }

    fn attach_one(&mut self, hook: &Hook) -> Result<()> {
        let (category, point) = hook.event.split_once('/').expect("category/name");
        let program = self
            .ebpf
            .program_mut(hook.program)
            .with_context(|| format!("no BPF program {} in the object", hook.program))?;
        let attached = match hook.kind {
            Kind::Classic => {
                let program: &mut TracePoint = program.try_into()?;
                program
                    .load()
                    .and_then(|()| program.attach(category, point).map(drop))
            }
            Kind::Raw => {
                let program: &mut RawTracePoint = program.try_into()?;
                program
                    .load()
                    .and_then(|()| program.attach(point).map(drop))
            }
        };
        attached.with_context(|| format!("cannot attach BPF program {} to tracepoint {}\nhint: be root, on a kernel with CONFIG_PERF_EVENTS and CONFIG_BPF_EVENTS", hook.program, hook.event))
    }

    /// Exits whose program did not run because another one was running on that CPU.
    pub fn missed(&self) -> Result<u64> {
        let program: &TracePoint = self
            .ebpf
            .program(EXIT_PROGRAM)
            .context("no program that counts exits")?
            .try_into()?;
        let fd = program.fd()?.as_fd().as_raw_fd();
        let info = fs_err::read_to_string(format!("/proc/self/fdinfo/{fd}"))?;
        info.lines()
            .find_map(|line| line.strip_prefix("recursion_misses:"))
            .and_then(|value| value.trim().parse().ok())
            .context("the kernel does not say whether exits were missed (no recursion_misses in fdinfo)\nhint: Linux 5.12 or newer is needed")
    }
}

fn field_offsets(tracefs: &Tracefs) -> Result<Vec<(&'static str, u32)>> {
    FIELDS
        .iter()
        .map(|(global, event, field, size)| {
            let offset = tracefs
                .format(event)?
                .offset(field, *size)
                .with_context(|| format!("tracepoint {event}"))?;
            Ok((*global, offset))
        })
        .collect()
}
