// SPDX-License-Identifier: GPL-2.0-only
//! The order of things: rounds, modes rotated within them, and what happens when a guest fails.

use crate::progress::{Event, Events};
use anyhow::Result;
use paratick_core::{
    mode::Mode,
    results::{Plan, PlannedWorkload, Results, Sample},
};
use std::time::{Duration, Instant};

/// After so many guests in a row that failed, the rest would fail too.
const GIVE_UP_AFTER: u32 = 3;

/// One guest to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub round: u32,
    pub mode: Mode,
}

/// What one guest gave.
#[derive(Debug, Default)]
pub struct Measured {
    pub samples: Vec<(PlannedWorkload, Sample)>,
    /// As it was started.
    pub command_line: Vec<String>,
    /// As `uname -r` says in it.
    pub kernel: String,
}

/// Where guests are measured.
pub trait Bed {
    /// Boots a guest, runs every workload in it as often as the plan says, and ends it.  `ran` is
    /// called after every run.
    fn measure(&mut self, turn: Turn, ran: &mut dyn FnMut()) -> Result<Measured>;
}

/// Every guest of the plan in its order.
pub fn order(plan: &Plan) -> impl Iterator<Item = Turn> + '_ {
    (1..=plan.rounds).flat_map(move |round| {
        let mut modes = plan.modes.clone();
        // Rotated, so that no mode is always the first or always after the same one's warmth.
        let first = (round as usize - 1) % modes.len().max(1);
        modes.rotate_left(first);
        modes.into_iter().map(move |mode| Turn { round, mode })
    })
}

/// Measures every guest that is still missing; `keep` is called after each with the results so far.
pub fn drive(
    results: &mut Results,
    bed: &mut dyn Bed,
    keep: &mut dyn FnMut(&Results) -> Result<()>,
    events: Events,
) -> Result<()> {
    let plan = results.plan.clone();
    let missing: Vec<Turn> = order(&plan)
        .filter(|turn| !results.has_guest(turn.mode, turn.round))
        .collect();
    let mut clock = Clock::new(&plan, missing.len());
    let mut failed = 0;
    for turn in missing {
        events(Event::Step(format!(
            "round {} of {}: {}",
            turn.round, plan.rounds, turn.mode
        )));
        clock.show(events);
        results.forget_guest(turn.mode, turn.round);
        match bed.measure(turn, &mut || clock.ran(events)) {
            Ok(measured) => {
                failed = 0;
                take(results, turn, measured, events);
            }
            Err(error) => {
                failed += 1;
                let problem = format!("round {}, {}: {error:#}", turn.round, turn.mode);
                events(Event::Warning(problem.clone()));
                results.problems.push(problem);
            }
        }
        clock.guest_done();
        results.summarize();
        keep(results)?;
        if failed == GIVE_UP_AFTER {
            let what = format!("given up after {failed} guests in a row that failed");
            results.problems.push(what);
            return keep(results);
        }
    }
    results.summarize();
    keep(results)
}

fn take(results: &mut Results, turn: Turn, measured: Measured, events: Events) {
    let environment = &mut results.environment;
    environment.kernel_version = measured.kernel;
    let lines = &mut environment.qemu_command_lines.guests;
    lines.entry(turn.mode).or_insert(measured.command_line);
    for (workload, sample) in measured.samples {
        for problem in &sample.problems {
            events(Event::Warning(format!(
                "round {}, {}, {}, run {}: {problem}",
                turn.round, turn.mode, workload.workload, sample.repeat
            )));
        }
        results.add(&workload, turn.mode, sample);
    }
}

/// How far the bench is, in runs of a workload; a boot counts as one.
struct Clock {
    per_guest: u64,
    total: u64,
    done: u64,
    guests_done: u64,
    begun: Instant,
}

impl Clock {
    fn new(plan: &Plan, guests: usize) -> Clock {
        let per_guest = 1 + plan.workloads.len() as u64 * u64::from(plan.repeats);
        Clock {
            per_guest,
            total: per_guest * guests as u64,
            done: 0,
            guests_done: 0,
            begun: Instant::now(),
        }
    }

    fn ran(&mut self, events: Events) {
        self.done += 1;
        self.show(events);
    }

    /// Also after a guest that failed half-way.
    fn guest_done(&mut self) {
        self.guests_done += 1;
        self.done = self.guests_done * self.per_guest;
    }

    fn show(&self, events: Events) {
        events(Event::Progress {
            done: self.done,
            total: Some(self.total),
            left: self.left(),
        });
    }

