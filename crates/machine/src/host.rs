// SPDX-License-Identifier: GPL-2.0-only
//! A host: a kernel with KVM, emulated here or this machine itself.

use crate::{
    booted::Booted,
    exec::{self, Exec, ExecResult, Finished, OutputSink},
    guest::{Guest, KeptGuest},
    link::HOST,
    spec::{boot_limit, disk_file, HostSpec, Start},
};
use anyhow::{bail, Context, Result};
use paratick_build::{progress::Events, tools::Tools};
use paratick_core::{
    exits::WindowCounts,
    size::Size,
    subject::HostSettings,
    wire::{GuestConfig, Ready},
};
use paratick_instruments::{exits::ExitCounter, Instrument};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// A running host.  Dropping it ends it and its guests.
pub struct Host {
    booted: Arc<Booted>,
    ready: Ready,
}

impl Host {
    pub fn boot(spec: HostSpec, tools: &Tools, events: Events) -> Result<Host> {
        let host = Host::begun(spec, tools, events)?;
        if host.booted.spec.backend.boots() {
            host.booted.enter(HOST)?;
        }
        Ok(host)
    }

    /// One whose agent answers, and that has nothing of the machine yet.
    pub(crate) fn begun(spec: HostSpec, tools: &Tools, events: Events) -> Result<Host> {
        let deadline = Instant::now() + spec.timeout;
        let mut booted = Booted::new(spec, tools)?;
        match start(&mut booted, deadline, events).and_then(|()| booted.ready(deadline)) {
            Ok(ready) => Ok(Host { booted: Arc::new(booted), ready }),
            Err(error) => Err(booted.explain(HOST, error)),
        }
    }

    /// One that was kept, with what its agent and its guest's have said when they were begun; each
    /// of them is to answer within `limit`.
    pub(crate) fn woken(
        spec: HostSpec,
        tools: &Tools,
        ready: Ready,
        guest: Option<KeptGuest>,
        limit: Duration,
    ) -> Result<(Host, Option<Guest>)> {
        let deadline = Instant::now() + spec.timeout;
        let mut booted = Booted::new(spec, tools)?;
        start(&mut booted, deadline, &mut |_| {})?;
        let booted = Arc::new(booted);
        let guest = guest.map(|guest| Guest::woken(&booted, guest));
        for id in [HOST].into_iter().chain(guest.as_ref().map(Guest::id)) {
            booted.enter_within(id, limit).map_err(|error| booted.explain(id, error))?;
        }
        Ok((Host { booted, ready }, guest))
    }

    pub(crate) fn booted(&self) -> &Arc<Booted> {
        &self.booted
    }

    /// Starts a guest and waits until its agent answers.
    pub fn start_guest(&self, config: GuestConfig) -> Result<Guest> {
        let limit = boot_limit(config.vcpus);
        self.start_guest_within(limit, config)
    }

    /// The same with another limit of its boot, in wall-clock time.
    pub fn start_guest_within(&self, limit: Duration, config: GuestConfig) -> Result<Guest> {
        Guest::boot(&self.booted, config, limit)
    }

    pub fn exec(&self, exec: Exec) -> Result<ExecResult> {
        exec::collect(&self.booted.link, HOST, exec)
    }

    pub fn exec_streaming(&self, exec: Exec, sink: OutputSink) -> Result<Finished> {
        exec::stream(&self.booted.link, HOST, exec, sink)
    }

    /// What is in files, without blanks at its ends; `None` for each that cannot be read.
    pub fn read_files(&self, files: &[&str]) -> Result<Vec<Option<String>>> {
        self.booted.read_files(HOST, files)
    }

    /// Lets so much time pass there, where no program has to be loaded for that.
    ///
    /// `limit` is in wall-clock time.
    pub fn wait(&self, time: Duration, limit: Duration) -> Result<()> {
        self.booted.wait(HOST, time, limit)
    }

    pub fn start<I: Instrument>(&self) -> Result<()> {
        self.booted.start::<I>(HOST)
    }

    pub fn read<I: Instrument>(&self) -> Result<I::Reading> {
        self.booted.read::<I>(HOST)
    }

    /// Ends an instrument: what runs afterwards is not slowed down by it.
    pub fn stop<I: Instrument>(&self) -> Result<()> {
        self.booted.stop::<I>(HOST)
    }

    /// Counts exits from now on; forgets the windows that were closed before.
    pub fn counting_start(&self) -> Result<()> {
        self.start::<ExitCounter>()
    }

    /// The windows that guests closed since, of all guests; [`Guest::windows`] has one guest's.
    pub fn windows(&self) -> Result<Vec<WindowCounts>> {
        self.read::<ExitCounter>()
    }

    /// As it was started; empty where the machine is the host.
    pub fn command_line(&self) -> &[String] {
        &self.booted.command_line
    }

    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Whether it is not this machine.
    pub fn boots(&self) -> bool {
        self.booted.spec.backend.boots()
    }

    /// Where the emulator writes its count of world switches, if it was asked to.
    pub fn world_switches(&self) -> Option<PathBuf> {
        let Booted { spec, tools, run, .. } = &*self.booted;
        spec.backend.world_switches(spec, tools, run.path())
    }

    /// As it was asked to be set.
    pub fn settings(&self) -> HostSettings {
        self.booted.spec.settings
    }

    /// Virtual time in ns that the emulator charges for each world switch; 0: none.
    pub fn exit_cost_ns(&self) -> u32 {
        self.booted.spec.facts().exit_cost_ns.unwrap_or(0)
    }

    /// The folder of this run; it goes with the host.
    pub fn run_folder(&self) -> &Path {
        self.booted.run.path()
    }

    /// An error if any console has complained.
    pub fn check(&self) -> Result<()> {
        self.booted.link.check()
    }

    pub fn shutdown(self) -> Result<()> {
        self.booted.link.check()
    }
}

fn start(booted: &mut Booted, deadline: Instant, events: Events) -> Result<()> {
    let (spec, run) = (&booted.spec, booted.run.path());
    for (number, size) in spec.disks.iter().enumerate() {
        create_disk(&disk_file(run, number), *size)?;
    }
    booted.running = Some(spec.backend.start(Start {
        host: spec,
        tools: &booted.tools,
        command_line: &booted.command_line,
        run,
        link: &booted.link,
        deadline,
        events,
    })?);
    Ok(())
}

fn create_disk(path: &Path, size: Size) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    let free = rustix::fs::statvfs(folder).context("asking for free disk space")?;
    let free = Size(free.f_bavail.saturating_mul(free.f_frsize));
    if free < size {
        bail!(
            "no room for a disk of {size}: {} MiB are free in {}\n\
             hint: ask for a smaller --disk, or set PARATICK_CACHE to a folder with more room",
            free.bytes() >> 20,
            folder.display()
        );
    }
    fs_err::File::create(path)?.set_len(size.bytes())?;
    Ok(())
}
