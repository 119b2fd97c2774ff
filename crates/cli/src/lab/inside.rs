// SPDX-License-Identifier: GPL-2.0-only
//! Where a command or a shell runs: `--in`.

use crate::options::{refuse, LabOptions};
use anyhow::Result;
use clap::ValueEnum;
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Inside {
    Host,
    Guest,
}

/// By their fields' names.
const OF_A_GUEST: &[&str] =
    &["mode", "sockets", "machine", "cpu", "append", "root", "qemu_arg", "disk_device", "exits"];

impl Inside {
    /// Without a guest, nothing that is for guests may be asked for.
    pub fn check(self, lab: &LabOptions) -> Result<()> {
        match self {
            Inside::Host => {
                refuse(OF_A_GUEST, "with --in host")?;
                lab.check_host([])
            }
            Inside::Guest => lab.check(),
        }
    }
}

impl fmt::Display for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Inside::Host => "host",
            Inside::Guest => "guest",
        })
    }
}
