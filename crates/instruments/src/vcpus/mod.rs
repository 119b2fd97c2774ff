// SPDX-License-Identifier: GPL-2.0-only
//! Counts every exit of every vCPU of this host, for as long as one likes: sums by what an exit was
//! about, in memory that does not grow.  Stock kernels can be looked at.
//!
//! bpf/vcpu.bpf.c counts; [`gather`] names what it counted.

mod gather;
mod raw;

use crate::{away::Programs, bpf, clock, Instrument};
use anyhow::{Context, Result};
use aya::{
    maps::{Array, HashMap, MapData, Stack},
    Pod,
};
use gather::Snapshot;
use paratick_core::observed::{Counted, Reading};
use raw::Vcpu;
use std::collections::{BTreeMap, BTreeSet};

const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/vcpu.bpf.o"));

pub struct VcpuCounter(Programs);

impl Instrument for VcpuCounter {
    const NAME: &'static str = "vcpus";
    type Reading = Reading;

    fn start() -> Result<VcpuCounter> {
        Ok(VcpuCounter(Programs::load(OBJECT)?))
    }

    /// All exits that began since the start, of all VMs that were not taken.
    fn read(&mut self) -> Result<Reading> {
        let now_ns = clock::now_ns();
        // In this order: see [`Snapshot`].
        let threads = self.placed("threads", "vcpus")?;
        let threads = threads.into_iter().filter(|(pid, vcpu): &(u32, Vcpu)| vcpu.pid == *pid);
        let snapshot = Snapshot {
            threads: threads.collect(),
            counts: self.placed("kinds", "counts")?,
            lost: self.0.lost()?,
            now_ns,
        };
        let missed = bpf::missed(&self.0.ebpf, "kvm_exit")?;
        Ok(Reading {
            vms: snapshot.gather(),
            lost: snapshot.lost.get(&0).copied().unwrap_or(0) + missed,
            now_ns,
            vmm_end_unknown: !self.0.sees_run,
        })
    }
}

impl VcpuCounter {
    /// The processes of VMs that made an exit, and were not taken.
    pub fn vms(&self) -> Result<BTreeSet<u32>> {
        let map: HashMap<_, u32, u64> = HashMap::try_from(self.0.ebpf.map("vms").context(NO)?)?;
        let vms = map.keys().collect::<Result<BTreeSet<u32>, _>>()?;
        Ok(vms.into_iter().filter(|vm| *vm != 0).collect())
    }

    /// What was counted of VMs whose processes have ended: their places are free again.
    pub fn take(&mut self, ended: &BTreeSet<u32>) -> Result<BTreeMap<u32, Counted>> {
        let mut places: BTreeMap<raw::Kind, u32> = self.map("kinds")?;
        places.retain(|kind, _| ended.contains(&kind.tgid));
        let counts = self.at("counts", &places)?;
        let mut lost = self.0.lost()?;
        lost.retain(|vm, _| ended.contains(vm));
        self.remove::<raw::Kind, u32>("kinds", places.keys())?;
        let left = self.0.ebpf.map_mut("left_counts").context(NO)?;
        let mut left: Stack<_, u32> = Stack::try_from(left)?;
        places.into_values().try_for_each(|place| left.push(place, 0))?;
        self.remove::<u32, u64>("vms", lost.keys())?;
        Ok(Snapshot { threads: BTreeMap::new(), counts, lost, now_ns: 0 }.gather())
    }

    /// What `values` has at each key's place.
    fn placed<K: Pod + Ord, V: Pod>(&self, places: &str, values: &str) -> Result<BTreeMap<K, V>> {
        self.at(values, &self.map(places)?)
    }

    fn at<K: Pod + Ord, V: Pod>(
        &self,
        values: &str,
        places: &BTreeMap<K, u32>,
    ) -> Result<BTreeMap<K, V>> {
        let array: Array<_, V> = Array::try_from(self.0.ebpf.map(values).context(NO)?)?;
        places.iter().map(|(key, place)| Ok((*key, array.get(place, 0)?))).collect()
    }

    fn map<K: Pod + Ord, V: Pod>(&self, name: &str) -> Result<BTreeMap<K, V>> {
        let map: HashMap<_, K, V> = HashMap::try_from(self.0.ebpf.map(name).context(NO)?)?;
        let all = map.iter().collect::<Result<_, _>>();
        all.with_context(|| format!("cannot read the BPF map {name}"))
    }

    fn remove<'a, K: Pod + 'a, V: Pod>(
        &mut self,
        name: &str,
        keys: impl Iterator<Item = &'a K>,
    ) -> Result<()> {
        let map = self.0.ebpf.map_mut(name).context(NO)?;
        let mut map: HashMap<&mut MapData, K, V> = HashMap::try_from(map)?;
        keys.into_iter().try_for_each(|key| Ok(map.remove(key)?))
    }
}

const NO: &str = "a BPF map is missing";

#[cfg(test)]
mod tests;
