// SPDX-License-Identifier: GPL-2.0-only
//! Counts what the kernel decides when CPUs go idle, by probes in its idle code
//! (Documentation/trace/kprobetrace.rst, histogram.rst).
//!
//! Each probe takes some hundred instructions, but no VM exit.

use anyhow::{Context, Result};
use paratick_core::idle::IdleEntries;
use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
};

/// Mounted by the first process.
const TRACING: &str = "/sys/kernel/tracing";
const GROUP: &str = "paratick";

/// A probe, and what its histogram counts.
struct Probe {
    name: &'static str,
    definition: &'static str,
    histogram: &'static str,
}

const PROBES: [Probe; 4] = [
    Probe {
        name: "decided",
        definition: "r:paratick/decided tick_nohz_next_event",
        histogram: "hist:keys=common_pid",
    },
    Probe {
        name: "kept",
        definition: "r:paratick/kept tick_nohz_next_event next=$retval:u64",
        histogram: "hist:keys=common_pid if next == 0",
    },
    Probe {
        name: "rcu",
        definition: "r:paratick/rcu rcu_needs_cpu waiting=$retval:u8",
        histogram: "hist:keys=common_pid if waiting == 1",
    },
    Probe {
        name: "callback",
        definition: "p:paratick/callback call_rcu function=$arg2:u64",
        histogram: "hist:keys=function.sym",
    },
];

/// Counts from its start until it is dropped.
pub struct Counter(());

impl Counter {
    pub fn start() -> Result<Counter> {
        // Also undoes what was done if the rest fails.
        let counter = Counter(());
        for probe in &PROBES {
            let count = || -> Result<()> {
                append(&definitions(), probe.definition)?;
                append(&probe.file("trigger"), probe.histogram)
            };
            count().with_context(|| {
                format!(
                    "idle entries cannot be counted: {}\nhint: the guest's kernel needs CONFIG_KPROBE_EVENTS and CONFIG_HIST_TRIGGERS",
                    probe.definition
                )
            })?;
        }
        Ok(counter)
    }

    pub fn read(&self) -> Result<IdleEntries> {
        let histogram = |nth: usize| -> Result<BTreeMap<String, u64>> {
            let text = fs_err::read_to_string(PROBES[nth].file("hist"))?;
            Ok(counts(&text))
        };
        let sum = |nth| Ok::<u64, anyhow::Error>(histogram(nth)?.values().sum());
        Ok(IdleEntries {
            decisions: sum(0)?,
            kept: sum(1)?,
            rcu_waiting: sum(2)?,
            rcu_callbacks: histogram(3)?,
        })
    }
}

impl Probe {
    fn file(&self, name: &str) -> PathBuf {
        let events = Path::new(TRACING).join("events").join(GROUP);
        events.join(self.name).join(name)
    }
}

fn definitions() -> PathBuf {
    Path::new(TRACING).join("kprobe_events")
}

impl Drop for Counter {
    fn drop(&mut self) {
        // Nothing can be done about what fails here, and all fails of what was not begun.
        for probe in &PROBES {
            let off = format!("!{}", probe.histogram);
            append(&probe.file("trigger"), &off).ok();
            let away = format!("-:{GROUP}/{}", probe.name);
            append(&definitions(), &away).ok();
        }
    }
}

fn append(file: &Path, line: &str) -> Result<()> {
    let mut file = OpenOptions::new().append(true).open(file)?;
    Ok(file.write_all(line.as_bytes())?)
}

/// The counts of a histogram with one key: by symbol, where the key is one, else by its number.
///
/// `{ function: [ffffffff81784890] mt_free_rcu      } hitcount:       1184`
fn counts(text: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let Some((key, count)) = line.split_once("} hitcount:") else {
            continue;
        };
        let name = key.split_ascii_whitespace().last();
        if let (Some(name), Ok(count)) = (name, count.trim().parse::<u64>()) {
            *counts.entry(name.to_string()).or_default() += count;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const HISTOGRAM: &str = "# event histogram
#
# trigger info: hist:keys=function.sym:vals=hitcount:sort=hitcount:size=2048 [active]
#

{ function: [ffffffff813a8900] netfs_free_request_rcu                   } hitcount:        216
{ function: [ffffffff81784890] mt_free_rcu                              } hitcount:       1184

Totals:
    Hits: 1400
    Entries: 2
    Dropped: 0
";

    #[test]
    fn a_histogram_is_read_by_its_key() {
        let read = counts(HISTOGRAM);
        assert_eq!(read.len(), 2);
        assert_eq!(read["netfs_free_request_rcu"], 216);
        assert_eq!(read["mt_free_rcu"], 1184);
        let by_pid = counts("{ common_pid:          0 } hitcount:        172\n");
        assert_eq!(by_pid.values().sum::<u64>(), 172);
        assert!(counts("\nTotals:\n    Hits: 0\n").is_empty());
    }
}
