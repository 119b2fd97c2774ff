// SPDX-License-Identifier: GPL-2.0-only
//! A guest on a host of the lab's.

use crate::{
    booted::{boot_took_too_long, Booted},
    exec::{self, Exec, ExecResult, Finished, OutputSink},
    link::{Started, HOST},
    spec::{boot_limit, Backend},
};
use anyhow::Result;
use paratick_build::tools::Tools;
use paratick_core::{
    exits::WindowCounts,
    mode::Mode,
    size::Size,
    wire::{DiskSource, GuestConfig, GuestId, MachineType, Ready, Request},
};
use paratick_instruments::exits::ExitCounter;
use paratick_service::guest::command_line;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// A guest to start.
#[derive(Clone, Debug)]
pub struct GuestSpec {
    pub vcpus: u32,
    pub memory: Size,
    pub kernel: PathBuf,
    pub mode: Mode,
    pub disk: Option<Disk>,
    /// Further kernel parameters.
    pub append: Vec<String>,
    pub machine: MachineType,
    /// The pCPU of each vCPU; empty: the next free ones, from 1.
    pub pins: Vec<u32>,
    /// Wall-clock limit of the boot.
    pub timeout: Duration,
}

/// What is behind a guest's `/dev/vda`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// The scratch disk of this number (from 0) of the host's [`crate::spec::HostSpec::disks`].
    Scratch(usize),
    /// An empty file in the host's memory: nothing of the machine's timing is in it.
    Memory(Size),
}

impl GuestSpec {
    pub fn new(kernel: impl Into<PathBuf>, vcpus: u32, memory: Size, mode: Mode) -> GuestSpec {
        GuestSpec {
            vcpus,
            memory,
            kernel: kernel.into(),
            mode,
            disk: None,
            append: Vec::new(),
            machine: MachineType::default(),
            pins: Vec::new(),
            timeout: boot_limit(vcpus),
        }
    }

    fn config(&self, tools: &Tools, run: &Path, backend: &dyn Backend) -> GuestConfig {
        GuestConfig {
            qemu: tools.qemu.clone(),
            firmware: tools.firmware.clone(),
            agent: tools.agent.clone(),
            kernel: self.kernel.clone(),
            vcpus: self.vcpus,
            memory: self.memory,
            mode: self.mode,
            machine: self.machine,
            append: tools.shown.iter().chain(&self.append).cloned().collect(),
            disk: self.disk.map(|disk| match disk {
                Disk::Memory(size) => DiskSource::Memory(size),
                Disk::Scratch(number) => DiskSource::File(backend.disk(run, number)),
            }),
            pins: self.pins.clone(),
        }
    }

    /// The command line the host would start this guest with, for showing.
    pub fn command_line(&self, tools: &Tools, run: &Path, backend: &dyn Backend) -> Vec<String> {
        command_line(&self.config(tools, run, backend), &backend.places(run))
    }
}

/// A running guest.  Dropping it ends it.
pub struct Guest {
    id: GuestId,
    host: Arc<Booted>,
    started: Started,
    ready: Ready,
}

impl Guest {
    pub(crate) fn start(host: &Arc<Booted>, spec: GuestSpec) -> Result<Guest> {
        let id = host.link.number();
        let deadline = Instant::now() + spec.timeout;
        let config = spec.config(&host.tools, host.run.path(), host.spec.backend);
        // Whatever happens from here on, the guest ends.
        let started = Started {
            pid: 0,
            command_line: Vec::new(),
            pins: Vec::new(),
        };
        let mut guest = Guest {
            id,
            host: host.clone(),
            started,
            ready: Ready::default(),
        };
        host.link.request(
            HOST,
            &Request::StartGuest {
                guest: id,
                config: Box::new(config),
            },
        )?;
        guest.await_boot(deadline, spec.timeout)?;
        Ok(guest)
    }

    fn await_boot(&mut self, deadline: Instant, limit: Duration) -> Result<()> {
        let id = self.id;
        let boot = self.host.link.wait(id, Some(deadline), |state| {
            let peer = state.peer(id)?;
            Some((peer.started.clone()?, peer.ready.clone()?))
        });
        match boot.map_err(|error| self.host.explain(id, error))? {
            Some((started, ready)) => {
                self.started = started;
                self.ready = ready;
                Ok(())
            }
            None => Err(self.host.explain(id, boot_took_too_long(id, limit))),
        }
    }

    /// Runs a command in the guest.
    pub fn exec(&self, exec: Exec) -> Result<ExecResult> {
        exec::collect(&self.host.link, self.id, exec)
    }

    /// Runs a command in the guest, handing out its output as it comes.
    pub fn exec_streaming(&self, exec: Exec, sink: OutputSink) -> Result<Finished> {
        exec::stream(&self.host.link, self.id, exec, sink)
    }

    /// The windows of exits that this guest closed since [`crate::host::Host::counting_start`].
    pub fn windows(&self) -> Result<Vec<WindowCounts>> {
        let mut windows = self.host.read::<ExitCounter>()?;
        windows.retain(|window| window.vm() == Some(self.started.pid));
        Ok(windows)
    }

    /// As the host started it.
    pub fn command_line(&self) -> &[String] {
        &self.started.command_line
    }

    /// The process of its QEMU on the host.
    pub fn pid(&self) -> u32 {
        self.started.pid
    }

    /// The pCPU of each vCPU.
    pub fn pins(&self) -> &[u32] {
        &self.started.pins
    }

    /// What its agent said of it.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    pub fn id(&self) -> GuestId {
        self.id
    }

    /// Ends the guest; an error if any console has complained.
    pub fn shutdown(self) -> Result<()> {
        self.host.link.check()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let stop = Request::StopGuest { guest: self.id };
        let _ = self.host.link.request(HOST, &stop);
    }
}
