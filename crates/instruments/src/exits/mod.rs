// SPDX-License-Identifier: GPL-2.0-only
//! Counting the VM exits of every guest on this host, inside the windows that guests mark.

mod gather;
mod program;

pub use program::events;

use crate::{
    bpf,
    facts::raw::{
        Key, Thread, Window, MAX_WINDOWS, STATE_LOST, STATE_OLDEST, STATE_VMS, STATE_WINDOWS,
    },
    Instrument,
};
use anyhow::{bail, Context, Result};
use aya::{
    maps::{Array, HashMap, Map, MapData},
    Pod,
};
use gather::{first_open, Snapshot};
use paratick_core::exits::WindowCounts;
use program::Programs;
use std::collections::BTreeMap;

pub struct ExitCounter {
    programs: Programs,
    /// Windows up to this sequence number have been forgotten.
    forgotten: u32,
}

impl Instrument for ExitCounter {
    const NAME: &'static str = "exits";
    type Reading = Vec<WindowCounts>;

    fn start() -> Result<ExitCounter> {
        Ok(ExitCounter { programs: Programs::load()?, forgotten: 0 })
    }

    /// Forgets all closed windows, and the vCPUs of guests that are gone.
    fn restart(mut self) -> Result<ExitCounter> {
        let windows = self.read_windows()?;
        let alive = |tgid: u32| std::path::Path::new(&format!("/proc/{tgid}")).exists();
        // An open window keeps its place, and with it all that were opened later.
        let opened = bpf::state(&self.programs.ebpf, STATE_WINDOWS)? as u32;
        self.forgotten = first_open(&windows, alive).map_or(opened, |first| first - 1);
        let limit = self.forgotten;
        self.remove("counts", |key: &Key, _: &u64| key.window <= limit)?;
        self.remove("threads", |_: &u32, thread: &Thread| !alive(thread.tgid))?;
        self.remove("vm_of_tgid", |tgid: &u32, _: &u32| !alive(*tgid))?;
        let slots = self.read_map::<u32, u32>("vm_of_tgid")?.into_values().min();
        let next = bpf::state(&self.programs.ebpf, STATE_VMS)?;
        bpf::set_state(&mut self.programs.ebpf, STATE_OLDEST, slots.map_or(next, u64::from))?;
        Ok(self)
    }

    /// Every window closed since the start, of all guests, in the order in which they were opened.
    ///
    /// Fails if any exit could not be counted: a count is exact or there is none.
    fn read(&mut self) -> Result<Vec<WindowCounts>> {
        self.check_complete()?;
        let windows = self.read_windows()?;
        // An exit still pending at the first look may be settled at any moment; no new one can
        // join a closed window.  So two equal looks around the counts make them consistent.
        let mut threads = self.read_map("threads")?;
        loop {
            let counts = self.read_map("counts")?;
            let again = self.read_map("threads")?;
            let snapshot = Snapshot {
                windows: &windows,
                threads: &threads,
                counts: &counts,
                ticks: self.programs.ticks,
            };
            if snapshot.same_pending(&again) {
                self.check_complete()?;
                return Ok(snapshot.gather());
            }
            threads = again;
        }
    }
}

impl ExitCounter {
    fn check_complete(&self) -> Result<()> {
        let missed = bpf::missed(&self.programs.ebpf, "kvm_exit")?;
        let lost = bpf::state(&self.programs.ebpf, STATE_LOST)?;
        if missed != 0 || lost != 0 {
            bail!(
                "counts are not complete: {missed} exits were missed, {lost} found no room\n\
                 hint: count fewer guests at a time, and stop other BPF tracing on this host"
            );
        }
        Ok(())
    }

    fn read_windows(&self) -> Result<Vec<Window>> {
        let opened = bpf::state(&self.programs.ebpf, STATE_WINDOWS)? as u32;
        if opened - self.forgotten >= MAX_WINDOWS {
            bail!(
                "{} windows were opened, and only {MAX_WINDOWS} can be kept\n\
                 hint: begin to count anew between samples",
                opened - self.forgotten
            );
        }
        let windows: Array<_, Window> = Array::try_from(self.map("windows")?)?;
        (self.forgotten + 1..=opened)
            .map(|sequence| Ok(windows.get(&(sequence % MAX_WINDOWS), 0)?))
            .collect()
    }

    fn read_map<K: Pod + Ord, V: Pod>(&self, name: &str) -> Result<BTreeMap<K, V>> {
        let map: HashMap<_, K, V> = HashMap::try_from(self.map(name)?)?;
        map.iter()
            .collect::<Result<_, _>>()
            .with_context(|| format!("cannot read the BPF map {name}"))
    }

    fn remove<K: Pod, V: Pod>(&mut self, name: &str, old: impl Fn(&K, &V) -> bool) -> Result<()> {
        let map = self.programs.ebpf.map_mut(name).with_context(|| format!("no BPF map {name}"))?;
        let mut map: HashMap<&mut MapData, K, V> = HashMap::try_from(map)?;
        let entries: Vec<(K, V)> = map.iter().collect::<Result<_, _>>()?;
        for (key, value) in entries {
            if old(&key, &value) {
                map.remove(&key)?;
            }
        }
        Ok(())
    }

    fn map(&self, name: &str) -> Result<&Map> {
        self.programs.ebpf.map(name).with_context(|| format!("no BPF map {name}"))
    }
}
