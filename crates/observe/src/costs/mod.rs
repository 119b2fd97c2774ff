// SPDX-License-Identifier: GPL-2.0-only
//! What costs a VM time, by its command line and what was counted for a while; and what mends it.

mod limits;
mod machine;

use crate::{processes::command_line, Identity, Wanted, Watch};
use anyhow::{bail, Context, Result};
use limits::{halt_poll_ns, tick_rate, Limits, Quota};
use machine::Machine;
use paratick_core::{
    cause::Cause,
    observed::{sum, Exits, Vm},
};
use std::{
    thread::sleep,
    time::{Duration, Instant},
};

/// Less than both of these is not named a cost: per second, and of one CPU.
const LEAST: (f64, f64) = (1.0, 0.001);

/// From here on a tick is.
const FAST_HZ: u32 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Costs,
    /// Nothing to speak of.
    Free,
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

/// All that the judgement needs.
struct Seen {
    machine: Option<Machine>,
    vm: Vm,
    before: Limits,
    after: Limits,
    halt_poll_ns: Option<u64>,
    hz: Option<u32>,
}

/// Looks at a VM for this long; the dearest comes first, and what is not known last.
///
/// # Errors
///
/// It cannot be looked at, ended, or exits were not kept.
pub fn costs(vm: &Identity, time: Duration) -> Result<(Vm, Vec<Cost>)> {
    let wanted = Wanted::of(&[vm.process.to_string()], std::slice::from_ref(vm))?;
    let machine = Machine::of(&command_line(vm.process));
    let mut watch = Watch::start(wanted, Vec::new(), std::slice::from_ref(vm))?;
    let before = Limits::of(vm.process);
    let end = Instant::now() + time;
    while Instant::now() < end && !watch.is_over() {
        sleep(end.saturating_duration_since(Instant::now()).min(Duration::from_millis(100)));
        watch.look()?;
    }
    let after = Limits::of(vm.process);
    let vm = watch.read()?.vms.into_iter().next().context("the VM was not seen")?;
    if vm.ended {
        bail!("the VM ended while it was looked at\nhint: look at one that runs on");
    }
    if vm.lost > 0 {
        bail!(
            "{} exits found no room, so no number would be right\n\
             hint: look for a shorter time, with --for",
            vm.lost
        );
    }
    let seen = Seen { machine, vm, before, after, halt_poll_ns: halt_poll_ns(), hz: tick_rate() };
    let costs = seen.judge();
    Ok((seen.vm, costs))
}

impl Seen {
    fn judge(&self) -> Vec<Cost> {
        let mut costs = self.devices();
        costs.extend([self.hyperv(), self.clocks(), self.polling(), self.tick()]);
        costs.extend(self.quotas());
        let rank = |cost: &Cost| match cost.state {
            State::Costs => (0, -cost.share.unwrap_or_default()),
            State::Free => (1, 0.0),
            State::Unknown => (2, 0.0),
        };
        costs.sort_by(|one, other| rank(one).partial_cmp(&rank(other)).expect("numbers"));
        costs
    }

    /// With the exits that this is true of.
    fn exits(&self, what: &'static str, is: impl Fn(&Exits) -> bool) -> Cost {
        let all = sum(self.vm.exits.iter().filter(|exits| is(exits)));
        self.cost(what, self.vm.per_second(all.count), self.vm.share(all.cpu_ns()))
    }

    fn cost(&self, what: &'static str, per_second: f64, share: f64) -> Cost {
        let costs = per_second >= LEAST.0 || share >= LEAST.1;
        let state = if costs { State::Costs } else { State::Free };
        let (found, mend) = (String::new(), String::new());
        Cost { what, state, per_second: Some(per_second), share: Some(share), found, mend }
    }

    fn devices(&self) -> Vec<Cost> {
        let there = match &self.machine {
            None => "the VMM is no QEMU: its command line is not read",
            Some(Machine { hpet: true, .. }) => "the machine has one",
            Some(_) => "the machine has none, by its command line",
        };
        let others = "give the guest a better clock: Linux its TSC and APIC timer, Windows \
                      -cpu …,hv-time,hv-vpindex,hv-synic,hv-stimer";
        [
            (
                "HPET",
                there,
                "QEMU: -machine …,hpet=off (libvirt: <timer name='hpet' present='no'/>)",
            ),
            ("PIT", "by exits for its ports", others),
            ("RTC", "by exits for its ports", others),
        ]
        .map(|(what, found, mend)| {
            let cost = self.exits(what, |exits| is_of(exits, what));
            let mend = if cost.state == State::Costs { mend } else { "" };
            Cost { found: found.into(), mend: mend.into(), ..cost }
        })
        .to_vec()
    }

