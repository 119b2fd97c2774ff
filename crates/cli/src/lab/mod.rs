// SPDX-License-Identifier: GPL-2.0-only
//! `paratick lab`: any command of this machine in a guest, on a host that is emulated or real.

mod dry_run;
mod inside;
mod run;
mod shell;

use crate::{halts, idle, noise, signals, timerlat};
use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;

/// Boot a host and a guest, run commands in them, and look at both
#[derive(Subcommand)]
pub enum Verb {
    /// Run a command of this machine in a guest, or on its host
    ///
    /// The guest sees this machine's files, read-only; /tmp, /var/tmp, /run and /dev/shm are its
    /// own.  Its output and exit code are passed through.  Other exit codes: 124 the time limit
    /// was reached, 127 no such command, 2 wrong usage, 69 the lab could not run or a kernel
    /// failed.  A host and guest that have booted are kept for the next time (docs/lab.md).
    Run(run::Options),
    /// Open a shell in the guest or in the host
    ///
    /// Leaving the shell ends the lab.
    Shell(shell::Options),
    /// Say where a guest's time goes while it does not run on
    ///
    /// Lets osnoise sample on all CPUs of a guest, or a program where its kernel has no osnoise,
    /// records every exit on its host, and splits each gap of the samples into disjoint parts that
    /// add up to it. Stock kernels can be recorded. docs/noise.md explains the tables.
    /// Exit codes: 0 done, 1 the emulator counted other exits, or the budget was not met in
    /// --confirm's second measurement, 2 wrong usage, 69 could not be recorded.
    Noise(Box<noise::lab::Args>),
    /// Say what wakes a guest that should be idle, and what each wake-up costs in exits
    ///
    /// Records every interrupt, every timer with who started it, and every exit, for a guest that
    /// runs COMMAND or nothing.  Each exit is charged to what woke the vCPU: a timer of a process
    /// or of the kernel, a device, or whatever woke the CPU from which it was woken. Stock kernels
    /// can be recorded. docs/idle.md explains the tables.
    /// Exit codes: 0 done, 2 wrong usage, 69 could not be recorded.
    Idle(Box<idle::lab::Args>),
    /// Find for how long KVM should poll for a guest that runs COMMAND
    ///
    /// Records every halt while the command runs, such as `paratick-agent workload pingpong --work
    /// 1000`, and says what they would have cost under each rule of polling.
    /// docs/halt-polling.md explains the table.
    /// Exit codes: 0 done, 1 with --apply a prediction that did not come true, 2 wrong usage, 69
    /// the host could not be recorded.
    Halts(Box<halts::lab::Args>),
    /// Say where the time goes between the deadline of a guest's timer and the thread that waits
    /// for it
    ///
    /// Lets the kernel's timerlat run on all CPUs of a guest, or a program where its kernel has no
    /// timerlat, beside COMMAND or nothing, follows each deadline through the host, and splits the
    /// latency into parts that add up to it. Stock kernels can be measured. docs/noise.md explains
    /// the parts.
    /// Exit codes: 0 done, 2 wrong usage, 69 could not be recorded.
    Timerlat(Box<timerlat::lab::Args>),
}

pub fn run(verb: Verb) -> Result<ExitCode> {
    signals::watch()?;
    match verb {
        Verb::Run(options) => run::run(options),
        Verb::Shell(options) => shell::run(options),
        Verb::Noise(args) => noise::lab::run(&args),
        Verb::Idle(args) => idle::lab::run(&args),
        Verb::Halts(args) => halts::lab::run(&args),
        Verb::Timerlat(args) => timerlat::lab::run(&args),
    }
}
