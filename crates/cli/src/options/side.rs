// SPDX-License-Identifier: GPL-2.0-only
//! Who looks at a guest: itself, its host, or both.

use super::LabOptions;
use crate::errors::usage;
use anyhow::Result;
use clap::{Args, ValueEnum};
use paratick_bench::noise::Sides;

#[derive(Args)]
pub struct SideChoice {
    /// Who looks [default: both in the lab, host with --host here]
    #[arg(long, value_name = "SIDE")]
    side: Option<Side>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Side {
    Both,
    Host,
    Guest,
}

impl SideChoice {
    pub fn sides(&self, lab: &LabOptions) -> Result<Sides> {
        let boots = lab.host.host.boots();
        let side = self.side.unwrap_or(if boots { Side::Both } else { Side::Host });
        if side == Side::Both && !boots {
            return Err(usage(
                "this machine is either the host or the guest\n\
                 hint: give --side host for the VMs that run on it, --side guest if it is a VM",
            ));
        }
        Ok(Sides { host: side != Side::Guest, guest: side != Side::Host, sampler: None })
    }
}
