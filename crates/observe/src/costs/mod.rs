// SPDX-License-Identifier: GPL-2.0-only
//! What costs a VM time, by its command line and what was counted for a while; and what mends it.

mod beside;
mod delivery;
mod exits;
mod host;
mod limits;
mod machine;
mod threads;

use crate::{processes::command_line, Identity, Wanted, Watch, STEP};
use anyhow::{bail, Context, Result};
use host::Host;
use limits::{halt_poll_ns, Limits};
use machine::Machine;
use paratick_core::observed::Vm;
use paratick_instruments::kept::{Keeper, Kept};
use std::{
    thread::sleep,
    time::{Duration, Instant},
};
pub use threads::Work;

/// Less than both of these is not named a cost: per second, and of one CPU.
const LEAST: (f64, f64) = (2.0, 0.001);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Costs,
    /// Nothing to speak of.
    Free,
    /// This machine lacks what would end it.
    Absent,
    /// Nobody tells.
    Unknown,
}

/// One thing that may cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    pub what: &'static str,
    pub state: State,
    /// How often a second; none: it was not measured.
    pub per_second: Option<f64>,
    /// The time that it takes, as a share of one CPU's; none: it was not measured.
    pub share: Option<f64>,
    pub found: String,
    /// Empty where nothing is to be done.
    pub mend: String,
}

/// What was found out of a VM.
pub struct Found {
    pub vm: Vm,
    /// The dearest first, and what is not known last.
    pub costs: Vec<Cost>,
    /// Threads that work for it, and are no vCPUs; the busiest first.
    pub threads: Vec<Work>,
}

/// All that the judgement needs.
struct Seen {
    machine: Option<Machine>,
    vm: Vm,
    before: Limits,
    after: Limits,
    halt_poll_ns: Option<u64>,
    /// Or why it cannot be read.
    kept: Result<Kept, String>,
    host: Host,
}

/// Looks at a VM for this long.
///
/// # Errors
///
/// It cannot be looked at, it ended, or exits were not told or not kept.
pub fn costs(vm: &Identity, time: Duration) -> Result<Found> {
    let wanted = Wanted::of(&[vm.process.to_string()], std::slice::from_ref(vm))?;
    let machine = Machine::of(&command_line(vm.process));
    let mut watch = Watch::start(wanted, Vec::new(), std::slice::from_ref(vm))?;
    let keeper = Keeper::start(vm.process);
    let before = Limits::of(vm.process);
    let end = Instant::now() + time;
    while Instant::now() < end && !watch.is_over() {
        sleep(end.saturating_duration_since(Instant::now()).min(STEP));
        watch.look()?;
    }
    let after = Limits::of(vm.process);
    let kept = keeper.and_then(|keeper| keeper.read()).map_err(|error| format!("{error:#}"));
    let vcpus = watch.threads(vm.process)?;
    let seen = watch.read()?;
    watch.check_told(&seen)?;
    let vm = seen.vms.into_iter().next().context("the VM was not seen")?;
    if vm.ended {
        bail!("the VM ended while it was looked at\nhint: look at one that runs on");
    }
    let lost = vm.lost + seen.lost;
    if lost > 0 {
        bail!(
            "{lost} exits found no room, so no number would be right\n\
             hint: look for a shorter time, with --for"
        );
    }
    let halt_poll_ns = halt_poll_ns();
    let seen = Seen { machine, vm, before, after, halt_poll_ns, kept, host: Host::here() };
    let mut threads = seen.after.threads.since(&seen.before.threads, &vcpus, seen.vm.ns);
    threads.retain(|work| work.per_second >= LEAST.0 || work.share >= LEAST.1);
    Ok(Found { costs: seen.judge(), threads, vm: seen.vm })
}

impl Seen {
    fn judge(&self) -> Vec<Cost> {
        let mut costs = self.devices();
        costs.extend([self.hyperv(), self.clocks(), self.kvm_clock()]);
        costs.extend([self.eoi(), self.delivery(), self.tick(), self.polling()]);
        costs.extend(self.quotas());
        costs.extend(self.iothreads());
        let rank = |cost: &Cost| match cost.state {
            State::Costs => (0, -cost.share.unwrap_or_default()),
            State::Free => (1, 0.0),
            State::Absent => (2, 0.0),
            State::Unknown => (3, 0.0),
        };
        costs.sort_by(|one, other| rank(one).partial_cmp(&rank(other)).expect("numbers"));
        costs
    }

    /// What was found costs something, or nothing to speak of; only then there is nothing to mend.
    fn cost(&self, what: &'static str, per_second: f64, share: f64) -> Cost {
        let costs = per_second >= LEAST.0 || share >= LEAST.1;
        let state = if costs { State::Costs } else { State::Free };
        let (found, mend) = (String::new(), String::new());
        Cost { what, state, per_second: Some(per_second), share: Some(share), found, mend }
    }
}

impl Cost {
    fn found(self, found: impl Into<String>) -> Cost {
        Cost { found: found.into(), ..self }
    }

    /// Where it costs something.
    fn mend(self, mend: impl Into<String>) -> Cost {
        let mend = if self.state == State::Costs { mend.into() } else { String::new() };
        Cost { mend, ..self }
    }
}

/// By its command line, or what else needs no number.
fn free(what: &'static str, found: impl Into<String>) -> Cost {
    let (state, mend) = (State::Free, String::new());
    Cost { what, state, per_second: None, share: None, found: found.into(), mend }
}

fn unknown(what: &'static str, found: impl Into<String>) -> Cost {
    Cost { state: State::Unknown, ..free(what, found) }
}

#[cfg(test)]
mod tests;
