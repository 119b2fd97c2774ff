// SPDX-License-Identifier: GPL-2.0-only
//! The workloads of `bench quick` and how much each of them does in one run.

use crate::{results::PlannedWorkload, workload};

/// The agent's workloads with their `--work`: enough that a few stray exits do not show, little
/// enough for many runs.
pub const QUICK: [(&str, u64); 6] = [
    ("idle", 2000),
    ("cpu", 25),
    ("pingpong", 1000),
    ("barrier", 1000),
    ("sleep", 1000),
    ("block", 500),
];

/// Those of `bench polling`: the same, and one whose halts are mostly longer than the limits.  An
/// idle guest comes last: a host that was just booted has work of its own for a while.
pub const POLLING: [(&str, u64); 7] =
    [QUICK[1], QUICK[2], QUICK[3], QUICK[4], ("exponential", 1000), QUICK[5], QUICK[0]];

/// The agent's workload behind a name in results: the paper's W1 to W4 are two of ours, in one or
/// in several guests.
pub fn agents_name(workload: &str) -> &str {
    match workload {
        "W1" | "W2" => "idle",
        "W3" | "W4" => "sync",
        own => own,
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("no workload '{name}'\nhint: the workloads are {known}")]
pub struct UnknownWorkload {
    name: String,
    known: String,
}

pub fn quick(name: &str) -> Result<PlannedWorkload, UnknownWorkload> {
    one_of(&QUICK, name)
}

pub fn polling(name: &str) -> Result<PlannedWorkload, UnknownWorkload> {
    one_of(&POLLING, name)
}

fn one_of(table: &[(&str, u64)], name: &str) -> Result<PlannedWorkload, UnknownWorkload> {
    find(table, name).ok_or_else(|| UnknownWorkload {
        name: name.to_string(),
        known: table.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", "),
    })
}

/// One of the agent's that a table has, with the work that it says.
pub fn find(table: &[(&str, u64)], name: &str) -> Option<PlannedWorkload> {
    let (name, work) = table.iter().find(|(known, _)| *known == name)?;
    Some(PlannedWorkload::of(workload::find(name)?, *work))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_knows_every_workload_and_others_are_named() {
        for (name, work) in POLLING {
            let planned = polling(name).unwrap();
            assert_eq!((planned.workload.as_str(), planned.work), (name, work));
        }
        assert!(QUICK.iter().all(|(name, _)| quick(name) == polling(name)));
        let error = quick("sort").unwrap_err().to_string();
        assert!(error.contains("'sort'") && error.contains("pingpong"), "{error}");
    }
}
