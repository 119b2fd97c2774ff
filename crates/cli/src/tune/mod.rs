// SPDX-License-Identifier: GPL-2.0-only
//! `paratick tune`: what to set a host to, predicted from what its guests do.

mod apply;
mod halt_poll;
mod judge;

use crate::signals;
use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;

/// Find what to set a host to, from what its guests do
#[derive(Subcommand)]
pub enum Verb {
    /// Find for how long KVM should poll before a halted vCPU's thread sleeps
    ///
    /// Records every halt of the host's guests, and says what they would have cost under each rule
    /// of polling. With --host here it records the VMs that run on this machine, on any kernel of
    /// 5.8 or newer; in the lab it records a guest that runs COMMAND, such as `paratick-agent
    /// workload pingpong --work 1000`.
    /// docs/halt-polling.md explains the table.
    /// Exit codes: 0 done, 1 with --apply a rule by which a VM loses or a prediction that did not
    /// come true, 2 wrong usage, 69 the host could not be recorded.
    HaltPoll(Box<halt_poll::Options>),
}

pub fn run(verb: Verb) -> Result<ExitCode> {
    signals::watch()?;
    match verb {
        Verb::HaltPoll(options) => halt_poll::run(&options),
    }
}
