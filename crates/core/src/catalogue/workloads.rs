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

/// The agent's workload behind a name in results: the paper's W1 to W4 are two of ours, in one or
/// in several guests.
pub fn agents_name(workload: &str) -> &str {
    match workload {
        "W1" | "W2" => "idle",
        "W3" | "W4" => "sync",
        own => own,
    }
}

/// A workload that the bench does not have.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("no workload '{0}'\nhint: the workloads are {names}",
    names = QUICK.map(|(name, _)| name).join(", "))]
pub struct UnknownWorkload(pub String);

/// One of [`QUICK`].
pub fn quick(name: &str) -> Result<PlannedWorkload, UnknownWorkload> {
    find(&QUICK, name).ok_or_else(|| UnknownWorkload(name.to_string()))
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
        for (name, work) in QUICK {
            let planned = quick(name).unwrap();
            assert_eq!((planned.workload.as_str(), planned.work), (name, work));
        }
        let error = quick("sort").unwrap_err().to_string();
        assert!(error.contains("'sort'") && error.contains("pingpong"), "{error}");
    }
}
