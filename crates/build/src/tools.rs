// SPDX-License-Identifier: GPL-2.0-only
//! The programs that a lab is made of.

use crate::{
    cache,
    emulator::{self, Emulator, Variant},
    initramfs,
    qemu::{named_qemu, system_qemu},
};
use anyhow::{bail, Result};
use paratick_core::event::Events;
use std::{
    env,
    path::{Path, PathBuf},
};

const AGENT: &str = "paratick-agent";

/// Everything is a path of the machine; the host and the guests see the same files.  The default
/// has none: enough to look at VMs that run already, where nothing is started.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    /// Runs the host, and in it the guests.
    pub qemu: PathBuf,
    /// Folders of firmware, for a QEMU that does not know its own.
    pub firmware: Vec<PathBuf>,
    pub agent: PathBuf,
    /// The first root file system of hosts and guests, with the agent in it;
    /// [`Tools::initramfs_of`] has that of one kernel.
    pub initramfs: PathBuf,
    /// Whether this QEMU counts world switches.
    pub qemu_counts: bool,
    /// What hosts and guests must see, even where it lies in a folder that they have of their own.
    pub shown: Vec<PathBuf>,
}

impl Tools {
    /// For the lab: its own emulator, built unless the cache has it.
    pub fn find(events: Events) -> Result<Tools> {
        // The agent first: what is quickly found missing should not be found after a build.
        let agent = find_agent()?;
        Tools::with(emulator::ensure(events)?, agent)
    }

    /// For showing what would be run: nothing is built.
    pub fn built() -> Result<Tools> {
        let agent = find_agent()?;
        if let Some(qemu) = named_qemu()? {
            return Tools::with(emulator::named(qemu)?, agent);
        }
        match emulator::built(Variant::Fixed)? {
            Some(emulator) => Tools::with(emulator, agent),
            None => bail!(
                "the lab's emulator is not built\nhint: `paratick emulator build` builds it, once"
            ),
        }
    }

    /// For this machine as the host: the QEMU that it has.
    pub fn of_the_machine() -> Result<Tools> {
        let agent = find_agent()?;
        let qemu = named_qemu()?.map_or_else(system_qemu, Ok)?;
        Tools::with(emulator::named(qemu)?, agent)
    }

    pub fn with(emulator: Emulator, agent: PathBuf) -> Result<Tools> {
        Ok(Tools {
            qemu: emulator.qemu,
            firmware: emulator.firmware,
            qemu_counts: emulator.counts,
            initramfs: initramfs::of_agent(&agent)?,
            shown: vec![agent.clone(), cache::shown()?],
            agent,
        })
    }
}

impl Tools {
    /// The first root file system of a host or guest with this kernel.
    pub fn initramfs_of(&self, bzimage: &Path) -> Result<PathBuf> {
        initramfs::of_kernel(&self.initramfs, bzimage)
    }
}

/// The agent: `$PARATICK_AGENT`, else next to this program, else where the package of the lab has
/// it.
pub fn find_agent() -> Result<PathBuf> {
    if let Some(agent) = env::var_os("PARATICK_AGENT") {
        let agent = PathBuf::from(agent);
        if !agent.is_file() {
            bail!(
                "PARATICK_AGENT is {}, which is not a file\n\
                 hint: unset it, or build the agent with `make`",
                agent.display()
            );
        }
        return Ok(fs_err::canonicalize(agent)?);
    }
    let here = env::current_exe()?;
    let above = here.parent().and_then(Path::parent);
    let packaged = above.map(|folder| folder.join("libexec/paratick"));
    let places = [here.parent(), above, packaged.as_deref()];
    let found =
        places.into_iter().flatten().map(|folder| folder.join(AGENT)).find(|file| file.is_file());
    match found {
        Some(agent) => Ok(fs_err::canonicalize(agent)?),
        None => bail!(
            "no {AGENT} next to {}: the lab is not installed\n\
             hint: install the package paratick-lab, or build the agent with `make`, or set \
             PARATICK_AGENT to it",
            here.display()
        ),
    }
}
