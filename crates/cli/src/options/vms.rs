// SPDX-License-Identifier: GPL-2.0-only
//! Which of the VMs that run on this machine.

use super::refuse;
use crate::errors::usage;
use anyhow::Result;
use clap::Args;
use paratick_observe::{running, Identity, Wanted};
use std::{
    collections::{BTreeMap, BTreeSet},
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

    pub fn is_all(&self) -> bool {
        self.vm.is_empty() && self.vcpu.is_empty()
    }

    pub fn refuse(&self, why: &str) -> Result<()> {
        refuse(&["vm", "vcpu"], why)
    }

    /// The same of a recording: these vCPUs, by process, were recorded, and processes have names.
    pub fn of_recording(
        &self,
        there: impl IntoIterator<Item = (u32, u32)>,
        names: &BTreeMap<u32, String>,
    ) -> Result<Chosen> {
        let there: Vec<(u32, u32)> = there.into_iter().collect();
        let mut known: Vec<Identity> = Vec::new();
        for (process, _) in there.iter().copied() {
            if known.iter().all(|one| one.process != process) {
                let name = names.get(&process).cloned();
                known.push(Identity { process, name, others: Vec::new() });
            }
        }
        known.sort_by_key(|one| one.process);
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
    /// For whoever records: VMs come and go meanwhile.
    pub fn look_at_times(&mut self) {
        if self.looked.elapsed() >= BETWEEN {
            self.look_again();
        }
    }

    pub fn is_all(&self) -> bool {
        self.wanted.is_all() && self.vcpus.is_empty()
    }

    /// VMs that have started meanwhile have names, too.
    pub fn look_again(&mut self) {
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

    /// What the chosen ones are called, where they have names.
    pub fn names(&self) -> BTreeMap<u32, String> {
        let chosen = self.known.iter().filter(|one| self.has_vm(one.process));
        chosen.filter_map(|one| Some((one.process, one.name.clone()?))).collect()
    }
}
