// SPDX-License-Identifier: GPL-2.0-only
//! `paratick lab halts`.

use super::shown::Shown;
use crate::{
    errors::usage,
    options::{check_agent, duration, LabOptions},
    progress,
};
use anyhow::Result;
use clap::{Args as Arguments, ValueEnum};
use paratick_bench::tune;
use paratick_core::{event::Events, halts::Halts};
use paratick_machine::{guest::Guest, host::Host, spec::Clock};
use std::{process::ExitCode, time::Duration};

/// Instructions in a round of the lab's parallel clock, so about ns: the shortest polls take less
/// than its usual 4000.
const ROUND: u32 = 200;

#[derive(Arguments)]
pub struct Args {
    #[command(flatten)]
    lab: LabOptions,
    /// Whose polling: KVM's, before it lets a vCPU's thread sleep, or the guest's own, before it
    /// halts (needs a mode with +poll)
    #[arg(long, value_name = "SIDE", default_value = "host")]
    side: Side,
    /// Stop the command after this (wall-clock) time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    shown: Shown,
    /// What the guest runs while it is recorded, with arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Side {
    Host,
    Guest,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    args.lab.check_recorded("halts")?;
    args.check()?;
    let (host, guest, halts) = progress::during(|events| {
        let (host, guest) = args.boot(events)?;
        if args.shown.applies() {
            // The first run of a program is not like those that follow: it fills caches.
            args.record(&host, &guest)?;
        }
        let halts = args.record(&host, &guest);
        Ok((host, guest, halts))
    })?;
    let code = args.shown.conclude(&host, &|| args.record(&host, &guest), halts, false)?;
    guest.shutdown()?;
    host.shutdown()?;
    Ok(code)
}

impl Args {
    fn check(&self) -> Result<()> {
        self.shown.check()?;
        if self.side == Side::Guest && self.shown.applies() {
            return Err(usage(
                "--apply sets the host\n\
                 hint: give the guest its rule at boot, by a mode such as +poll-50k",
            ));
        }
        if self.command.is_empty() {
            return Err(usage(
                "nothing is to run in the lab's guest\n\
                 hint: end the command line in `-- COMMAND`, such as `-- paratick-agent workload \
                 pingpong --work 1000`; `paratick halts` records this machine's VMs",
            ));
        }
        check_agent()
    }

    fn boot(&self, events: Events) -> Result<(Host, Guest)> {
        let mut plan = self.lab.plan(Clock::Leaping, events)?;
        plan.host.emulation.round = self.lab.parallel_clock.then_some(ROUND);
        plan.boot(events)
    }

    fn record(&self, host: &Host, guest: &Guest) -> Result<Halts> {
        let (argv, limit) = (&self.command, self.timeout);
        match self.side {
            Side::Guest => tune::record_in(guest, argv, limit),
            Side::Host => tune::record(host, guest, argv, limit),
        }
    }
}
