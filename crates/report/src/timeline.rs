// SPDX-License-Identifier: GPL-2.0-only
//! `paratick-timeline/1`: the exits and entries of one idle cycle, in every mode.

use paratick_core::{cause::Cause, mode::Mode, results::Environment};
use serde::Deserialize;

pub const SCHEMA: &str = "paratick-timeline/1";

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Timeline {
    #[serde(default)]
    pub environment: Environment,
    pub workload: String,
    pub lines: Vec<Line>,
}

/// One idle cycle of one vCPU.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Line {
    pub mode: Mode,
    pub vcpu: u32,
    pub events: Vec<Event>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Event {
    /// From the cycle's start.
    pub t_ns: u64,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum What {
    Exit {
        reason: String,
        cause: Cause,
        #[serde(default)]
        msr: Option<String>,
    },
    Entry,
    /// About a virtual tick.
    Tick {
        what: String,
    },
    /// What the vCPU slept for has come.
    Wake,
    /// Of a later version: not shown.
    #[serde(other)]
    Other,
}

/// Who has the vCPU's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Guest,
    Host,
    /// Nobody: the vCPU waits.
    Asleep,
}

impl Who {
    pub const ALL: [Who; 3] = [Who::Guest, Who::Host, Who::Asleep];

    pub fn name(self) -> &'static str {
        match self {
            Who::Guest => "guest",
            Who::Host => "host",
            Who::Asleep => "asleep",
        }
    }
}

/// A stretch of the line in which one of them has the processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    pub who: Who,
    pub from_ns: u64,
    pub to_ns: u64,
}

impl Line {
    /// Events in the order of time; those of one moment stay as they were written.
    pub fn ordered(&self) -> Vec<&Event> {
        let mut events: Vec<_> = self.events.iter().collect();
        events.sort_by_key(|event| event.t_ns);
        events
    }

    pub fn end_ns(&self) -> u64 {
        self.events
            .iter()
            .map(|event| event.t_ns)
            .max()
            .unwrap_or(0)
    }

    pub fn exits(&self) -> usize {
        let exit = |event: &&Event| matches!(event.what, What::Exit { .. });
        self.events.iter().filter(exit).count()
    }

    /// The line without gaps.  Before its first exit or entry the vCPU is where that leaves it from.
    pub fn phases(&self) -> Vec<Phase> {
        let events = self.ordered();
        let mut who = match events.iter().find_map(|event| crossing(&event.what)) {
            Some(Who::Guest) => Who::Host,
            _ => Who::Guest,
        };
        let mut from_ns = 0;
        let mut phases = Vec::new();
        for event in events {
            let next = match (&event.what, who) {
                (What::Wake, Who::Asleep) => Who::Host,
                (what, _) => crossing(what).unwrap_or(who),
            };
            if next == who {
                continue;
            }
            let to_ns = event.t_ns;
            if to_ns > from_ns {
                phases.push(Phase {
                    who,
                    from_ns,
                    to_ns,
                });
            }
            (who, from_ns) = (next, to_ns);
        }
        let to_ns = self.end_ns();
        if to_ns > from_ns {
            phases.push(Phase {
                who,
                from_ns,
                to_ns,
            });
        }
        phases
    }

    /// Nanoseconds that each has the processor.
    pub fn time_of(&self, who: Who) -> u64 {
        let phases = self.phases();
        let own = phases.iter().filter(|phase| phase.who == who);
        own.map(|phase| phase.to_ns - phase.from_ns).sum()
    }
}

/// Who has the processor after an exit or an entry.
fn crossing(what: &What) -> Option<Who> {
    match what {
        What::Exit { cause, .. } if *cause == Cause::Halt => Some(Who::Asleep),
        What::Exit { .. } => Some(Who::Host),
        What::Entry => Some(Who::Guest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(events: &str) -> Line {
        let text = format!(r#"{{"mode": "tickless", "vcpu": 0, "events": [{events}]}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn after_a_halt_the_vcpu_sleeps_until_it_wakes() {
        let line = line(
            r#"{"t_ns": 10, "kind": "exit", "reason": "msr_write", "cause": "arm", "msr": "TSC_DEADLINE"},
               {"t_ns": 30, "kind": "entry"},
               {"t_ns": 50, "kind": "exit", "reason": "hlt", "cause": "halt"},
               {"t_ns": 90, "kind": "wake"},
               {"t_ns": 95, "kind": "entry"},
               {"t_ns": 100, "kind": "tick", "what": "delivered"}"#,
        );
        let seen: Vec<_> = line
            .phases()
            .iter()
            .map(|phase| (phase.who.name(), phase.from_ns, phase.to_ns))
            .collect();
        let expected = [
            ("guest", 0, 10),
            ("host", 10, 30),
            ("guest", 30, 50),
            ("asleep", 50, 90),
            ("host", 90, 95),
            ("guest", 95, 100),
        ];
        assert_eq!(seen, expected);
        assert_eq!((line.exits(), line.time_of(Who::Guest)), (2, 35));
    }

    #[test]
    fn a_line_that_begins_with_an_entry_begins_in_the_host() {
        let line = line(
            r#"{"t_ns": 5, "kind": "entry"}, {"t_ns": 9, "kind": "exit", "reason": "hlt", "cause": "halt"}"#,
        );
        assert_eq!(line.phases()[0].who, Who::Host);
        assert_eq!(line.phases().len(), 2);
    }
}
