// SPDX-License-Identifier: GPL-2.0-only
//! What exits cost, measured by a micro guest: a VM through KVM's interface, without a VMM and
//! without an operating system.  docs/exit-cost.md describes it.

mod code;
mod facts;
mod statistics;
mod vm;

pub use vm::MOST_SAMPLES;

use anyhow::{bail, Result};
use code::Entry;
use kvm_bindings::KVM_MAX_CPUID_ENTRIES;
use kvm_ioctls::Kvm;
use paratick_core::{
    calibration::{Calibration, Meaning, Row, Spread, SCHEMA},
    event::{Events, Step},
};
use std::{collections::BTreeMap, fs};
use vm::{MicroVm, Session, Shape};

/// So many samples of each kind come first, and do not count.
const WARM_UP: u32 = 64;
/// Before a halt ends: long enough for its vCPU's thread to sleep.
const ASLEEP_NS: u64 = 200_000;
/// Of a deadline that is never reached.
const FAR_NS: u64 = 1_000_000_000;

/// How one kind of exit is measured.
struct Kind {
    names: &'static [(&'static str, &'static str)],
    /// What each vCPU runs.
    entries: &'static [Entry],
    delay_ns: u64,
    /// Whether it is in KVM's time of polling before a vCPU sleeps.
    polled: bool,
    /// What each sample executes that a processor may exit for, on all vCPUs.
    executes: &'static [(&'static str, u64)],
    /// Writes of MSRs at the end of a session.
    more: u64,
}

const PLAIN: Kind =
    Kind { names: &[], entries: &[], delay_ns: 0, polled: false, executes: &[], more: 0 };

const KINDS: [Kind; 11] = [
    Kind { names: &[("nothing", "two readings of the TSC")], entries: &[Entry::Empty], ..PLAIN },
    Kind {
        names: &[("CPUID", "around the instruction")],
        entries: &[Entry::Cpuid],
        executes: &[("cpuid", 1)],
        ..PLAIN
    },
    Kind {
        names: &[("IN, answered by KVM", "around the instruction (the PIC's mask)")],
        entries: &[Entry::PioKernel],
        executes: &[("io", 1)],
        ..PLAIN
    },
    Kind {
        names: &[("OUT, answered by user space", "around the instruction (which does nothing)")],
        entries: &[Entry::PioUser],
        executes: &[("io", 1)],
        ..PLAIN
    },
    Kind {
        names: &[("WRMSR TSC_DEADLINE", "around the instruction (1 s ahead)")],
        entries: &[Entry::TscDeadline],
        delay_ns: FAR_NS,
        executes: &[("msr", 1)],
        more: 1,
        ..PLAIN
    },
    Kind {
        names: &[("HLT, woken by its timer", "deadline to handler, asleep for 200 µs")],
        entries: &[Entry::HltTimer],
        delay_ns: ASLEEP_NS,
        executes: &[("hlt", 1), ("msr", 2)],
        ..PLAIN
    },
    Kind {
        names: &[("HLT, woken by an IPI", "before WRMSR ICR to handler, asleep for 200 µs")],
        entries: &[Entry::HltIpi, Entry::Waker],
        delay_ns: ASLEEP_NS,
        executes: &[("hlt", 1), ("msr", 2)],
        ..PLAIN
    },
    Kind {
        names: &[("HLT, with halt polling", "the same as KVM is set, after half of halt_poll_ns")],
        entries: &[Entry::HltIpi, Entry::Waker],
        polled: true,
        executes: &[("hlt", 1), ("msr", 2)],
        ..PLAIN
    },
    Kind {
        names: &[
            ("WRMSR ICR: IPI to a busy vCPU", "around the instruction"),
            ("IPI to a busy vCPU", "before WRMSR ICR to handler"),
        ],
        entries: &[Entry::Ipi, Entry::Receiver],
        executes: &[("msr", 2)],
        ..PLAIN
    },
    Kind {
        names: &[("WRMSR EOI", "around the instruction; each sample's interrupt is a self-IPI")],
        entries: &[Entry::Eoi],
        executes: &[("msr", 2)],
        ..PLAIN
    },
    Kind {
        names: &[("PV EOI", "around the test of its bit, with WRMSR EOI where that was clear")],
        entries: &[Entry::PvEoi],
        // And those EOIs that are written.
        executes: &[("msr", 1)],
        ..PLAIN
    },
];

const EMULATED: &str = "the processor is emulated: its TSC counts instructions";

/// Measures all kinds on this machine, one after the other, with a VM for each.
/// Errors: this machine makes no VM.
pub fn calibrate(samples: u32, events: Events) -> Result<Calibration> {
    let kvm = match Kvm::new() {
        Ok(kvm) => kvm,
        Err(error) => bail!(
            "cannot open /dev/kvm: {error}\n\
             hint: load KVM (modprobe kvm_amd or kvm_intel) and be root or in group kvm; in the \
             lab: paratick lab run --in host -- paratick calibrate"
        ),
    };
    if let Err(error) = kvm.create_vm() {
        bail!(
            "/dev/kvm makes no VM: {error}\n\
             hint: is virtualization enabled in the firmware, or nested by the hypervisor below?"
        );
    }
    let mut all = Calibration {
        schema: SCHEMA.into(),
        machine: facts::machine(),
        meaning: facts::meaning(),
        tsc_khz: None,
        rows: vec![],
        executed: BTreeMap::new(),
    };
    for kind in &KINDS {
        events(Step::Calibrating { exit: kind.names[0].0 }.into());
        let measured = measure(&kvm, kind, samples, &mut all);
        let measured = measured.map_err(|error| format!("{error:#}"));
        let emulated = all.meaning == Meaning::Emulated;
        all.rows.extend(rows(kind, samples, &measured, emulated));
    }
    Ok(all)
}

