// SPDX-License-Identifier: GPL-2.0-only
//! The workloads of `bench quick` and how much each of them does in one run.

use crate::{results::PlannedWorkload, workload};

/// One of the agent's workloads, at the size that `bench quick` runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quick {
    pub name: &'static str,
    /// The agent's `--work`: enough that a few stray exits do not show, little enough for many
    /// runs.
    pub work: u64,
}

pub const QUICK: [Quick; 6] = [
    quick("idle", 2000),
    quick("cpu", 25),
    quick("pingpong", 1000),
    quick("barrier", 1000),
    quick("sleep", 1000),
    quick("block", 500),
];

const fn quick(name: &'static str, work: u64) -> Quick {
    Quick { name, work }
}

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
#[error("no workload '{0}'\nhint: the workloads are {names}", names = names())]
pub struct UnknownWorkload(pub String);

impl std::str::FromStr for Quick {
    type Err = UnknownWorkload;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        QUICK
            .into_iter()
            .find(|workload| workload.name == text)
            .ok_or_else(|| UnknownWorkload(text.to_string()))
    }
}

impl From<Quick> for PlannedWorkload {
    fn from(quick: Quick) -> PlannedWorkload {
        let known = workload::find(quick.name).expect("a test holds both tables together");
        PlannedWorkload {
            workload: quick.name.into(),
            work: quick.work,
            unit: known.unit.into(),
            program: None,
        }
    }
}

fn names() -> String {
    QUICK.map(|workload| workload.name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_others_are_named() {
        for quick in QUICK {
            assert_eq!(quick.name.parse(), Ok(quick));
        }
        let error = "sort".parse::<Quick>().unwrap_err().to_string();
        assert!(error.contains("'sort'") && error.contains("pingpong"), "{error}");
    }

    #[test]
    fn the_agent_knows_every_workload() {
        for quick in QUICK {
            assert_eq!(PlannedWorkload::from(quick).workload, quick.name);
        }
    }
}
