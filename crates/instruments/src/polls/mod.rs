// SPDX-License-Identifier: GPL-2.0-only
//! Records how each CPU of this guest polls and halts when it is idle, from tracepoints of stock
//! kernels and what cpuidle keeps of each CPU.
//!
//! bpf/polls.bpf.c makes a record of each idle state; [`gather`] makes halts of the records.

mod gather;
mod program;
mod raw;

use crate::{
    bpf::{self, Records},
    clock::now_ns,
    Instrument,
};
use anyhow::{bail, Result};
use aya::Ebpf;
use gather::{gather, Recorded};
use paratick_core::halts::{GuestRule, Halts, Rule};
use raw::{Idling, POLL_LOST, POLL_STRANGE};
use std::{fs, path::Path};

/// The governor's parameters (drivers/cpuidle/governors/haltpoll.c).
const PARAMETERS: &str = "/sys/module/haltpoll/parameters";
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

pub struct PollRecorder {
    ebpf: Ebpf,
    begun_ns: u64,
    rule: Option<Rule>,
    records: Records<Idling>,
}

impl Instrument for PollRecorder {
    const NAME: &'static str = "polls";
    type Reading = Halts;

    fn start() -> Result<PollRecorder> {
        let mut ebpf = program::load()?;
        let records = Records::of(&mut ebpf)?;
        let rule = rule();
        Ok(PollRecorder { ebpf, begun_ns: now_ns(), rule, records })
    }

    /// All that ended since the start; the last state of each CPU is not among them.
    ///
    /// Fails if one could not be recorded, or this kernel's cpuidle is not one that we know.
    fn read(&mut self) -> Result<Halts> {
        self.records.drain()?;
        bpf::check_lost(&self.ebpf, POLL_LOST, "idle states", "record for a shorter time")?;
        if bpf::state(&self.ebpf, POLL_STRANGE)? != 0 {
            bail!(
                "this kernel's cpuidle keeps its numbers elsewhere\n\
                 hint: record the host's side, or use a kernel from 5.7 to 6.12"
            );
        }
        let now = rule();
        let recorded = Recorded {
            begun_ns: self.begun_ns,
            ended_ns: now_ns(),
            // One that was changed meanwhile is not the rule of this recording.
            rule: now.filter(|_| now == self.rule),
            records: self.records.taken(),
        };
        Ok(gather(&recorded))
    }
}

/// The governor's rule; none where it does not decide, or learns.
fn rule() -> Option<Rule> {
    let driver = fs::read_to_string(DRIVER).ok()?;
    (driver.trim() == "haltpoll").then(|| rule_in(Path::new(PARAMETERS))).flatten()
}

fn rule_in(parameters: &Path) -> Option<Rule> {
    let read = |name: &str| {
        let text = fs::read_to_string(parameters.join(format!("guest_halt_poll_{name}"))).ok()?;
        Some(text.trim().to_string())
    };
    let number = |name: &str| read(name)?.parse().ok();
    // Only a kernel with the series has it.
    if read("learn").as_deref() == Some("Y") {
        return None;
    }
    Some(Rule::Guest(GuestRule {
        max: number("ns")?,
        grow: number("grow")?,
        grow_start: number("grow_start")?,
        shrink: number("shrink")?,
        allow_shrink: read("allow_shrink")? == "Y",
    }))
}

#[cfg(test)]
mod tests;
