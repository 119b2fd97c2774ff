// SPDX-License-Identifier: GPL-2.0-only
//! A guest on a host of the lab's.

use crate::{
    accel::Accel,
    booted::{boot_took_too_long, Booted},
    exec::{self, Exec, ExecResult, Finished, OutputSink},
    link::{Started, HOST},
    spec::HostSpec,
};
use anyhow::Result;
use paratick_build::{kernel::debian, tools::Tools};
use paratick_core::{
    exits::WindowCounts,
    wire::{GuestConfig, GuestId, GuestTools, Ready, Request},
};
use paratick_instruments::{exits::ExitCounter, Instrument};
use paratick_service::guest::{self, Places};
use serde::{Deserialize, Serialize};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// What of the lab's tools the host's agent must know to start a guest.
fn tools_of(tools: &Tools, kernel: &Path) -> Result<GuestTools> {
    Ok(GuestTools {
        qemu: tools.qemu.clone(),
        firmware: tools.firmware.clone(),
        initramfs: tools.initramfs_of(kernel)?,
        parameters: debian::guest_parameters(kernel),
        stock: debian::is_stock(kernel),
    })
}

/// The command line the host would start this guest with, for showing.
pub fn command_line(
    config: GuestConfig,
    host: &HostSpec,
    tools: &Tools,
    places: &Places,
) -> Result<Vec<String>> {
    let emulated = match host.backend.boots() {
        true => host.emulation.accel.resolve() == Accel::Tcg,
        false => guest::is_emulated(),
    };
    Ok(guest::command_line(&config, &tools_of(tools, &config.kernel)?, places, emulated))
}

/// What is known of a guest on a host that was kept.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct KeptGuest {
    id: GuestId,
    started: Started,
    ready: Ready,
}

/// A running guest.  Dropping it ends it.
pub struct Guest {
    id: GuestId,
    host: Arc<Booted>,
    started: Started,
    ready: Ready,
}

impl Guest {
    /// `limit` is that of the boot, in wall-clock time.
    pub(crate) fn boot(host: &Arc<Booted>, config: GuestConfig, limit: Duration) -> Result<Guest> {
        let guest = Guest::begun(host, config, limit)?;
        host.enter_within(guest.id, limit).map_err(|error| host.explain(guest.id, error))?;
        Ok(guest)
    }

    /// One whose agent answers, and that has nothing of the machine yet.
    pub(crate) fn begun(host: &Arc<Booted>, config: GuestConfig, limit: Duration) -> Result<Guest> {
        let id = host.link.number();
        let deadline = Instant::now() + limit;
        // Whatever happens from here on, the guest ends.
        let started = Started { pid: 0, command_line: Vec::new(), pins: Vec::new() };
        let mut guest = Guest { id, host: host.clone(), started, ready: Ready::default() };
        let tools = tools_of(&host.tools, &config.kernel)?;
        let start = Request::StartGuest { guest: id, config: Box::new(config), tools };
        host.link.request(HOST, &start)?;
        guest.await_boot(deadline, limit)?;
        Ok(guest)
    }

    /// One that was kept with its host.
    pub(crate) fn woken(host: &Arc<Booted>, kept: KeptGuest) -> Guest {
        let KeptGuest { id, started, ready } = kept;
        host.link.skip(id);
        Guest { id, host: host.clone(), started, ready }
    }

    /// What another program must know to go on with it, when its host is kept.
    pub(crate) fn kept(&self) -> KeptGuest {
        KeptGuest { id: self.id, started: self.started.clone(), ready: self.ready.clone() }
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

    pub fn exec(&self, exec: Exec) -> Result<ExecResult> {
        exec::collect(&self.host.link, self.id, exec)
    }

    pub fn exec_streaming(&self, exec: Exec, sink: OutputSink) -> Result<Finished> {
        exec::stream(&self.host.link, self.id, exec, sink)
    }

    /// What is in files, without blanks at its ends; `None` for each that cannot be read.
    pub fn read_files(&self, files: &[&str]) -> Result<Vec<Option<String>>> {
        self.host.read_files(self.id, files)
    }

    /// Lets so much time pass there, where no program has to be loaded for that.
    ///
    /// `limit` is in wall-clock time.
    pub fn wait(&self, time: Duration, limit: Duration) -> Result<()> {
        self.host.wait(self.id, time, limit)
    }

    pub fn start<I: Instrument>(&self) -> Result<()> {
        self.host.start::<I>(self.id)
    }

    pub fn read<I: Instrument>(&self) -> Result<I::Reading> {
        self.host.read::<I>(self.id)
    }

    pub fn stop<I: Instrument>(&self) -> Result<()> {
        self.host.stop::<I>(self.id)
    }

    /// The windows of exits that this guest closed since [`crate::host::Host::counting_start`].
    pub fn windows(&self) -> Result<Vec<WindowCounts>> {
        let mut windows = self.host.read::<ExitCounter>(HOST)?;
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