    /// By what the guests so far took; before the first is through, nobody can tell.
    fn left(&self) -> Option<Duration> {
        let per_run = self.begun.elapsed().as_secs_f64() / self.done as f64;
        let left = self.total.saturating_sub(self.done) as f64 * per_run;
        (self.guests_done > 0).then(|| Duration::from_secs_f64(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paratick_core::results::{Environment, SCHEMA};

    /// A bed in which nothing runs: it notes its turns and fails where it is told to.
    #[derive(Default)]
    struct Rehearsal {
        turns: Vec<Turn>,
        fail: Vec<usize>,
        plan: Option<Plan>,
    }

    impl Bed for Rehearsal {
        fn measure(&mut self, turn: Turn, ran: &mut dyn FnMut()) -> Result<Measured> {
            self.turns.push(turn);
            if self.fail.contains(&self.turns.len()) {
                anyhow::bail!("a soft lockup");
            }
            let plan = self.plan.as_ref().unwrap();
            let mut measured = Measured::default();
            for workload in &plan.workloads {
                for repeat in 1..=plan.repeats {
                    let sample = Sample {
                        round: turn.round,
                        repeat,
                        ..Sample::default()
                    };
                    measured.samples.push((workload.clone(), sample));
                    ran();
                }
            }
            Ok(measured)
        }
    }

    fn results(rounds: u32) -> Results {
        let workload = |name: &str| PlannedWorkload {
            workload: name.into(),
            work: 10,
            unit: "things".into(),
            program: None,
        };
        Results {
            schema: SCHEMA.into(),
            tool_version: String::new(),
            bench: "quick".into(),
            started: String::new(),
            plan: Plan {
                vcpus: 2,
                guests: 1,
                modes: ["periodic", "tickless", "paratick"]
                    .map(|mode| mode.parse().unwrap())
                    .to_vec(),
                workloads: vec![workload("cpu"), workload("idle")],
                rounds,
                repeats: 2,
                rounds_at_most: None,
                precision: None,
            },
            environment: Environment::default(),
            cells: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn rehearse(results: &mut Results, fail: Vec<usize>) -> (Vec<Turn>, usize, Vec<Event>) {
        let mut bed = Rehearsal {
            plan: Some(results.plan.clone()),
            fail,
            ..Rehearsal::default()
        };
        let (mut kept, mut events) = (0, Vec::new());
        let mut keep = |_: &Results| {
            kept += 1;
            Ok(())
        };
        drive(results, &mut bed, &mut keep, &mut |event| {
            events.push(event)
        })
        .unwrap();
        (bed.turns, kept, events)
    }

    #[test]
    fn modes_are_interleaved_and_begin_elsewhere_in_every_round() {
        let names: Vec<String> = order(&results(3).plan)
            .map(|turn| format!("{} {}", turn.round, turn.mode))
            .collect();
        assert_eq!(
            names,
            [
                "1 periodic",
                "1 tickless",
                "1 paratick",
                "2 tickless",
                "2 paratick",
                "2 periodic",
                "3 paratick",
                "3 periodic",
                "3 tickless",
            ]
        );
    }

    #[test]
    fn every_guest_is_measured_once_and_kept_at_once() {
        let mut results = results(2);
        let (turns, kept, _) = rehearse(&mut results, vec![]);
        assert_eq!((turns.len(), kept), (6, 7));
        assert!(results.is_complete());
        assert_eq!(results.cells.len(), 6);
    }

    #[test]
    fn only_what_is_missing_is_measured_again() {
        let mut results = results(2);
        rehearse(&mut results, vec![]);
        let paratick = results.plan.modes[2];
        let cell = results
            .cells
            .iter_mut()
            .find(|cell| cell.mode == paratick)
            .unwrap();
        cell.samples.pop();
        let (turns, ..) = rehearse(&mut results, vec![]);
        assert_eq!(
            turns,
            [Turn {
                round: 2,
                mode: paratick
            }]
        );
        assert!(results.cells.iter().all(|cell| cell.samples.len() == 4));
    }

    #[test]
    fn a_guest_that_fails_is_told_and_the_others_go_on() {
        let mut results = results(2);
        let (turns, ..) = rehearse(&mut results, vec![2]);
        assert_eq!(turns.len(), 6);
        assert_eq!(results.problems, ["round 1, tickless: a soft lockup"]);
        assert!(!results.is_complete());
    }

    #[test]
    fn three_failures_in_a_row_end_it() {
        let mut results = results(4);
        let (turns, ..) = rehearse(&mut results, vec![2, 3, 4]);
        assert_eq!(turns.len(), 4);
        assert_eq!(results.problems.len(), 4);
    }

    #[test]
    fn time_left_is_told_once_a_guest_is_through() {
        let (.., events) = rehearse(&mut results(1), vec![]);
        let known: Vec<bool> = events
            .iter()
            .filter_map(|event| match event {
                Event::Progress { left, .. } => Some(left.is_some()),
                _ => None,
            })
            .collect();
        assert!(!known[0] && known[known.len() - 1]);
    }
}
