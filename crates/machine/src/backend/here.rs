// SPDX-License-Identifier: GPL-2.0-only
//! This machine is the host: the agent's service runs in this process.

use crate::{
    accel::kvm_works,
    spec::{disk_file, Backend, HostFacts, HostSpec, Start},
};
use anyhow::{bail, Context, Result};
use paratick_build::{progress::Events, tools::Tools};
use paratick_core::{size::Size, subject::HostSettings};
use paratick_service::{
    guest::Places,
    serve::{self, Role},
};
use std::{
    net::Shutdown,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
};

pub struct Here;

/// Our end of the connection to the service, which ends with it.
struct Service {
    connection: UnixStream,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.connection.shutdown(Shutdown::Both);
        // Its guests and instruments end before it does, and leave nothing behind on this machine.
        self.thread.take().map(JoinHandle::join);
    }
}

impl Backend for Here {
    fn name(&self) -> &'static str {
        "here"
    }

    fn boots(&self) -> bool {
        false
    }

    fn tools(&self, _build: Option<Events>) -> Result<Tools> {
        Tools::of_the_machine()
    }

    fn start(&self, start: Start) -> Result<Box<dyn Send + Sync>> {
        if let Err(why) = kvm_works() {
            bail!(
                "this machine cannot be the host: {why}\n\
                hint: the lab's emulated host needs none: omit --host here, or put `lab` before \
                the verb"
            );
        }
        if !rustix::process::geteuid().is_root() {
            bail!(
                "this machine cannot be the host: pinning and counting need root\n\
                hint: run it with sudo"
            );
        }
        let (ours, theirs) = UnixStream::pair().context("making a connection")?;
        let role = Role::Host { machine: "/".into(), state: start.run.to_path_buf() };
        let from = theirs.try_clone()?;
        let thread = thread::Builder::new()
            .name("host".into())
            .spawn(move || serve::serve(from, theirs, role, |_| Ok(()), serve::ready()))?;
        let service = Service { connection: ours.try_clone()?, thread: Some(thread) };
        start.link.connect(ours)?;
        Ok(Box::new(service))
    }

    fn places(&self, run: &Path) -> Places {
        Places { machine: "/".into(), state: run.join("guest1") }
    }

    fn disk(&self, run: &Path, number: usize) -> PathBuf {
        disk_file(run, number)
    }

    fn facts(&self, _host: &HostSpec) -> HostFacts {
        let system = rustix::system::sysinfo();
        HostFacts {
            cpus: paratick_service::online_cpus(),
            memory: Size(system.totalram * u64::from(system.mem_unit)),
            ..HostFacts::default()
        }
    }

    /// As the machine's files say; without KVM there are none, which its start will tell.
    fn settings(&self) -> Result<HostSettings> {
        let mut settings = HostSettings::default();
        for (row, _) in HostSettings::default().each() {
            if let Ok(said) = std::fs::read_to_string(row.file) {
                settings.set(row.name, row.told(&said)?)?;
            }
        }
        Ok(settings)
    }
}
