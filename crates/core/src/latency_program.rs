// SPDX-License-Identifier: GPL-2.0-only
//! The programs of rt-tests that measure from user space what osnoise and timerlat measure in the
//! kernel.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Debian's.
pub const PACKAGE: &str = "rt-tests";

/// A program of rt-tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum LatencyProgram {
    /// A thread on each CPU that waits for a timer, 1000 times a second.
    Cyclictest,
    /// A thread on each CPU that reads the clock in a loop.
    ///
    /// It needs a kernel with CONFIG_NUMA.
    Oslat,
}

/// Where it leaves its numbers.
const FILE: &str = "/tmp/paratick-latency.json";

/// What all threads of a run came to, in us.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// The mean of the threads' means.
    pub mean_us: f64,
    pub longest_us: f64,
}

#[derive(Deserialize)]
struct Report {
    thread: BTreeMap<String, Thread>,
}

#[derive(Deserialize)]
struct Thread {
    avg: f64,
    max: f64,
}

impl LatencyProgram {
    /// For `sh -c`: measures on `cpus` CPUs, listed in `list`, for so many seconds, and prints what
    /// [`LatencyProgram::read`] reads.
    pub fn command(self, cpus: u32, list: &str, seconds: u64) -> String {
        let run = match self {
            LatencyProgram::Cyclictest => {
                format!(
                    "cyclictest --quiet --mlockall --nsecs --priority=95 --interval=1000 \
                         --distance=0 --threads={cpus} --affinity={list} --duration={seconds}"
                )
            }
            LatencyProgram::Oslat => {
                format!("oslat --quiet --cpu-list={list} --duration={seconds}")
            }
        };
        format!("{run} --json={FILE} 1>&2 && cat {FILE}")
    }

    /// Of what the command prints; None: it is something else.
    pub fn read(self, json: &str) -> Option<Latency> {
        let threads = serde_json::from_str::<Report>(json).ok()?.thread;
        let unit = match self {
            LatencyProgram::Cyclictest => 1e-3,
            LatencyProgram::Oslat => 1.0,
        };
        let sum: f64 = threads.values().map(|thread| thread.avg).sum();
        let longest = threads.values().map(|thread| thread.max).reduce(f64::max)?;
        Some(Latency { mean_us: unit * sum / threads.len() as f64, longest_us: unit * longest })
    }

    /// The names of a sample's metrics.
    pub fn mean_metric(self) -> String {
        format!("{self}_mean_us")
    }

    pub fn longest_metric(self) -> String {
        format!("{self}_longest_us")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_count_and_a_run_without_any_is_none() {
        let threads = r#"{"thread": {"0": {"avg": 9000.0, "max": 18000, "cpu": 1},
            "1": {"avg": 11000.0, "max": 40000, "cpu": 2}}}"#;
        let read = LatencyProgram::Cyclictest.read(threads);
        assert_eq!(read, Some(Latency { mean_us: 10.0, longest_us: 40.0 }));
        let read = LatencyProgram::Oslat.read(threads).unwrap();
        assert_eq!(read.longest_us, 40_000.0);
        for wrong in [r#"{"thread": {}}"#, "Min: 7 Max: 18", ""] {
            assert_eq!(LatencyProgram::Cyclictest.read(wrong), None, "{wrong}");
        }
    }
}
