// SPDX-License-Identifier: GPL-2.0-only
//! What went wrong, as values; the words are here and nowhere else.

use crate::subject::Subject;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One guest (or one group of guests side by side) of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    pub round: u32,
    pub subject: Subject,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// `null`: the bench as a whole.
    pub boot: Option<Boot>,
    pub fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Fault {
    /// The guest, or its host, is of no use: none of its runs count.
    Guest { why: String },
    /// One workload failed while the guest went on.
    Workload { workload: String, doing: Doing, why: String },
    /// The last guests all failed, so the rest were not tried.
    GivenUp,
    /// Two counts of the same thing.
    CountsDiffer { exits: u64, world_switches: u64 },
    /// Of a recording of noise: what does not add up.
    Unbalanced { what: String },
    /// As an older program wrote it.
    Said { text: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    Preparing,
    /// The run of this number.
    Running(u32),
    CountingIdleEntries,
    RecordingHalts,
    RecordingWakeups,
    RunningNatively,
}

impl Boot {
    pub fn problem(self, fault: Fault) -> Problem {
        Problem { boot: Some(self), fault }
    }
}

/// `round 1, tickless`.
impl fmt::Display for Boot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "round {}, {}", self.round, self.subject)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.boot {
            Some(boot) => write!(f, "{boot}: {}", self.fault),
            None => self.fault.fmt(f),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Guest { why } => f.write_str(why),
            Fault::Workload { workload, doing, why } => match doing {
                Doing::Preparing => write!(f, "preparing {workload}: {why}"),
                Doing::Running(run) => write!(f, "running {workload} (run {run}): {why}"),
                Doing::CountingIdleEntries => {
                    write!(f, "counting idle entries of {workload}: {why}")
                }
                Doing::RecordingHalts => write!(f, "recording halts of {workload}: {why}"),
                Doing::RecordingWakeups => {
                    write!(f, "recording what wakes {workload}: {why}")
                }
                Doing::RunningNatively => write!(f, "running {workload} on the host: {why}"),
            },
            Fault::GivenUp => f.write_str("given up: the last guests all failed"),
            Fault::CountsDiffer { exits, world_switches } => {
                write!(f, "{exits} exits, but the emulator counted {world_switches} world switches")
            }
            Fault::Unbalanced { what } => f.write_str(what),
            Fault::Said { text } => f.write_str(text),
        }
    }
}
