// SPDX-License-Identifier: GPL-2.0-only
//! Records every step of every vCPU of this host between an exit and the next entry, and when KVM's
//! timer for it expires.  Stock kernels can be recorded.
//!
//! bpf/steps.bpf.c makes a record of each.

mod program;
mod raw;

use crate::{
    bpf::{self, Records},
    clock,
    facts::explain,
    tsc_offsets, Instrument,
};
use anyhow::{bail, Result};
use aya::Ebpf;
use paratick_core::{
    latency::{HostSteps, Step, What},
    noise::{Clock, Instant},
};
use raw::{
    Step as Record, STEPS_LOST, STEP_ENTRY, STEP_EXIT, STEP_OUT, STEP_RUNS, STEP_TIMER, STEP_WOKEN,
};

pub struct StepRecorder {
    ebpf: Ebpf,
    begun: Instant,
    records: Records<Record>,
}

impl Instrument for StepRecorder {
    const NAME: &'static str = "steps";
    type Reading = HostSteps;

    fn start() -> Result<StepRecorder> {
        let mut ebpf = program::load()?;
        let records = Records::of(&mut ebpf)?;
        Ok(StepRecorder { ebpf, begun: clock::with_tsc(), records })
    }

    fn drain(&mut self) -> Result<()> {
        self.records.drain()
    }

    /// All steps since the start.
    ///
    /// Fails if one could not be recorded.
    fn read(&mut self) -> Result<HostSteps> {
        self.drain()?;
        let hint = "record for a shorter time, or fewer guests";
        bpf::check_lost(&self.ebpf, STEPS_LOST, "steps", hint)?;
        let mut steps: Vec<Step> =
            self.records.taken().iter().map(gather).collect::<Result<_>>()?;
        steps.sort_by_key(|step| step.at_ns);
        Ok(HostSteps {
            clock: Clock { begin: self.begun, end: clock::with_tsc() },
            tsc_offsets: tsc_offsets::read(),
            steps,
        })
    }
}

fn gather(record: &Record) -> Result<Step> {
    let what = match record.kind {
        STEP_EXIT => What::Exit,
        STEP_TIMER => What::Timer,
        STEP_OUT => What::Out,
        STEP_WOKEN => What::Woken,
        STEP_RUNS => What::Runs,
        STEP_ENTRY => {
            let exit = explain(record.isa, record.reason, record.detail, record.facts);
            What::Entry { cause: exit.cause, reason: exit.words() }
        }
        other => bail!("a step of an unknown kind, {other}"),
    };
    Ok(Step { process: record.tgid, vcpu: record.vcpu, at_ns: record.at_ns, what })
}

#[cfg(test)]
mod tests {
    use super::*;
    use paratick_core::cause::Cause;

    #[test]
    fn an_entry_says_what_the_exit_was() {
        let record =
            Record { at_ns: 7, tgid: 5, vcpu: 1, kind: STEP_ENTRY, isa: 2, ..Record::default() };
        let msr = Record { reason: 0x7c, detail: 0x6e0, facts: 0b111, ..record };
        let step = gather(&msr).unwrap();
        assert_eq!((step.process, step.vcpu, step.at_ns), (5, 1, 7));
        let What::Entry { cause, reason } = step.what else { panic!("{step:?}") };
        assert_eq!((cause, reason.as_str()), (Cause::Arm, "TSC_DEADLINE"));
        assert_eq!(gather(&Record { kind: STEP_TIMER, ..record }).unwrap().what, What::Timer);
        assert!(gather(&Record { kind: 9, ..record }).is_err());
    }
}
