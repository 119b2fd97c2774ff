// SPDX-License-Identifier: GPL-2.0-only
//! VMs that come and go while the sensor counts.

use crate::{
    ended::Ended,
    names::{Identity, Wanted},
    processes::{born, born_ns, identify},
};
use anyhow::{bail, Result};
use paratick_core::{
    observed::{Counted, Observed, Vm, SCHEMA},
    units::Hz,
};
use paratick_instruments::{
    exits_by_kvm,
    vcpus::{Threads, VcpuCounter},
    Instrument,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// How often to [`look`](Watch::look): a VM that ends sooner has no name.
pub const STEP: Duration = Duration::from_millis(100);

/// Taking what ended VMs counted means to look through everything.
const BETWEEN: Duration = Duration::from_secs(2);

/// A process may end for so long after its vCPUs' threads.
const SETTLES: Duration = Duration::from_secs(3);

/// Processes are looked for so often all the same: one may have had no place for its threads.
const AT_LEAST: Duration = Duration::from_secs(10);

pub struct Watch {
    counter: VcpuCounter,
    wanted: Wanted,
    /// Of none, all.
    vcpus: Vec<u32>,
    begun_ns: u64,
    looked_ns: u64,
    taken: Instant,
    /// As of the last look; and whether VMs have been listed since the last thread was met.
    threads: Threads,
    is_listed: bool,
    listed: Instant,
    looked_for: Instant,
    settled: Instant,
    exits_before: Option<u64>,
    /// Whether there was an exit, of any VM.
    told: bool,
    seen: BTreeMap<u32, Seen>,
    ended: Ended,
}

struct Seen {
    identity: Identity,
    born: Option<u64>,
    since_ns: u64,
    state: State,
}

/// Of a VM's process, as it was looked for last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    Ended,
    /// Another process has its number.
    Replaced,
}

impl Seen {
    fn state(&self) -> State {
        match (self.born, born(self.identity.process)) {
            (None, None) | (Some(_), None) => State::Ended,
            (before, now) if before == now => State::Runs,
            _ => State::Replaced,
        }
    }

    fn has_ended(&self) -> bool {
        self.state != State::Runs
    }
}

impl Watch {
    /// `running` are those of the VMs that run now which are shown even if they do nothing.
    pub fn start(wanted: Wanted, vcpus: Vec<u32>, running: &[Identity]) -> Result<Watch> {
        let mut counter = VcpuCounter::start()?;
        let begun_ns = counter.read()?.now_ns;
        let chosen = running.iter().filter(|vm| !wanted.is_all() && wanted.has(vm));
        let chosen: Vec<u32> = chosen.map(|vm| vm.process).collect();
        let mut watch = Watch {
            counter,
            wanted,
            vcpus,
            begun_ns,
            looked_ns: begun_ns,
            taken: Instant::now(),
            threads: Threads::default(),
            is_listed: false,
            listed: Instant::now(),
            looked_for: Instant::now(),
            settled: Instant::now(),
            exits_before: exits_by_kvm(),
            told: false,
            seen: BTreeMap::new(),
            ended: Ended::default(),
        };
        chosen.into_iter().for_each(|process| watch.meet(process));
        Ok(watch)
    }

    /// Learns the names of new VMs while they run, and frees the places of old ones.
    pub fn look(&mut self) -> Result<()> {
        // Before the VMs: one that is met meanwhile is listed now or the next time.
        let threads = self.counter.threads_so_far()?;
        self.is_listed &= threads.met == self.threads.met && self.listed.elapsed() < AT_LEAST;
        if !self.is_listed {
            for process in self.counter.vms()? {
                self.told = true;
                if !self.seen.contains_key(&process) {
                    self.meet(process);
                }
            }
            self.is_listed = true;
            self.listed = Instant::now();
        }
        // One that was met may have the number of a process that has ended.
        if threads != self.threads {
            self.settled = Instant::now() + SETTLES;
        }
        self.threads = threads;
        self.looked_ns = now_ns();
        if self.taken.elapsed() >= BETWEEN {
            self.look_for_some();
            self.take()?;
            self.taken = Instant::now();
        }
        Ok(())
    }

    fn meet(&mut self, process: u32) {
        let born = born(process);
        // One that has ended already began after the last look.
        let since_ns = born.map_or(self.looked_ns, born_ns).max(self.begun_ns);
        let state = if born.is_some() { State::Runs } else { State::Ended };
        self.seen.insert(process, Seen { identity: identify(process), born, since_ns, state });
    }

    fn look_for_some(&mut self) {
        // Else none has ended since the last time.
        if Instant::now() < self.settled || self.looked_for.elapsed() >= AT_LEAST {
            self.look_for_all();
        }
    }

    fn look_for_all(&mut self) {
        self.seen.values_mut().for_each(|seen| seen.state = seen.state());
        self.looked_for = Instant::now();
    }

