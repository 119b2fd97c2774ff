// SPDX-License-Identifier: GPL-2.0-only
//! A host and a guest on it: what the verbs of `lab` have in common.

use super::{named, number, refuse, Disk, HostChoice, Memory, Sockets, Vcpus};
use crate::{errors::usage, print::errln};
use anyhow::Result;
use clap::Args;
use paratick_bench::verify;
use paratick_build::{
    root::{self, System},
    tools::{self, Tools},
};
use paratick_core::{
    catalogue::sets::VCPUS,
    event::{Events, Step},
    mode::Mode,
    size::Size,
    wire::{self, GuestConfig, MachineType},
};
use paratick_machine::{
    guest::Guest,
    host::Host,
    snapshot,
    spec::{Clock, HostSpec},
};
use std::{path::Path, sync::Arc};

const MEMORY: Size = Size::mib(512);

#[derive(Args, Clone)]
pub struct LabOptions {
    /// Tick mode of the guest: periodic, tickless, tickless-stop, paratick-paper, paratick-ticks,
    /// paratick or paratick+coalesce, each also with +nopoll, +poll or +learn
    #[arg(long, default_value = "paratick")]
    pub mode: Mode,
    #[command(flatten)]
    pub size: Vcpus,
    #[command(flatten)]
    sockets: Sockets,
    /// CPUs of the emulated host [default: one more than the guest has]
    #[arg(long, value_name = "N", value_parser = number(1..=VCPUS.end() + 1))]
    pub host_cpus: Option<u32>,
    #[command(flatten)]
    pub memory: Memory,
    #[command(flatten)]
    pub disk: Disk,
    #[command(flatten)]
    pub host: HostChoice,
    /// Let CPUs of an emulated host that are busy at the same time share virtual time, as if they
    /// ran in parallel
    #[arg(long)]
    pub parallel_clock: bool,
    /// The guest's machine type
    #[arg(long, default_value_t = MachineType::Q35, value_parser = named::<MachineType>())]
    pub machine: MachineType,
    /// Further features of the guest's CPU, as QEMU's -cpu takes them: `-tsc-deadline,hv-time`
    #[arg(long, value_name = "FEATURES", default_value = "", allow_hyphen_values = true)]
    pub cpu: String,
    /// A further kernel parameter for the guest (may be repeated)
    #[arg(long, value_name = "PARAMETER")]
    pub append: Vec<String>,
    /// The guest's whole system, which boots with systemd: `debian:12` or `debian:13`, made by
    /// mmdebstrap, or a folder; else the guest sees this machine's files
    #[arg(long, value_name = "SYSTEM")]
    pub root: Option<System>,
    /// A further word for the guest's QEMU (may be repeated)
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub qemu_arg: Vec<String>,
    /// A further kernel parameter for the host (may be repeated)
    #[arg(long, value_name = "PARAMETER")]
    pub host_append: Vec<String>,
    /// Keep the run's folder (consoles, disk)
    #[arg(long)]
    pub keep: bool,
    /// Boot anew: use and make no snapshot
    #[arg(long)]
    pub fresh: bool,
    /// Print both consoles on standard error, from their boot on
    #[arg(long, short)]
    pub verbose: bool,
    /// Print the command lines and run nothing
    #[arg(long)]
    pub dry_run: bool,
}

pub struct LabPlan {
    pub host: HostSpec,
    pub guest: GuestConfig,
    pub tools: Tools,
    /// No snapshot is used or made.
    fresh: bool,
}

impl LabPlan {
    /// The guest is in the mode that was asked for, and the host has its settings; or it fails.
    pub fn boot(&self, events: Events) -> Result<(Host, Guest)> {
        let (host, guest) = self.boot_both(events)?;
        verify::check_host(&host)?;
        verify::check_mode(&guest, self.guest.mode, self.guest.vcpus)?;
        verify::check_sockets(&guest, self.guest.sockets)?;
        verify::check_disk_device(&guest, self.guest.disk_device)?;
        Ok((host, guest))
    }

    fn boot_both(&self, events: Events) -> Result<(Host, Guest)> {
        if !self.fresh && snapshot::obstacle(&self.host, Some(&self.guest)).is_none() {
            return snapshot::host_with(self.host.clone(), self.guest.clone(), &self.tools, events);
        }
        let host = Host::boot(self.host.clone(), &self.tools, events)?;
        let (vcpus, mode) = (self.guest.vcpus, self.guest.mode);
        events(Step::BootingGuest { vcpus, mode }.into());
        let guest = host.start_guest(self.guest(host.run_folder()))?;
        Ok((host, guest))
    }

