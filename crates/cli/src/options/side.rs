// SPDX-License-Identifier: GPL-2.0-only
//! Who looks at a guest: itself, its host, or both.

use clap::{Args, ValueEnum};
use paratick_bench::noise::Sides;

/// In the lab, which has both.
#[derive(Args)]
pub struct SideChoice {
    /// Who looks
    #[arg(long, value_name = "SIDE", default_value = "both")]
    side: Side,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Side {
    Both,
    Host,
    Guest,
}

impl SideChoice {
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