    fn take(&mut self) -> Result<()> {
        let gone = self.seen.iter().filter(|(_, vm)| vm.has_ended()).map(|(process, _)| *process);
        let gone: BTreeSet<u32> = gone.collect();
        if gone.is_empty() {
            return Ok(());
        }
        // Their numbers may be others' by now.
        self.is_listed = false;
        let mut counted = self.counter.take(&gone)?;
        for process in gone {
            let Some(seen) = self.seen.remove(&process) else { continue };
            let counted = counted.remove(&process).unwrap_or_default();
            if self.wanted.has(&seen.identity) {
                let vm = self.vm(&seen, counted, true, self.looked_ns);
                self.ended.push(vm);
            }
        }
        Ok(())
    }

    fn vm(&self, seen: &Seen, mut counted: Counted, ended: bool, now_ns: u64) -> Vm {
        if !self.vcpus.is_empty() {
            counted.exits.retain(|exits| self.vcpus.contains(&exits.vcpu));
        }
        let until = if ended && counted.last_ns > 0 { counted.last_ns } else { now_ns };
        let Identity { process, name, others } = seen.identity.clone();
        Vm {
            name: name.unwrap_or_else(|| process.to_string()),
            others,
            process,
            ended,
            ns: until.saturating_sub(seen.since_ns),
            lost: counted.lost,
            exits: counted.exits,
        }
    }

    /// VMs that have ended since the last call: they are in no reading after it.
    pub fn take_ended(&mut self) -> Vec<Vm> {
        std::mem::take(&mut self.ended).into_vms()
    }

    /// All since the start.
    pub fn read(&mut self) -> Result<Observed> {
        self.look()?;
        self.look_for_all();
        self.read_often()
    }

    /// The same, for who reads every second: a process that outlives its vCPUs' threads by
    /// [`SETTLES`] may have ended [`AT_LEAST`] ago and run still in what is read.
    pub fn read_often(&mut self) -> Result<Observed> {
        // In this order: what KVM has counted, the tracepoint has told of.
        let exits_by_kvm = exits_by_kvm();
        self.look()?;
        self.look_for_some();
        if self.seen.values().any(|seen| seen.state == State::Replaced) {
            self.take()?;
        }
        let mut reading = self.counter.read()?;
        for process in reading.vms.keys() {
            if !self.seen.contains_key(process) {
                self.meet(*process);
            }
        }
        let mut vms = Vec::new();
        for (process, seen) in &self.seen {
            let counted = reading.vms.remove(process).unwrap_or_default();
            if self.wanted.has(&seen.identity) {
                vms.push(self.vm(seen, counted, seen.has_ended(), reading.now_ns));
            }
        }
        vms.extend(self.ended.all().cloned());
        Ok(Observed {
            schema: SCHEMA.into(),
            ns: reading.now_ns.saturating_sub(self.begun_ns),
            vms,
            earlier: self.ended.summed(),
            lost: reading.lost,
            exits_by_kvm: exits_by_kvm
                .zip(self.exits_before)
                .map(|(now, before)| now.saturating_sub(before)),
            vmm_end_unknown: reading.vmm_end_unknown,
            host_hz: host_hz(),
            lacks: Vec::new(),
        })
    }

    /// The threads of a process that ran vCPUs.
    pub fn threads(&mut self, process: u32) -> Result<BTreeSet<u32>> {
        self.counter.threads_of(process)
    }

    pub fn was_told(&self) -> bool {
        self.told
    }

    /// An error where KVM has counted exits, and its tracepoint tells of none.
    pub fn check_told(&self, seen: &Observed) -> Result<()> {
        check_told(self.told, seen.exits_by_kvm)
    }

    /// Whether nothing that was chosen runs any more.
    pub fn is_over(&self) -> bool {
        let mut chosen = self.seen.values().filter(|seen| self.wanted.has(&seen.identity));
        !self.wanted.is_all() && chosen.all(|seen| seen.state() != State::Runs)
    }
}

fn check_told(told: bool, by_kvm: Option<u64>) -> Result<()> {
    match by_kvm {
        Some(exits @ 1..) if !told => bail!(
            "KVM counted {exits} exits, and its tracepoint kvm_exit told of none\n\
             hint: this kernel does not tell more than /sys/kernel/debug/kvm/exits"
        ),
        _ => Ok(()),
    }
}

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// This kernel's: its coarse clocks advance with the tick.
fn host_hz() -> Option<Hz> {
    let tick = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    let ns = u64::try_from(tick.tv_nsec).ok().filter(|ns| *ns > 0)?;
    Some(Hz((1e9 / ns as f64).round() as u32))
}

#[cfg(test)]
mod tests {
    use super::check_told;

    #[test]
    fn a_silent_tracepoint_is_an_error() {
        let error = check_told(false, Some(7)).unwrap_err().to_string();
        assert!(error.contains("counted 7 exits") && error.contains("told of none"), "{error}");
        for (told, by_kvm) in [(true, Some(7)), (false, Some(0)), (false, None)] {
            check_told(told, by_kvm).unwrap();
        }
    }
}