    /// Without a guest.
    pub fn boot_host(&self, events: Events) -> Result<Host> {
        let host = match self.fresh {
            true => Host::boot(self.host.clone(), &self.tools, events),
            false => snapshot::host(self.host.clone(), &self.tools, events),
        }?;
        verify::check_host(&host)?;
        Ok(host)
    }

    /// The guest, when the run's folder is known.
    pub fn guest(&self, run: &Path) -> GuestConfig {
        let disk = self.host.disks.first().map(|_| self.host.backend.disk(run, 0));
        GuestConfig { disk: disk.map(wire::Disk::File), ..self.guest.clone() }
    }
}

impl LabOptions {
    pub fn check(&self) -> Result<()> {
        self.check_host([&self.mode])
    }

    /// For guests in these modes, or none.
    pub fn check_host<'a>(&self, modes: impl IntoIterator<Item = &'a Mode>) -> Result<()> {
        self.host.check(modes)?;
        self.host.settings.single(self.host.host)?;
        self.sockets.of(self.size.vcpus)?;
        self.disk.check(self.machine)?;
        self.host.kernels.for_disk(self.disk.disk_device)?;
        let (vcpus, host) = (self.size.vcpus, self.host.host);
        match self.host_cpus {
            Some(_) if !host.boots() => Err(usage(format!(
                "--host-cpus is for an emulated host\nhint: omit it with --host {}",
                host.name()
            ))),
            Some(cpus) if cpus <= vcpus => Err(usage(format!(
                "--host-cpus {cpus} is too few for --vcpus {vcpus}\n\
                 hint: the host needs one CPU more than the guest; omit --host-cpus to get that"
            ))),
            _ => Ok(()),
        }
    }

    /// For verbs that record both sides of a guest that they boot.
    pub fn check_recorded(&self, verb: &str) -> Result<()> {
        refuse(&["dry_run"], "where something is recorded")?;
        if !self.host.host.boots() {
            return Err(usage(format!(
                "`paratick lab {verb}` boots a host of its own\n\
                 hint: `paratick {verb}` looks at the VMs that run on this machine"
            )));
        }
        self.check()
    }

    pub fn plan(&self, clock: Clock, events: Events) -> Result<LabPlan> {
        let backend = self.host.host;
        let kernels = self.host.kernels.for_disk(self.disk.disk_device)?;
        let (tools, (kernel, host_kernel)) = if self.dry_run {
            let kernels = kernels.built(self.root.as_ref(), events)?;
            (backend.tools(None)?, kernels)
        } else {
            (backend.tools(Some(&mut *events))?, kernels.ensure(self.root.as_ref(), events)?)
        };
        let (vcpus, memory) = (self.size.vcpus, self.memory.memory.unwrap_or(MEMORY));
        let mut host = HostSpec::for_guests(backend, host_kernel.image, vcpus, memory);
        host.boot.cpus = self.host_cpus.unwrap_or(host.boot.cpus);
        host.boot.append = self.host_append.clone();
        host.disks = self.disk.disk.into_iter().collect();
        host.settings = self.host.settings.single(backend)?;
        self.host.emulation.apply(&mut host);
        host.emulation.clock = clock;
        host.emulation.parallel_clock = self.parallel_clock;
        host.keep = self.keep;
        host.console = self.verbose.then(console);
        let mut guest = GuestConfig::new(kernel.image, vcpus, memory, self.mode);
        guest.root_disk = kernel.root_disk;
        guest.cpu = self.cpu.clone();
        guest.append = self.append.clone();
        guest.machine = self.machine;
        guest.sockets = self.sockets.of(vcpus)?;
        guest.disk_device = self.disk.disk_device;
        guest.qemu = self.qemu_arg.clone();
        guest.system = match (&self.root, self.dry_run) {
            (Some(system), false) => Some(root::ensure(system, events)?),
            (Some(system), true) => Some(root::built(system)?),
            (None, _) => None,
        };
        Ok(LabPlan { host, guest, tools, fresh: self.fresh || self.verbose })
    }
}

fn console() -> paratick_machine::ConsoleSink {
    Arc::new(|place, line| errln!("{place}: {line}"))
}

/// Where the agent is, so that its absence is known before anything is built.
pub fn check_agent() -> Result<()> {
    tools::find_agent().map(drop)
}
