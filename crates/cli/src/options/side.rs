// SPDX-License-Identifier: GPL-2.0-only
//! Who looks at a guest: itself, its host, or both.

use super::{duration, Save};
use clap::{Args, ValueEnum};
use paratick_bench::noise::Sides;
use std::time::Duration;

/// Of a guest and its host, which the lab boots for it.
#[derive(Args)]
pub struct Recording {
    /// For how long to record, in the guest's time
    #[arg(long = "for", id = "for", value_name = "TIME", default_value = "3s")]
    #[arg(value_parser = duration)]
    pub time: Duration,
    /// Who looks
    #[arg(long, value_name = "SIDE", default_value = "both")]
    side: Side,
    #[command(flatten)]
    pub save: Save,
    /// Stop after this (wall-clock) time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub timeout: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Side {
    Both,
    Host,
    Guest,
}

impl Recording {
    pub fn sides(&self) -> Sides {
        Sides { host: self.side != Side::Guest, guest: self.side != Side::Host, sampler: None }
    }
}

/// On this machine, which is one of them.
#[derive(Args)]
pub struct Role {
    /// What this machine is: the host of the VMs that are looked at, or the guest that is
    #[arg(long, value_name = "SIDE", default_value = "host")]
    side: Here,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Here {
    Host,
    Guest,
}

impl Role {
    pub fn sides(&self) -> Sides {
        let guest = self.side == Here::Guest;
        Sides { host: !guest, guest, sampler: None }
    }
}
