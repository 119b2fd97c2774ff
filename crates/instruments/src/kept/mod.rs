// SPDX-License-Identifier: GPL-2.0-only
//! What KVM keeps of one VM and no exit tells: why AVIC or APICv is inhibited, whether the guest
//! has kvm-clock, and whether the VMM raises a line that is masked.  Some of it is where BTF says,
//! and not known without.
//!
//! bpf/kept.bpf.c reads and counts.

mod raw;

use crate::{bpf, btf::Btf, tracefs::Tracefs};
use anyhow::{Context, Result};
use aya::{maps::Array, Ebpf};

const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/kept.bpf.o"));

/// The names of reasons begin so.
const REASON: &str = "APICV_INHIBIT_REASON_";

/// Told by tracepoints; each has a BPF program of its name.
const CHANGES: &str = "kvm_apicv_inhibit_changed";
const WRITES: &str = "kvm_pvclock_update";
const LINES: [&str; 3] = ["kvm_set_irq", "kvm_pic_set_irq", "kvm_ioapic_set_irq"];

pub struct Keeper {
    ebpf: Ebpf,
    /// As the kernel calls the reasons, by their bits.
    names: Vec<(String, u32)>,
    /// Whether it tells of lines.
    lines: bool,
}

/// Since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// None without BTF, or without an entry.
    pub read: Option<Fields>,
    /// How often reasons to inhibit AVIC or APICv came or went.
    pub changes: u64,
    /// How often KVM wrote the time into a page of kvm-clock.
    pub writes: u64,
    /// How often the VMM raised the line of the PIT, which an HPET takes over.  None: nobody tells.
    pub pulses: Option<u64>,
    /// How often that line's level was set while the PIC or the IO-APIC did not mask it.
    pub unmasked: u64,
}

/// What was read at entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Why AVIC or APICv is inhibited, all the while, as the kernel calls the reasons.
    pub always: Vec<String>,
    /// … and at times.
    pub at_times: Vec<String>,
    /// Whether a vCPU has a page of kvm-clock.
    pub has_clock: bool,
}

impl Keeper {
    /// For the VM of this process.
    ///
    /// # Errors
    ///
    /// Its programs cannot be loaded or attached.
    pub fn start(process: u32) -> Result<Keeper> {
        const WHAT: &str = "what KVM keeps of a VM cannot be read";
        let tracefs = Tracefs::open().context(WHAT)?;
        let btf = Btf::of_module("kvm");
        let fields = btf.as_ref().and_then(fields);
        let mut offsets: Vec<_> = fields.into_iter().flatten().collect();
        offsets.push(("process", process));
        let mut ebpf = bpf::load(OBJECT, &offsets, &[]).context(WHAT)?;
        let has = |event: &str| tracefs.has(&format!("kvm/{event}"));
        // One of them alone would say too little.
        let lines = LINES.into_iter().all(has);
        let others = [CHANGES, WRITES].into_iter().filter(|event| has(event));
        for event in others.chain(LINES.into_iter().filter(|_| lines)) {
            bpf::attach_raw(&mut ebpf, event, event).context(WHAT)?;
        }
        if fields.is_some() {
            bpf::attach_raw(&mut ebpf, "kvm_entry", "kvm_entry").context(WHAT)?;
        }
        Ok(Keeper { ebpf, names: btf.map(|btf| names(&btf)).unwrap_or_default(), lines })
    }

    pub fn read(&self) -> Result<Kept> {
        let all: Array<_, raw::Kept> =
            Array::try_from(self.ebpf.map("all").context("no BPF map")?)?;
        Ok(named(&all.get(&0, 0)?, &self.names, self.lines))
    }
}

/// Where they are; none where one cannot be read.
fn fields(btf: &Btf) -> Option<[(&'static str, u32); 3]> {
    // Before 5.10 it begins with the vCPU's number.
    btf.begins_with("kvm_entry", "kvm_vcpu").then_some(())?;
    let page = || {
        let page = btf.offset("kvm_vcpu_arch", "pv_time")?;
        Some(page + btf.offset("gfn_to_pfn_cache", "active")?)
    };
    // Before 5.18 it has a field of its own.
    let has_clock = btf.offset("kvm_vcpu_arch", "pv_time_enabled").or_else(page)?;
    let inhibits = btf.offset("kvm_arch", "apicv_inhibit_reasons")?;
    Some([
        ("vcpu_kvm_at", btf.offset("kvm_vcpu", "kvm")?),
        ("kvm_inhibits_at", btf.offset("kvm", "arch")? + inhibits),
        ("vcpu_clock_at", btf.offset("kvm_vcpu", "arch")? + has_clock),
    ])
}

/// They have other bits in other kernels.
fn names(btf: &Btf) -> Vec<(String, u32)> {
    let all = btf.values("kvm_apicv_inhibit").into_iter();
    all.filter_map(|(name, bit)| Some((name.strip_prefix(REASON)?.to_string(), bit))).collect()
}

fn named(kept: &raw::Kept, names: &[(String, u32)], lines: bool) -> Kept {
    let name = |bit: u32| match names.iter().find(|(_, its)| *its == bit) {
        Some((name, _)) => name.clone(),
        None => format!("bit {bit}"),
    };
    let all = |bits: u64| (0..u64::BITS).filter(|bit| bits >> bit & 1 == 1).map(name).collect();
    let read = (kept.entries > 0).then(|| Fields {
        always: all(kept.ever & !kept.not_always),
        at_times: all(kept.ever & kept.not_always),
        has_clock: kept.clocks > 0,
    });
    let (pulses, unmasked) = (lines.then_some(kept.pulses), kept.unmasked);
    Kept { read, changes: kept.changes, writes: kept.writes, pulses, unmasked }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_stay_and_those_that_come_and_go_are_told_apart() {
        let names = [("DISABLED".to_string(), 0), ("IRQWIN".to_string(), 8)];
        let raw = raw::Kept {
            entries: 9,
            ever: 1 << 8 | 1 << 3 | 1,
            not_always: !(1 << 3 | 1),
            clocks: 4,
            changes: 5,
            writes: 6,
            pulses: 7,
            level: 1,
            unmasked: 8,
        };
        let kept = named(&raw, &names, true);
        assert_eq!((kept.pulses, kept.unmasked), (Some(7), 8));
        let read = kept.read.unwrap();
        assert_eq!((kept.changes, kept.writes, read.has_clock), (5, 6, true));
        assert_eq!(
            (read.always, read.at_times),
            (vec!["DISABLED".into(), "bit 3".into()], vec!["IRQWIN".to_string()])
        );
    }

    #[test]
    fn without_an_entry_nothing_is_known() {
        let raw = raw::Kept { writes: 1, pulses: 1, ..raw::Kept::default() };
        let kept = named(&raw, &[], false);
        assert_eq!((kept.read, kept.pulses), (None, None));
    }
}
