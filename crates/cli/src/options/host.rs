// SPDX-License-Identifier: GPL-2.0-only
//! Which host, and how the lab's runs.

use super::{named, number, refuse, Kernels, SettingOptions};
use crate::errors::usage;
use anyhow::Result;
use clap::{
    builder::{PossibleValuesParser, TypedValueParser},
    Args,
};
use paratick_core::mode::Mode;
use paratick_machine::{
    accel::Accel,
    backend,
    spec::{Backend, HostSpec},
};

#[derive(Args, Clone)]
pub struct HostChoice {
    /// Which host: one in the lab, or this machine (needs root, KVM, and for paratick its kernel)
    #[arg(long, default_value = backend::EMULATED.name(), value_parser = backends())]
    pub host: &'static dyn Backend,
    #[command(flatten)]
    pub kernels: Kernels,
    #[command(flatten)]
    pub emulation: Emulation,
    #[command(flatten)]
    pub settings: SettingOptions,
}

#[derive(Args, Clone, Copy)]
pub struct Emulation {
    /// How the lab's host runs: by hardware virtualization, by emulation, or whichever works
    #[arg(long, default_value_t = Accel::Auto, value_parser = named::<Accel>())]
    pub accel: Accel,
    /// What the emulator adds to virtual time for each world switch, in ns [default: 0, or the
    /// bench's own]
    #[arg(long, value_name = "NS", value_parser = number(0..=1_000_000))]
    pub exit_cost: Option<u32>,
}

/// What only a host that is booted can be given.
const OF_A_BOOT: &[&str] = &["accel", "exit_cost", "parallel_clock", "host_append", "fresh"];

fn backends() -> impl TypedValueParser<Value = &'static dyn Backend> {
    let names = PossibleValuesParser::new(backend::ALL.map(|backend| backend.name()));
    names.map(|name| backend::find(&name).expect("one of the names"))
}

impl HostChoice {
    /// Checks what can be checked before anything is built or booted.
    pub fn check<'a>(&self, modes: impl IntoIterator<Item = &'a Mode>) -> Result<()> {
        let named = self.kernels.host_kernel.as_ref();
        if let Some(name) = named.filter(|_| !self.host.boots()) {
            return Err(usage(format!(
                "--host-kernel {name} is for a host in the lab\n\
                 hint: omit it with --host {}: the machine's own kernel is the host's",
                self.host.name()
            )));
        }
        if !self.host.boots() {
            refuse(OF_A_BOOT, &format!("with --host {}", self.host.name()))?;
        }
        self.kernels.check(modes)
    }
}

impl Emulation {
    pub fn apply(&self, host: &mut HostSpec) {
        host.emulation.accel = self.accel;
        host.emulation.exit_cost_ns = self.exit_cost.unwrap_or(host.emulation.exit_cost_ns);
    }
}
