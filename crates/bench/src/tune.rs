// SPDX-License-Identifier: GPL-2.0-only
//! Recording the halts of a host's guests, and setting what it polls by.

use crate::here::Here;
use anyhow::{bail, Result};
use paratick_core::{
    halts::{Floor, Halts, HostRule, Rule},
    shell::quote,
    subject::HOST_SETTINGS,
};
use paratick_instruments::{halts::HaltRecorder, polls::PollRecorder, Instrument};
use paratick_machine::{exec::Exec, guest::Guest, host::Host};
use std::{fmt, time::Duration};

/// Around the command; no workload uses so high a number.
const WINDOW: u32 = 0xff_ffff;
/// Wall-clock limit of what takes no time.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// The command failed, or its guest ended; what was recorded until then.
#[derive(Debug)]
pub struct Interrupted(pub Halts);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let halts: usize = self.0.vcpus.iter().map(|vcpu| vcpu.halts.len()).sum();
        write!(f, "the recording ended early, with {halts} halts")
    }
}

/// The halts of all vCPUs, as KVM sees them, while a guest runs a command.
///
/// An error where no vCPU halted: there is nothing to learn from; and one with [`Interrupted`]
/// where the command failed.
pub fn record(host: &Host, guest: &Guest, argv: &[String], limit: Duration) -> Result<Halts> {
    host.start::<HaltRecorder>()?;
    if let Err(error) = run(guest, argv, limit) {
        return match host.read::<HaltRecorder>() {
            Ok(halts) => Err(error.context(Interrupted(halts))),
            Err(_) => Err(error),
        };
    }
    checked(host.read::<HaltRecorder>()?)
}

/// The same of all VMs of this machine, whatever they do.
pub type HaltsHere = Here<HaltRecorder, PollRecorder>;

pub fn start_here() -> Result<HaltsHere> {
    Ok(Here::of(Some(HaltRecorder::start()?), None))
}

/// It ends early when `leave` says so.
pub fn record_here(
    here: &mut HaltsHere,
    time: Duration,
    leave: &dyn Fn() -> bool,
) -> Result<Halts> {
    let (halts, _) = here.record(time, leave)?;
    Ok(halts.expect("halts are recorded"))
}

/// The same of a guest's CPUs, as it sees them itself: what they poll before they halt.
pub fn record_in(guest: &Guest, argv: &[String], limit: Duration) -> Result<Halts> {
    guest.start::<PollRecorder>()?;
    run(guest, argv, limit)?;
    checked(guest.read::<PollRecorder>()?)
}

fn run(guest: &Guest, argv: &[String], limit: Duration) -> Result<()> {
    let mut exec = Exec::new(argv.iter().map(String::as_str)).timeout(limit);
    exec.window = Some(WINDOW);
    let result = guest.exec(exec)?;
    if result.code != 0 {
        let said = String::from_utf8_lossy(&result.stderr);
        bail!("{} ended with code {}: {}", argv.join(" "), result.code, said.trim());
    }
    Ok(())
}

/// Fails where no vCPU halted.
pub fn checked(halts: Halts) -> Result<Halts> {
    if halts.vcpus.iter().all(|vcpu| vcpu.halts.is_empty()) {
        bail!(
            "no vCPU halted while it was recorded\n\
             hint: start guests that have something to wait for, or record for a longer time"
        );
    }
    Ok(halts)
}

pub fn parameters(rule: &HostRule) -> [(&'static str, u32); 4] {
    let file = |name: &str| {
        let row = HOST_SETTINGS.iter().find(|row| row.name == name);
        row.expect("a row of the table").file
    };
    [
        (file("halt-poll"), rule.max),
        (file("halt-poll-grow"), rule.grow),
        (file("halt-poll-grow-start"), rule.grow_start),
        (file("halt-poll-shrink"), rule.shrink),
    ]
}

pub fn set(host: &Host, rule: &HostRule) -> Result<()> {
    if rule.floor != Floor::ToZero {
        bail!("only a kernel of the lab has another floor than Linux");
    }
    let write = |(file, value): (&str, u32)| format!("echo {value} > {}", quote(file));
    let script = parameters(rule).map(write).join(" && ");
    let result = host.exec(Exec::new(["sh", "-c", &script]).timeout(STEP_LIMIT))?;
    if result.code != 0 {
        let said = String::from_utf8_lossy(&result.stderr);
        bail!("KVM's parameters cannot be set: {}\nhint: be root", said.trim());
    }
    Ok(())
}

/// The rule that a recording was made under; all vCPUs have the same.  None: it is not known.
pub fn rule(halts: &Halts) -> Option<Rule> {
    halts.vcpus.iter().find_map(|vcpu| vcpu.rule)
}
