// SPDX-License-Identifier: GPL-2.0-only
//! Who has the vCPU's processor when, by the events of an idle cycle.

use paratick_core::{
    cycle::{IdleCycle, What},
    results::Results,
    subject::Subject,
};

#[derive(Clone, Debug)]
pub struct Line {
    pub subject: Subject,
    pub cycle: IdleCycle,
}

/// All that a results file has.
pub fn lines(results: &Results) -> Vec<Line> {
    let line = |(cell, cycle): (&paratick_core::results::Cell, &IdleCycle)| Line {
        subject: cell.subject,
        cycle: cycle.clone(),
    };
    results.cycles().map(line).collect()
}

/// Who has the vCPU's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Guest,
    Host,
    /// Not this vCPU: it waits.
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

/// The line without gaps.  Before the first exit the guest runs.
pub fn phases(line: &Line) -> Vec<Phase> {
    let events = &line.cycle.chosen.events;
    let tells_sleep = events.iter().any(|event| event.what == What::Sleep);
    let (mut who, mut from_ns) = (Who::Guest, 0);
    let mut phases = Vec::new();
    for event in events {
        let next = match (&event.what, who) {
            // Without a word about the thread's sleep, it begins with the halt.
            (what, _) if what.is_halt() && !tells_sleep => Who::Asleep,
            (What::Exit { .. }, _) => Who::Host,
            (What::Sleep, _) => Who::Asleep,
            (What::Wake { .. }, Who::Asleep) => Who::Host,
            (What::Entry, _) => Who::Guest,
            _ => who,
        };
        if next != who {
            push(&mut phases, who, from_ns, event.t_ns);
            (who, from_ns) = (next, event.t_ns);
        }
    }
    push(&mut phases, who, from_ns, line.cycle.chosen.length_ns());
    phases
}

fn push(phases: &mut Vec<Phase>, who: Who, from_ns: u64, to_ns: u64) {
    if to_ns > from_ns {
        phases.push(Phase { who, from_ns, to_ns });
    }
}

/// Nanoseconds that each has the processor.
pub fn time_of(line: &Line, who: Who) -> u64 {
    let phases = phases(line);
    let own = phases.iter().filter(|phase| phase.who == who);
    own.map(|phase| phase.to_ns - phase.from_ns).sum()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A line of these events, as JSON.
    pub fn line(events: &str) -> Line {
        let text = format!(
            r#"{{"vcpu": 0, "cycles": 1, "alike": 1, "exits_by_cause": {{}},
                "exits_per_cycle":
                    {{"median": 1, "low": 1, "high": 1, "samples": 1, "method": "range"}},
                "traced_ns": 0, "untraced_ns": 0, "events": [{events}]}}"#
        );
        let subject = "tickless".parse().unwrap();
        Line { subject, cycle: serde_json::from_str(&text).unwrap() }
    }

    fn seen(line: &Line) -> Vec<(&'static str, u64, u64)> {
        let phases = phases(line).into_iter();
        phases.map(|phase| (phase.who.name(), phase.from_ns, phase.to_ns)).collect()
    }

    const HALT: &str = r#"{"t_ns": 0, "kind": "exit", "reason": "hlt", "cause": "halt"}"#;
    const REST: &str = r#"{"t_ns": 90, "kind": "wake", "by": "ipi"},
        {"t_ns": 95, "kind": "entry"},
        {"t_ns": 100, "kind": "tick", "what": "delivered"},
        {"t_ns": 110, "kind": "exit", "reason": "msr_write", "cause": "arm", "msr": "TSC_DEADLINE"},
        {"t_ns": 130, "kind": "entry"}, {"t_ns": 150, "kind": "end"}"#;

    #[test]
    fn a_cycle_is_told_without_gaps() {
        let line = line(&format!(r#"{HALT}, {{"t_ns": 20, "kind": "sleep"}}, {REST}"#));
        let expected = [
            ("host", 0, 20),
            ("asleep", 20, 90),
            ("host", 90, 95),
            ("guest", 95, 110),
            ("host", 110, 130),
            ("guest", 130, 150),
        ];
        assert_eq!(seen(&line), expected);
        assert_eq!(time_of(&line, Who::Guest), 35);
    }

    #[test]
    fn without_a_word_of_sleep_it_begins_with_the_halt() {
        let line = line(&format!("{HALT}, {REST}"));
        assert_eq!(seen(&line)[0], ("asleep", 0, 90));
    }
}
