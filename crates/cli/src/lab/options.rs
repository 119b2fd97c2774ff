// SPDX-License-Identifier: GPL-2.0-only
//! What `lab run` and `lab shell` have in common: which host, which guest.

use crate::usage::usage;
use anyhow::{bail, Result};
use clap::{
    builder::{PossibleValuesParser, TypedValueParser},
    Args, ValueEnum,
};
use paratick_build::{
    kernel::{self, Variant},
    progress::Events,
    tools::{self, Tools},
};
use paratick_core::{mode::Mode, size::Size, wire::Machine};
use paratick_machine::{
    accel::Accel,
    backend,
    guest::{Disk, GuestSpec},
    spec::{Backend, Clock, HostSpec},
    ConsoleSink,
};
use std::{path::PathBuf, sync::Arc, time::Duration};

#[derive(Args, Clone)]
pub struct Common {
    /// Tick mode of the guest: periodic, tickless, tickless-stop or paratick, each also with +poll
    #[arg(long, default_value = "paratick")]
    pub mode: Mode,
    /// CPUs of the guest
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=127))]
    pub vcpus: u32,
    /// CPUs of the emulated host [default: one more than the guest has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=128))]
    pub host_cpus: Option<u32>,
    /// Memory of the guest; the emulated host has 1G more
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    pub memory: Size,
    /// Give the guest an empty scratch disk of this size, /dev/vda
    #[arg(long, value_name = "SIZE")]
    pub disk: Option<Size>,
    /// The guest's kernel: a bzImage, `6.12` (with the series) or `6.12-base` (without)
    #[arg(long, value_name = "KERNEL", default_value = kernel::DEFAULT_BASE)]
    pub kernel: String,
    /// The host's kernel [default: the guest's]
    #[arg(long, value_name = "KERNEL")]
    pub host_kernel: Option<String>,
    /// Which host: one in the lab, or this machine (needs root, KVM, and for paratick its kernel)
    #[arg(long, default_value = "lab", value_parser = host())]
    pub host: &'static dyn Backend,
    /// How the lab's host runs: by hardware virtualization, by emulation, or whichever works
    #[arg(long, value_name = "auto|kvm|tcg", default_value = "auto")]
    pub accel: Accel,
    /// Let each world switch of an emulated host take this much virtual time, in ns; 0 to 1000000
    #[arg(long, value_name = "NS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub exit_cost: u32,
    /// Let CPUs of an emulated host that are busy at the same time share virtual time, as if they
    /// ran in parallel
    #[arg(long)]
    pub parallel_clock: bool,
    /// The guest's machine type
    #[arg(long, value_enum, default_value_t = MachineType::Q35)]
    pub machine: MachineType,
    /// A further kernel parameter for the guest (may be repeated)
    #[arg(long, value_name = "PARAMETER")]
    pub append: Vec<String>,
    /// A further kernel parameter for the host (may be repeated)
    #[arg(long, value_name = "PARAMETER")]
    pub host_append: Vec<String>,
    /// Keep the run's folder (consoles, disk)
    #[arg(long)]
    pub keep: bool,
    /// Print both consoles on standard error
    #[arg(long, short)]
    pub verbose: bool,
    /// Print the command lines and run nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MachineType {
    Q35,
    Microvm,
}

/// Everything that is needed to start.
pub struct Plan {
    pub host: HostSpec,
    pub guest: GuestSpec,
    pub tools: Tools,
}

impl Common {
    /// Checks what can be checked before anything is built or booted.
    pub fn check(&self) -> Result<()> {
        let vcpus = self.vcpus;
        match self.host_cpus {
            Some(_) if !self.host.boots() => Err(usage(
                "--host-cpus is for an emulated host\nhint: leave it away with --host here",
            )),
            Some(cpus) if cpus <= vcpus => Err(usage(format!(
                "--host-cpus {cpus} is too few for --vcpus {vcpus}\nhint: the host needs one CPU more than the guest; leave --host-cpus away to get that"
            ))),
            _ if self.memory < Size::mib(128) => Err(usage(format!(
                "--memory {} is too little to boot\nhint: give at least 128M",
                self.memory
            ))),
            _ => Ok(()),
        }
    }

