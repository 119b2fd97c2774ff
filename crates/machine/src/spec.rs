// SPDX-License-Identifier: GPL-2.0-only
//! A host as it is asked for, and what a backend must know to provide one.

use crate::{
    accel::Accel,
    link::{ConsoleSink, Link},
};
use anyhow::Result;
use paratick_build::{progress::Events, tools::Tools};
use paratick_core::{size::Size, subject::HostSettings};
use paratick_service::guest::{Places, MACHINE};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

#[derive(Clone)]
pub struct HostSpec {
    pub backend: &'static dyn Backend,
    pub boot: Boot,
    pub emulation: Emulation,
    /// How it is set; where the machine is the host, how it should be.
    pub settings: HostSettings,
    /// Scratch disks for guests, empty and sparse.
    pub disks: Vec<Size>,
    /// Wall-clock limit of the boot.
    pub timeout: Duration,
    pub keep: bool,
    /// Gets every console line of host and guests.
    pub console: Option<ConsoleSink>,
    pub(crate) begin: Begin,
}

/// How a host begins.
#[derive(Clone, Debug, Default)]
pub(crate) enum Begin {
    /// It boots.
    #[default]
    Boot,
    /// It boots with this first root, and its memory is a file: both can be kept.
    ToKeep { initramfs: PathBuf, memory: PathBuf },
    /// As it was kept: its memory, which stays as it is, and the state of all else.
    Kept { memory: PathBuf, state: PathBuf },
}

/// What is booted.  A backend that boots nothing ignores it.
#[derive(Clone, Debug)]
pub struct Boot {
    pub cpus: u32,
    pub memory: Size,
    pub kernel: PathBuf,
    /// Further kernel parameters.
    pub append: Vec<String>,
}

/// How an emulated host runs.  A backend that emulates nothing ignores it.
#[derive(Clone, Debug, Default)]
pub struct Emulation {
    pub accel: Accel,
    pub clock: Clock,
    /// Virtual time in ns that the emulator charges for each world switch; 0: none.
    pub exit_cost_ns: u32,
    /// CPUs that are busy at the same time share virtual time, as if the emulator ran them in
    /// parallel; else the instructions of all are added up.
    pub parallel_clock: bool,
    /// With the parallel clock: by how many instructions a busy CPU is ahead of others at most.
    /// None: the emulator's default, which is faster.
    pub round: Option<u32>,
    /// With the parallel clock: time that is taken from a CPU.
    pub stall: Option<Stall>,
    /// Count world switches in the emulator ([`crate::host::Host::world_switches`] says where).
    pub count_world_switches: bool,
}

/// Whenever the machine's time is a multiple of `every_ns`, a pCPU that is busy executes nothing
/// for `ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    pub cpu: u32,
    pub ns: u64,
    pub every_ns: u64,
}

/// How an emulated host's time passes while nothing runs in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// It leaps to the next timer: nothing waits for nothing.
    #[default]
    Leaping,
    /// As on the machine: for people at a shell.
    Real,
}

pub trait Backend: Send + Sync {
    /// As `--host` names it.
    fn name(&self) -> &'static str;

    /// Whether it boots a kernel; else the machine's own is the host's.
    fn boots(&self) -> bool {
        true
    }

    /// Whether a host that has booted can be kept as files.
    fn keeps(&self) -> bool {
        false
    }

    /// The programs it needs.  Those of the lab's own are built if they must be; without `build`
    /// that is an error.
    fn tools(&self, build: Option<Events>) -> Result<Tools>;

    /// The command line that starts the host; empty where none does.
    fn command_line(&self, _: &HostSpec, _: &Tools, _run: &Path) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Connects the link to the host's agent.  Dropping what is returned ends the host.
    fn start(&self, start: Start) -> Result<Box<dyn Send + Sync>>;

    /// Where its first guest finds its things.
    fn places(&self, _run: &Path) -> Places {
        Places { machine: MACHINE.into(), state: "/run/paratick/guest1".into() }
    }

    /// The host's name of the scratch disk of this number.
    fn disk(&self, run: &Path, number: usize) -> PathBuf;

    /// Where world switches are counted; none where they are not.
    fn world_switches(&self, _: &HostSpec, _: &Tools, _run: &Path) -> Option<PathBuf> {
        None
    }

    fn facts(&self, host: &HostSpec) -> HostFacts;

    /// How its hosts are set where nobody asks for anything else.
    fn settings(&self) -> Result<HostSettings> {
        Ok(HostSettings::default())
    }
}

pub struct Start<'a> {
    pub host: &'a HostSpec,
    pub tools: &'a Tools,
    pub command_line: &'a [String],
    pub run: &'a Path,
    pub link: &'a Arc<Link>,
    pub deadline: Instant,
    pub events: Events<'a>,
}

/// What numbers that are measured on a host depend on.
#[derive(Default)]
pub struct HostFacts {
    pub cpus: u32,
    pub memory: Size,
    pub accelerator: Option<String>,
    /// None where time is real: then hosts at the same time would disturb each other.
    pub ns_per_instruction: Option<u32>,
    pub exit_cost_ns: Option<u32>,
    pub parallel_clock: bool,
}

impl HostSpec {
    /// A host for guests of `vcpus` and `memory` in all: one CPU and 1 GiB more are its own.
    pub fn for_guests(
        backend: &'static dyn Backend,
        kernel: impl Into<PathBuf>,
        vcpus: u32,
        memory: Size,
    ) -> HostSpec {
        let cpus = vcpus + 1;
        HostSpec {
            backend,
            boot: Boot {
                cpus,
                memory: memory + Size::mib(1024),
                kernel: kernel.into(),
                append: Vec::new(),
            },
            emulation: Emulation::default(),
            settings: HostSettings::default(),
            disks: Vec::new(),
            timeout: boot_limit(cpus),
            keep: false,
            console: None,
            begin: Begin::default(),
        }
    }

    /// The command line this host would be started with, for showing; empty where none is.
    pub fn command_line(&self, tools: &Tools, run: &Path) -> Result<Vec<String>> {
        self.backend.command_line(self, tools, run)
    }

    pub fn facts(&self) -> HostFacts {
        self.backend.facts(self)
    }
}

/// Generous, for machines that are busy with other things: an idle one needs a tenth.
pub fn boot_limit(cpus: u32) -> Duration {
    Duration::from_secs(120 + 10 * u64::from(cpus))
}

/// The machine's file of the scratch disk of this number.
pub fn disk_file(run: &Path, number: usize) -> PathBuf {
    run.join(format!("disk{number}"))
}
