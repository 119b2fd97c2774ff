// SPDX-License-Identifier: GPL-2.0-only
//! What went wrong, as values; the words are here and nowhere else.

use crate::subject::Subject;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One guest (or one group of guests side by side) of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Boot {
    /// In which round, from 1.
    pub round: u32,
    /// Of which subject.
    pub subject: Subject,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Problem {
    /// Which guest; `null`: the bench as a whole.
    pub boot: Option<Boot>,
    /// What went wrong with it.
    pub fault: Fault,
}

/// What can go wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Fault {
    /// It, or its host, is of no use: no run counts.
    Guest {
        /// The reason.
        why: String,
    },
    /// One workload failed, the guest went on.
    Workload {
        /// Which one.
        workload: String,
        /// What it was doing.
        doing: Doing,
        /// The reason.
        why: String,
    },
    /// The last guests failed, so others were not tried.
    GivenUp,
    /// Two counts of the same thing.
    CountsDiffer {
        /// The host's kernel's.
        exits: u64,
        /// The emulator's.
        world_switches: u64,
    },
    /// Noise does not add up.
    Unbalanced {
        /// Which parts, with the numbers.
        what: String,
    },
    /// As an older program wrote it.
    Said {
        /// Its words.
        text: String,
    },
}

/// What a workload was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// Making its input.
    Preparing,
    /// The run of this number.
    Running(u32),
    /// The run that counts idle entries.
    CountingIdleEntries,
    /// The run that records halts.
    RecordingHalts,
    /// The run that records wake-ups.
    RecordingWakeups,
    /// The run on the host.
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