    pub fn plan(&self, clock: Clock, events: Events) -> Result<Plan> {
        let tools = self.tools(events)?;
        let kernel = self.image(&self.kernel, events)?;
        let host_kernel = match &self.host_kernel {
            Some(name) => self.image(name, events)?,
            None => kernel.clone(),
        };
        let mut host = HostSpec::for_guests(self.host, host_kernel, self.vcpus, self.memory);
        host.boot.cpus = self.host_cpus.unwrap_or(host.boot.cpus);
        host.boot.append = self.host_append.clone();
        host.disks = self.disk.into_iter().collect();
        host.emulation.accel = self.accel;
        host.emulation.clock = clock;
        host.emulation.exit_cost_ns = self.exit_cost;
        host.emulation.parallel_clock = self.parallel_clock;
        host.keep = self.keep;
        host.console = self.verbose.then(console);
        let mut guest = GuestSpec::new(kernel, self.vcpus, self.memory, self.mode);
        guest.disk = self.disk.map(|_| Disk::Scratch(0));
        guest.append = self.append.clone();
        guest.machine = match self.machine {
            MachineType::Q35 => Machine::Q35,
            MachineType::Microvm => Machine::Microvm,
        };
        Ok(Plan { host, guest, tools })
    }

    fn tools(&self, events: Events) -> Result<Tools> {
        self.host.tools((!self.dry_run).then_some(events))
    }

    /// The bzImage that a `--kernel` means; a dry run builds none.
    fn image(&self, name: &str, events: Events) -> Result<PathBuf> {
        let path = PathBuf::from(name);
        if path.is_file() {
            return Ok(fs_err::canonicalize(path)?);
        }
        if name.contains('/') {
            bail!("no kernel at {name}\nhint: name a bzImage, or a base such as {} that the lab builds (`paratick kernel build`)", kernel::DEFAULT_BASE);
        }
        let (base, variant) = match name.strip_suffix("-base") {
            Some(base) => (base, Variant::Unpatched),
            None => (name, Variant::Patched),
        };
        if self.dry_run {
            // Where it will be is known only once it is built.
            bail!("a dry run builds no kernel\nhint: give --kernel a bzImage, or leave --dry-run away");
        }
        Ok(kernel::ensure(base, variant, events)?.bzimage)
    }
}

/// The values of `--host`.
pub fn host() -> impl TypedValueParser<Value = &'static dyn Backend> {
    let names = PossibleValuesParser::new(backend::ALL.map(|backend| backend.name()));
    names.map(|name| backend::find(&name).expect("one of the names"))
}

/// `30`, `30s`, `5m`, `2h`; wall-clock time.
pub fn duration(text: &str) -> Result<Duration, String> {
    let bad = || {
        format!("'{text}' is not a time\nhint: write seconds, or a number with s, m or h, such as 90s or 5m")
    };
    let (digits, unit) = match text.chars().last() {
        Some('s') => (&text[..text.len() - 1], 1.0),
        Some('m') => (&text[..text.len() - 1], 60.0),
        Some('h') => (&text[..text.len() - 1], 3600.0),
        _ => (text, 1.0),
    };
    let seconds: f64 = digits.parse().map_err(|_| bad())?;
    match Duration::try_from_secs_f64(seconds * unit) {
        Ok(limit) if limit > Duration::ZERO => Ok(limit),
        _ => Err(bad()),
    }
}

fn console() -> ConsoleSink {
    Arc::new(|place, line| eprintln!("{place}: {line}"))
}

/// Where the agent is, so that its absence is known before anything is built.
pub fn check_agent() -> Result<()> {
    tools::find_agent().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_write_them() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("0.5s"), Ok(Duration::from_millis(500)));
        for text in ["", "s", "0", "-1", "soon", "1d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
