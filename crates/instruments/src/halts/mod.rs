// SPDX-License-Identifier: GPL-2.0-only
//! Records every halt of every vCPU of this host: how long it was, how much of it KVM polled, what
//! ended it.  Stock kernels can be recorded.
//!
//! bpf/halts.bpf.c makes a record of each; [`gather`] makes halts of the records.

mod gather;
mod program;
mod raw;

use crate::{
    bpf::{self, Records},
    clock::now_ns,
    Instrument,
};
use anyhow::Result;
use aya::Ebpf;
pub use gather::waker;

use gather::{gather, Recorded};
use paratick_core::halts::{Floor, Halts, HostRule, LearnedRule, Rule};
use raw::{Record, HALT_LOST};
use std::{fs, path::Path};

/// KVM's parameters (virt/kvm/kvm_main.c).
const PARAMETERS: &str = "/sys/module/kvm/parameters";

pub struct HaltRecorder {
    ebpf: Ebpf,
    begun_ns: u64,
    rule: Option<Rule>,
    records: Records<Record>,
}

impl Instrument for HaltRecorder {
    const NAME: &'static str = "halts";
    type Reading = Halts;

    fn start() -> Result<HaltRecorder> {
        let mut ebpf = program::load()?;
        let records = Records::of(&mut ebpf)?;
        let rule = rule_in(Path::new(PARAMETERS));
        Ok(HaltRecorder { ebpf, begun_ns: now_ns(), rule, records })
    }

    fn restart(mut self) -> Result<HaltRecorder> {
        self.records.forget()?;
        self.rule = rule_in(Path::new(PARAMETERS));
        self.begun_ns = now_ns();
        Ok(self)
    }

    fn drain(&mut self) -> Result<()> {
        self.records.drain()
    }

    /// All halts since the start that ended in a window that a guest marked; where none did, all.
    ///
    /// Fails if a halt could not be recorded: without it nothing can be replayed.
    fn read(&mut self) -> Result<Halts> {
        self.drain()?;
        bpf::check_lost(
            &self.ebpf,
            HALT_LOST,
            "halts",
            "record for a shorter time, or fewer guests",
        )?;
        let rule = rule_in(Path::new(PARAMETERS));
        let recorded = Recorded {
            begun_ns: self.begun_ns,
            ended_ns: now_ns(),
            // One that was changed meanwhile is not the rule of this recording.
            rule: rule.filter(|_| rule == self.rule),
            records: self.records.taken(),
        };
        Ok(gather(&recorded))
    }
}

/// KVM's rule, with the parameters of a folder.
fn rule_in(parameters: &Path) -> Option<Rule> {
    let read = |name: &str| fs::read_to_string(parameters.join(name)).ok()?.trim().parse().ok();
    let grow_start = read("halt_poll_ns_grow_start")?;
    let max = read("halt_poll_ns")?;
    // Only the series halt-polling has it.
    let learns = fs::read_to_string(parameters.join("halt_poll_learn"));
    if learns.is_ok_and(|said| said.trim() == "Y") {
        return Some(Rule::Learned(LearnedRule { max, cost: read("halt_poll_cost_ns")? }));
    }
    // Only the lab's kernel has it.
    let floor = match read("halt_poll_floor") {
        None | Some(0) => Floor::ToZero,
        Some(1) => Floor::None,
        Some(_) => Floor::At(grow_start),
    };
    Some(Rule::Host(HostRule {
        max,
        grow: read("halt_poll_ns_grow")?,
        grow_start,
        shrink: read("halt_poll_ns_shrink")?,
        floor,
    }))
}

#[cfg(test)]
mod tests;
