// SPDX-License-Identifier: GPL-2.0-only
//! Counts what guests cost each CPU of this host while a window of all guests is open: interrupts,
//! expired timers of vCPUs, and how often it left idle.

mod raw;

use crate::{
    bpf::{self, Field},
    told,
    tracefs::Tracefs,
    Instrument,
};
use anyhow::{bail, Context, Result};
use aya::{maps::Array, Ebpf};
use paratick_core::pcpu::{Interrupt, Pcpu, Pcpus};
use raw::{
    MAX_PCPUS, PCPU_CALL_FUNCTION, PCPU_CALL_FUNCTION_SINGLE, PCPU_CLOSED_NS, PCPU_COUNTS,
    PCPU_DEVICE, PCPU_IRQ_WORK, PCPU_LOCAL_TIMER, PCPU_OPENED_NS, PCPU_RESCHEDULE,
    PCPU_VCPU_TIMERS, PCPU_WAKE_UPS,
};

const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/pcpus.bpf.o"));

/// Each has a BPF program of its name; whether kernels without it cannot be counted on.
const EVENTS: &[(&str, bool)] = &[
    ("power/cpu_idle", true),
    ("timer/hrtimer_expire_entry", true),
    ("irq_vectors/local_timer_entry", true),
    ("irq/irq_handler_entry", true),
    ("irq_vectors/reschedule_entry", false),
    ("irq_vectors/call_function_entry", false),
    ("irq_vectors/call_function_single_entry", false),
    ("irq_vectors/irq_work_entry", false),
    // Last: the window that it opens has all of these.
    ("kvm/kvm_cpuid", true),
];

const FIELDS: &[Field] = &[
    ("cpuid_function_at", "kvm/kvm_cpuid", "function", 4),
    ("cpuid_index_at", "kvm/kvm_cpuid", "index", 4),
    ("hrtimer_function_at", "timer/hrtimer_expire_entry", "function", 8),
];

const INTERRUPTS: [(Interrupt, u32); 6] = [
    (Interrupt::LocalTimer, PCPU_LOCAL_TIMER),
    (Interrupt::Reschedule, PCPU_RESCHEDULE),
    (Interrupt::CallFunction, PCPU_CALL_FUNCTION),
    (Interrupt::CallFunctionSingle, PCPU_CALL_FUNCTION_SINGLE),
    (Interrupt::IrqWork, PCPU_IRQ_WORK),
    (Interrupt::Device, PCPU_DEVICE),
];

pub struct PcpuCounter {
    ebpf: Ebpf,
    cpus: u32,
}

impl Instrument for PcpuCounter {
    const NAME: &'static str = "pcpus";
    type Reading = Pcpus;

    fn start() -> Result<PcpuCounter> {
        let wrong = "interrupts of the host cannot be counted";
        let cpus = cpus()?;
        if cpus > MAX_PCPUS {
            bail!("{wrong}: it has {cpus} CPUs, and at most {MAX_PCPUS} are known");
        }
        let tracefs = Tracefs::open().context(wrong)?;
        let events = tracefs.present(EVENTS).context(wrong)?;
        let offsets = bpf::field_offsets(&tracefs, FIELDS)?;
        let mut ebpf = bpf::load(OBJECT, &offsets, &told::timers()?).context(wrong)?;
        bpf::attach(&mut ebpf, events)?;
        Ok(PcpuCounter { ebpf, cpus })
    }

    /// What was counted in the window that was opened and closed since the start.
    fn read(&mut self) -> Result<Pcpus> {
        let (opened, closed) =
            (bpf::state(&self.ebpf, PCPU_OPENED_NS)?, bpf::state(&self.ebpf, PCPU_CLOSED_NS)?);
        if opened == 0 || closed <= opened {
            bail!("no window of all guests was opened and closed while pCPUs were counted");
        }
        let counts: Array<_, u64> =
            Array::try_from(self.ebpf.map("counts").context("no BPF map counts")?)?;
        let pcpu = |cpu: u32| -> Result<Pcpu> {
            let of = |what: u32| counts.get(&(cpu * PCPU_COUNTS + what), 0);
            let interrupts =
                INTERRUPTS.iter().map(|(interrupt, what)| Ok((*interrupt, of(*what)?)));
            Ok(Pcpu {
                wake_ups: of(PCPU_WAKE_UPS)?,
                vcpu_timers: of(PCPU_VCPU_TIMERS)?,
                interrupts: interrupts.collect::<Result<_>>()?,
            })
        };
        let cpus = (0..self.cpus).map(pcpu).collect::<Result<_>>()?;
        Ok(Pcpus { duration_ns: closed - opened, cpus })
    }
}

/// As many as /proc/stat has lines for.
fn cpus() -> Result<u32> {
    let text = fs_err::read_to_string("/proc/stat")?;
    let number = |line: &str| line.strip_prefix("cpu")?.split(' ').next()?.parse::<u32>().ok();
    let last = text.lines().filter_map(number).max();
    Ok(last.context("/proc/stat names no CPU")? + 1)
}
