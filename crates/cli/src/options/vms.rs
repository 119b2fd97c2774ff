// SPDX-License-Identifier: GPL-2.0-only
//! Which of the VMs that run on this machine.

use super::refuse;
use crate::{errors::usage, print::errln};
use anyhow::Result;
use clap::Args;
use paratick_core::vms::OfVms;
use paratick_observe::{running, Identity, Wanted};
use std::{
    cell::RefCell,
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// Of the VMs that could be meant.
const SHOWN: usize = 20;

#[derive(Args, Clone)]
pub struct Vms {
    /// Only this VM, by name, UUID or process; repeatable [default: all]
    #[arg(long, value_name = "VM")]
    pub vm: Vec<String>,
    /// Only this vCPU; repeatable [default: all]
    #[arg(long, value_name = "N")]
    pub vcpu: Vec<u32>,
}

impl Vms {
    /// Each name must be that of a VM that runs now.
    pub fn find(&self) -> Result<Chosen> {
        let known = running();
        let wanted = Wanted::of(&self.vm, &known).map_err(|error| usage(error.to_string()))?;
        Ok(Chosen { wanted, vcpus: self.vcpu.clone(), known, looked: Instant::now() })
    }

    pub fn refuse(&self, why: &str) -> Result<()> {
        refuse(&["vm", "vcpu"], why)
    }

    /// Leaves out of a recording what was not chosen.
    pub fn choose(&self, recorded: &mut impl OfVms) -> Result<()> {
        let there = recorded.vcpus();
        let processes: BTreeSet<u32> = there.iter().map(|(process, _)| *process).collect();
        let known = processes.into_iter().map(|process| Identity {
            process,
            name: recorded.names().get(&process).cloned(),
            others: Vec::new(),
        });
        self.among(&there, known.collect())?.choose(recorded);
        Ok(())
    }

    /// Of vCPUs that were recorded, and their VMs.
    pub fn among(&self, there: &BTreeSet<(u32, u32)>, known: Vec<Identity>) -> Result<Chosen> {
        for vm in &self.vm {
            let is = |one: &&Identity| vm.parse() == Ok(one.process) || one.is_called(vm);
            if !known.iter().any(|one| is(&one)) {
                let name = |one: &Identity| one.name.clone().unwrap_or(one.process.to_string());
                let those = known.iter().take(SHOWN).map(|one| format!("--vm {}", name(one)));
                let those: Vec<String> = those.collect();
                let hint = match those.is_empty() {
                    true => "omit --vm: no process was recorded".into(),
                    false => format!("give {}", those.join(" or ")),
                };
                return Err(usage(format!("no VM '{vm}' was recorded\nhint: {hint}")));
            }
        }
        let wanted = Wanted::of(&self.vm, &known).map_err(|error| usage(error.to_string()))?;
        let vcpus = self.vcpu.clone();
        let chosen = Chosen { wanted, vcpus, known, looked: Instant::now() };
        let its = there.iter().filter(|(process, _)| chosen.has_vm(*process));
        let vcpus: BTreeSet<u32> = its.map(|(_, vcpu)| *vcpu).collect();
        if let Some(missing) = self.vcpu.iter().find(|vcpu| !vcpus.contains(vcpu)) {
            let those: Vec<String> = vcpus.iter().map(u32::to_string).collect();
            let hint = match those.is_empty() {
                true => "omit --vcpu: there is none in it".into(),
                false => format!("give --vcpu {}", those.join(", or --vcpu ")),
            };
            return Err(usage(format!("no vCPU {missing} was recorded\nhint: {hint}")));
        }
        Ok(chosen)
    }
}

/// VMs that were chosen; of none, all.
pub struct Chosen {
    wanted: Wanted,
    vcpus: Vec<u32>,
    known: Vec<Identity>,
    looked: Instant,
}

/// A VM that runs for a shorter time may have no name.
const BETWEEN: Duration = Duration::from_secs(2);

impl Chosen {
    /// For whoever records until it is to leave: VMs come and go meanwhile.
    pub fn during<T>(
        &mut self,
        leave: &dyn Fn() -> bool,
        record: impl FnOnce(&dyn Fn() -> bool) -> T,
    ) -> T {
        let chosen = RefCell::new(self);
        record(&|| {
            let mut chosen = chosen.borrow_mut();
            if chosen.looked.elapsed() >= BETWEEN {
                chosen.look_again();
            }
            leave()
        })
    }

    /// Leaves out of what was recorded now what was not chosen, and tells names.
    pub fn keep(&mut self, recorded: &mut impl OfVms) {
        self.look_again();
        self.choose(recorded);
        let chosen = self.known.iter().filter(|one| self.has_vm(one.process));
        let names = chosen.filter_map(|one| Some((one.process, one.name.clone()?)));
        recorded.set_names(names.collect());
    }

    /// Says which vCPUs were asked for and are in no VM's recording.
    pub fn tell_missing(&self, recorded: &impl OfVms) {
        let there = recorded.vcpus();
        for vcpu in &self.vcpus {
            if there.iter().all(|(_, number)| number != vcpu) {
                errln!("note: no vCPU {vcpu} was seen: there is none, or it slept");
            }
        }
    }

    fn choose(&self, recorded: &mut impl OfVms) {
        // A VM may have lost exits, and have no others.
        if !(self.wanted.is_all() && self.vcpus.is_empty()) {
            recorded.only(|process, vcpu| self.has(process, vcpu));
        }
    }

    /// VMs that have started meanwhile have names, too.
    fn look_again(&mut self) {
        let new = running().into_iter();
        let known: Vec<u32> = self.known.iter().map(|one| one.process).collect();
        self.known.extend(new.filter(|one| !known.contains(&one.process)));
        self.looked = Instant::now();
    }

    pub fn has(&self, process: u32, vcpu: u32) -> bool {
        self.has_vm(process) && (self.vcpus.is_empty() || self.vcpus.contains(&vcpu))
    }

    pub fn has_vm(&self, process: u32) -> bool {
        let known = self.known.iter().find(|one| one.process == process);
        known.map_or_else(
            || self.wanted.has(&Identity { process, ..Identity::default() }),
            |one| self.wanted.has(one),
        )
    }
}