/// Whether a vCPU ran and exited: of a VM that is gone again.
pub fn exits() -> bool {
    let vm = Kvm::new()
        .map_err(Into::into)
        .and_then(|kvm| MicroVm::new(&kvm, &Shape { vcpus: 1, halt_polling: false }));
    vm.and_then(|mut vm| vm.run(&[Entry::Prepare], 0, 0)).is_ok()
}

/// The samples of one kind, in a VM of its own.
fn measure(kvm: &Kvm, kind: &Kind, samples: u32, all: &mut Calibration) -> Result<Session> {
    let pv_eoi = kind.entries == [Entry::PvEoi];
    if pv_eoi && !has_pv_eoi(kvm) {
        bail!("KVM of this machine does not offer it");
    }
    let delay_ns = match (kind.polled, halt_poll_ns()) {
        (false, _) => kind.delay_ns,
        (true, None) => bail!("kvm.halt_poll_ns is not known"),
        (true, Some(0)) => bail!("kvm.halt_poll_ns is 0"),
        (true, Some(most)) => most / 2,
    };
    let vcpus = kind.entries.len() as u64;
    let mut vm =
        MicroVm::new(kvm, &Shape { vcpus: kind.entries.len(), halt_polling: kind.polled })?;
    all.tsc_khz = all.tsc_khz.or(vm.tsc_khz());
    let delay = match (delay_ns, vm.tsc_khz()) {
        (0, _) => 0,
        (_, None) => bail!("KVM does not say how fast the TSC is"),
        (ns, Some(khz)) => (u128::from(ns) * u128::from(khz) / 1_000_000) as u64,
    };
    let mut count = |reason: &str, times: u64| {
        *all.executed.entry(reason.into()).or_default() += times;
    };
    // A session ends with an OUT of each vCPU.
    let prepare = if pv_eoi { Entry::PreparePvEoi } else { Entry::Prepare };
    vm.run(&vec![prepare; kind.entries.len()], 0, 0)?;
    count("msr", (2 + u64::from(pv_eoi)) * vcpus);
    count("io", vcpus);
    // Then every page of the samples is there.
    vm.run(&[Entry::Empty], samples, 0)?;
    count("io", 1);
    let mut run = |samples: u32| -> Result<Session> {
        let session = vm.run(kind.entries, samples, delay)?;
        for (reason, times) in kind.executes {
            count(reason, times * u64::from(samples));
        }
        count("msr", kind.more + session.eois);
        count("io", vcpus);
        Ok(session)
    };
    run(WARM_UP)?;
    run(samples)
}

/// The rows of one kind.  The exits belong to the first.
fn rows(kind: &Kind, samples: u32, measured: &Result<Session, String>, emulated: bool) -> Vec<Row> {
    let row = |((name, between), nth): (&(&str, &str), usize)| {
        let session = measured.as_ref().ok().filter(|_| !emulated);
        let spread = session.map(|session| spread(&session.series[nth]));
        let exits = measured.as_ref().ok().and_then(|session| session.exits);
        Row {
            name: name.to_string(),
            between: between.to_string(),
            samples: if measured.is_ok() { samples } else { 0 },
            exits_per_sample: exits.filter(|_| nth == 0).map(|exits| {
                // One of them is the end of the session.
                exits.saturating_sub(1) as f64 / f64::from(samples)
            }),
            cycles: spread.as_ref().and_then(|spread| spread.as_ref().ok().copied()),
            not_measured: match (measured, spread) {
                (Err(why), _) => Some(why.clone()),
                (_, Some(Err(why))) => Some(why),
                (_, Some(Ok(_))) => None,
                (_, None) => Some(EMULATED.into()),
            },
        }
    };
    kind.names.iter().zip(0..).map(row).collect()
}

fn spread(samples: &[u64]) -> Result<Spread, String> {
    if samples.iter().any(|sample| *sample > i64::MAX as u64) {
        return Err("an interrupt came before it was due: the TSCs of two CPUs differ".into());
    }
    Spread::of(samples.to_vec()).ok_or("there are no samples".into())
}

fn has_pv_eoi(kvm: &Kvm) -> bool {
    let Ok(cpuid) = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES) else { return false };
    let mut leaves = cpuid.as_slice().iter();
    leaves.any(|leaf| leaf.function == 0x4000_0001 && leaf.eax >> 6 & 1 == 1)
}

fn halt_poll_ns() -> Option<u64> {
    fs::read_to_string("/sys/module/kvm/parameters/halt_poll_ns").ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests;
