// SPDX-License-Identifier: GPL-2.0-only
//! Counts every exit of every vCPU of this host, for as long as one likes: sums by what an exit was
//! about, in memory that does not grow.  Stock kernels can be looked at.
//!
//! bpf/vcpu.bpf.c counts; [`gather`] names what it counted.

mod gather;
mod raw;

use crate::{
    away::Programs,
    bpf, clock,
    entries::{elements, entries},
    Instrument,
};
use anyhow::{Context, Result};
use aya::{
    maps::{Array, HashMap, MapData, Stack},
    Pod,
};
use gather::Snapshot;
use paratick_core::observed::{Counted, Reading};
use raw::{
    Vcpu, KINDS_ADDED, LOSSES, PLACES_OF_COUNTS, PLACES_OF_VCPUS, THREADS_ADDED, THREADS_LEFT,
    THREADS_MET, VMS_ADDED,
};
use std::collections::{BTreeMap, BTreeSet};

const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/vcpu.bpf.o"));

pub struct VcpuCounter {
    programs: Programs,
    /// The places of counts and of vCPUs.
    kinds: Known<(raw::Kind, u32), 1>,
    threads: Known<(u32, u32), 2>,
    lost: Known<(u32, u64), 2>,
}

/// A hash map as it was looked through last: that takes some ns for each place of the map, and so
/// far longer than to read the counts.
struct Known<T, const N: usize> {
    /// In the order of the values, which are places where their values are read.
    entries: Vec<T>,
    /// How often the map had changed before, by numbers of the array `given`.
    as_of: Option<[u32; N]>,
}

impl<T, const N: usize> Default for Known<T, N> {
    fn default() -> Known<T, N> {
        Known { entries: Vec::new(), as_of: None }
    }
}

impl<K: Pod, V: Pod + Ord, const N: usize> Known<(K, V), N> {
    fn update(&mut self, programs: &Programs, map: &str, changes: [u32; N]) -> Result<()> {
        // In this order: a change meanwhile is looked for again.
        let mut as_of = [0; N];
        for (number, which) in as_of.iter_mut().zip(changes) {
            *number = given(programs, which)?;
        }
        if self.as_of != Some(as_of) {
            self.entries = entries(&programs.ebpf, map)?;
            self.entries.sort_unstable_by_key(|(_, value)| *value);
            self.as_of = Some(as_of);
        }
        Ok(())
    }
}

fn given(programs: &Programs, which: u32) -> Result<u32> {
    let given = programs.ebpf.map("given").context("a BPF map is missing")?;
    Ok(Array::<_, u32>::try_from(given)?.get(&which, 0)?)
}

impl Instrument for VcpuCounter {
    const NAME: &'static str = "vcpus";
    type Reading = Reading;

    fn start() -> Result<VcpuCounter> {
        let (kinds, threads, lost) = Default::default();
        Ok(VcpuCounter { programs: Programs::load(OBJECT)?, kinds, threads, lost })
    }

    /// All exits that began since the start, of all VMs that were not taken.
    fn read(&mut self) -> Result<Reading> {
        let now_ns = clock::now_ns();
        // In this order: see [`Snapshot`].
        let threads = self.threads()?;
        self.kinds.update(&self.programs, "kinds", [KINDS_ADDED])?;
        let lost = self.lost()?;
        let lost_of_none = lost.get(&0).copied().unwrap_or(0);
        let mut snapshot = Snapshot::new(threads, lost, now_ns);
        let places = &self.kinds.entries;
        self.at(places, "counts", PLACES_OF_COUNTS, |kind, spent| snapshot.add(kind, spent))?;
        let missed = bpf::missed(&self.programs.ebpf, "kvm_exit")?;
        Ok(Reading {
            vms: snapshot.gather(|kind| places.iter().any(|(known, _)| known == kind)),
            lost: lost_of_none + missed,
            now_ns,
            vmm_end_unknown: !self.programs.sees_run,
        })
    }
}

/// How many threads began to run vCPUs, and ended.  A VM's process may end after its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    pub met: u32,
    pub left: u32,
}

impl VcpuCounter {
    /// In next to no time.
    pub fn threads_so_far(&self) -> Result<Threads> {
        let number = |which| given(&self.programs, which);
        Ok(Threads { met: number(THREADS_MET)?, left: number(THREADS_LEFT)? })
    }