    /// Without its timer a guest that knows Hyper-V uses one of the devices.
    fn hyperv(&self) -> Cost {
        let what = "Hyper-V's timer";
        let old = self.exits(what, |exits| ["HPET", "PIT", "RTC"].iter().any(|d| is_of(exits, d)));
        let unmeasured = Cost { per_second: None, share: None, ..old.clone() };
        match &self.machine {
            None => Cost {
                state: State::Unknown,
                found: "the VMM is no QEMU: its command line is not read".into(),
                ..unmeasured
            },
            Some(machine) if machine.hyperv && !machine.stimer => {
                let mend = match old.state {
                    State::Costs => "QEMU: -cpu …,hv-time,hv-vpindex,hv-synic,hv-stimer",
                    _ => "",
                };
                let found = "features of Hyper-V, and not its timer; the number is that of HPET, \
                             PIT and RTC";
                Cost { found: found.into(), mend: mend.into(), ..old }
            }
            Some(machine) => {
                let found = if machine.stimer { "given" } else { "no feature of Hyper-V is given" };
                Cost { state: State::Free, found: found.into(), ..unmeasured }
            }
        }
    }

    /// A clock that is read by an exit, and the TSC, which needs none.
    fn clocks(&self) -> Cost {
        let is = |exits: &Exits| {
            exits.kind.cause == Cause::Clock
                && !["HPET", "PIT", "RTC"].iter().any(|d| is_of(exits, d))
        };
        let cost = self.exits("clock", is);
        let (found, mend) = match &self.machine {
            None => ("whether its TSC is invariant is not known: the VMM is no QEMU", ""),
            Some(machine) if machine.invariant_tsc => ("its TSC is invariant", ""),
            Some(_) => (
                "its TSC is not invariant, by its command line; the number is that of clocks \
                 which are read by exits",
                "QEMU: -cpu …,+invtsc (then it migrates only to hosts with the same TSC)",
            ),
        };
        let mend = if cost.state == State::Costs { mend } else { "" };
        Cost { found: found.into(), mend: mend.into(), ..cost }
    }

    fn polling(&self) -> Cost {
        let maximum = match self.halt_poll_ns {
            Some(ns) => format!("halt_poll_ns is {ns}"),
            None => "halt_poll_ns is not known".into(),
        };
        let what = "polling in vain";
        let Some((before, after)) = self.before.polls.zip(self.after.polls) else {
            let found = format!("{maximum}; debugfs does not tell of polls");
            return unknown(what, found);
        };
        let [good, vain] = [after.0.saturating_sub(before.0), after.1.saturating_sub(before.1)]
            .map(|ns| self.vm.share(ns));
        let cost = self.cost(what, 0.0, vain);
        let mend = match cost.state {
            State::Costs => {
                "paratick tune halt-poll --host here, which says what to write into \
                 /sys/module/kvm/parameters/halt_poll_ns"
            }
            _ => "",
        };
        let found = format!("{maximum}; polls that found work: {:.1} % of a CPU", good * 100.0);
        Cost { per_second: None, found, mend: mend.into(), ..cost }
    }

    fn tick(&self) -> Cost {
        let cost = self.exits("host's tick", |exits| exits.kind.cause == Cause::HostTick);
        match self.hz {
            Some(hz) if hz < FAST_HZ => {
                Cost { state: State::Free, found: format!("the host's HZ is {hz}"), ..cost }
            }
            Some(hz) => Cost {
                found: format!("the host's HZ is {hz}"),
                mend: "a kernel with CONFIG_HZ=250 on the host".into(),
                ..cost
            },
            None => Cost {
                state: State::Unknown,
                found: "no file has the configuration of the host's kernel".into(),
                ..cost
            },
        }
    }

    /// One for each group that has a quota.
    fn quotas(&self) -> Vec<Cost> {
        let what = "quota";
        let Some((before, after)) = self.before.quotas.as_ref().zip(self.after.quotas.as_ref())
        else {
            let why = "no cgroups of version 2 with the controller cpu at /sys/fs/cgroup";
            return vec![unknown(what, why.into())];
        };
        if after.is_empty() {
            let found = "no group of its threads has one".into();
            return vec![Cost { found, ..self.cost(what, 0.0, 0.0) }];
        }
        let none = Quota::default();
        let groups = after.iter().map(|(group, now)| {
            let then = before.get(group).unwrap_or(&none);
            let times = now.throttled.saturating_sub(then.throttled);
            let us = now.throttled_us.saturating_sub(then.throttled_us);
            let cost = self.cost(what, self.vm.per_second(times), self.vm.share(us * 1000));
            let costs = cost.state == State::Costs;
            let mend = format!("echo max >/sys/fs/cgroup{group}/cpu.max");
            let found = format!("{group}: cpu.max is {}", now.max);
            Cost { found, mend: if costs { mend } else { String::new() }, ..cost }
        });
        groups.collect()
    }
}

fn unknown(what: &'static str, found: String) -> Cost {
    let (state, mend) = (State::Unknown, String::new());
    Cost { what, state, per_second: None, share: None, found, mend }
}

/// Whether exits were about this device, as `paratick exits` says.
fn is_of(exits: &Exits, device: &str) -> bool {
    let about = exits.kind.about.as_deref().unwrap_or_default();
    about.strip_prefix(device).is_some_and(|rest| rest.starts_with(','))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