    /// The processes of VMs that made an exit, and were not taken.
    pub fn vms(&mut self) -> Result<BTreeSet<u32>> {
        Ok(self.lost()?.into_keys().filter(|vm| *vm != 0).collect())
    }

    fn lost(&mut self) -> Result<BTreeMap<u32, u64>> {
        self.lost.update(&self.programs, "vms", [VMS_ADDED, LOSSES])?;
        Ok(self.lost.entries.iter().copied().collect())
    }

    /// The threads of a process that run vCPUs.
    pub fn threads_of(&mut self, process: u32) -> Result<BTreeSet<u32>> {
        let its = self.threads()?.into_iter().filter(|vcpu| vcpu.absence.tgid == process);
        Ok(its.map(|vcpu| vcpu.id as u32).collect())
    }

    /// What was counted of VMs whose processes have ended: their places are free again.  Threads
    /// that run are of another VM, whose process has the number now.
    pub fn take(&mut self, ended: &BTreeSet<u32>) -> Result<BTreeMap<u32, Counted>> {
        // In this order: who made a kind runs, or has ended.
        self.kinds.update(&self.programs, "kinds", [KINDS_ADDED])?;
        let mut places = self.kinds.entries.clone();
        let running = self.threads()?.into_iter().filter(|one| ended.contains(&one.absence.tgid));
        let (running, again): (BTreeSet<u32>, BTreeSet<u32>) =
            running.map(|one| (one.thread, one.absence.tgid)).unzip();
        places.retain(|(kind, _)| ended.contains(&kind.tgid) && !running.contains(&kind.thread));
        let mut snapshot = Snapshot::default();
        self.at(&places, "counts", PLACES_OF_COUNTS, |kind, spent| snapshot.add(kind, spent))?;
        let mut lost = self.lost()?;
        lost.retain(|vm, _| ended.contains(vm) && !again.contains(vm));
        (self.kinds.as_of, self.lost.as_of) = (None, None);
        self.remove::<raw::Kind, u32>("kinds", places.iter().map(|(kind, _)| kind))?;
        let left = self.programs.ebpf.map_mut("left_counts").context("a BPF map is missing")?;
        let mut left: Stack<_, u32> = Stack::try_from(left)?;
        places.iter().try_for_each(|(_, place)| left.push(place, 0))?;
        self.remove::<u32, u64>("vms", lost.keys())?;
        snapshot.lost = lost;
        Ok(snapshot.gather(|_| true))
    }

    fn threads(&mut self) -> Result<Vec<Vcpu>> {
        self.threads.update(&self.programs, "threads", [THREADS_ADDED, THREADS_LEFT])?;
        let mut threads = Vec::with_capacity(self.threads.entries.len());
        self.at(&self.threads.entries, "vcpus", PLACES_OF_VCPUS, |pid: &u32, vcpu: &Vcpu| {
            // A place may be another thread's by now.
            if vcpu.id as u32 == *pid {
                threads.push(*vcpu);
            }
        })?;
        Ok(threads)
    }

    /// Shows what the array `values` has at each place; they are in order.
    fn at<K: Pod, V: Pod>(
        &self,
        places: &[(K, u32)],
        values: &str,
        which: u32,
        mut see: impl FnMut(&K, &V),
    ) -> Result<()> {
        let mut wanted = places.iter().peekable();
        // The first place is none.
        let used = 1 + given(&self.programs, which)?;
        elements(&self.programs.ebpf, values, used, |first, values: &[V]| {
            let end = first + values.len();
            while let Some((key, place)) = wanted.next_if(|(_, place)| (*place as usize) < end) {
                see(key, &values[*place as usize - first]);
            }
        })
    }

    fn remove<'a, K: Pod + 'a, V: Pod>(
        &mut self,
        name: &str,
        keys: impl Iterator<Item = &'a K>,
    ) -> Result<()> {
        let map = self.programs.ebpf.map_mut(name).context("a BPF map is missing")?;
        let mut map: HashMap<&mut MapData, K, V> = HashMap::try_from(map)?;
        keys.into_iter().try_for_each(|key| Ok(map.remove(key)?))
    }
}

#[cfg(test)]
mod program_tests;
#[cfg(test)]
mod tests;
