// SPDX-License-Identifier: GPL-2.0-only
//! The order of things: rounds, modes rotated within them, several hosts side by side, more rounds
//! while intervals are too wide, and what happens when a guest fails.

use crate::progress::{Event, Events};
use anyhow::Result;
use paratick_core::{
    mode::Mode,
    results::{Plan, PlannedWorkload, Results, Sample},
};
use std::{
    collections::VecDeque,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// After so many guests in a row that failed, the rest would fail too.
const GIVE_UP_AFTER: u32 = 3;

/// One guest (or one group of guests side by side) to be measured.
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
    /// Workloads that failed while the guest went on.
    pub problems: Vec<String>,
}

/// Where guests are measured, one after the other.
pub trait Bed: Send {
    /// Boots a guest, runs every workload in it as often as the plan says, and ends it.  `ran` is
    /// called after every run.
    fn measure(&mut self, turn: Turn, ran: &mut dyn FnMut()) -> Result<Measured>;
}

/// Every guest of the plan in its order.
pub fn order(plan: &Plan) -> impl Iterator<Item = Turn> + '_ {
    (1..=plan.rounds).flat_map(move |round| round_of(plan, round))
}

fn round_of(plan: &Plan, round: u32) -> impl Iterator<Item = Turn> {
    let mut modes = plan.modes.clone();
    // Rotated, so that no mode is always the first or always after the same one's warmth.
    let first = (round as usize - 1) % modes.len().max(1);
    modes.rotate_left(first);
    modes.into_iter().map(move |mode| Turn { round, mode })
}

/// Measures every guest that is still missing, one on each bed at a time; `keep` is called after
/// each with the results so far.
pub fn drive(
    results: &mut Results,
    beds: &mut [&mut dyn Bed],
    keep: &mut dyn FnMut(&Results) -> Result<()>,
    events: Events,
) -> Result<()> {
    let missing: VecDeque<Turn> = order(&results.plan)
        .filter(|turn| !results.has_guest(turn.mode, turn.round))
        .collect();
    let clock = Clock::new(&results.plan, missing.len());
    let mut drive = Drive {
        missing,
        failed: 0,
        clock,
        results,
        keep,
        events,
    };
    let (tell, news) = mpsc::channel();
    thread::scope(|scope| {
        let hands = beds.iter_mut().enumerate().map(|(bed, measurer)| {
            let (give, turns) = mpsc::channel();
            let tell = tell.clone();
            scope.spawn(move || serve(*measurer, bed, &turns, &tell));
            give
        });
        let hands: Vec<_> = hands.collect();
        drive.hand_out(&hands, &news)
    })?;
    drive.results.summarize();
    (drive.keep)(drive.results)
}

/// What a bed has to say.
enum News {
    Ran,
    Done {
        bed: usize,
        turn: Turn,
        measured: Result<Measured>,
    },
}

/// Measures one turn after the other on one bed, until no more come.
fn serve(
    measurer: &mut dyn Bed,
    bed: usize,
    turns: &mpsc::Receiver<Turn>,
    tell: &mpsc::Sender<News>,
) {
    for turn in turns {
        // Nobody listens any more once the results cannot be written: then nothing is to be told.
        let measured = measurer.measure(turn, &mut || drop(tell.send(News::Ran)));
        let done = News::Done {
            bed,
            turn,
            measured,
        };
        if tell.send(done).is_err() {
            return;
        }
    }
}

struct Drive<'a, 'e> {
    missing: VecDeque<Turn>,
    /// Guests in a row that failed.
    failed: u32,
    clock: Clock,
    results: &'a mut Results,
    keep: &'a mut dyn FnMut(&Results) -> Result<()>,
    events: Events<'e>,
}

impl Drive<'_, '_> {
    fn hand_out(
        &mut self,
        hands: &[mpsc::Sender<Turn>],
        news: &mpsc::Receiver<News>,
    ) -> Result<()> {
        let mut free: Vec<usize> = (0..hands.len()).rev().collect();
        loop {
            while let Some(bed) = free.pop() {
                let Some(turn) = self.next() else {
                    free.push(bed);
                    break;
                };
                self.begin(turn);
                hands[bed].send(turn)?;
            }
            if free.len() < hands.len() {
                match news.recv()? {
                    News::Ran => self.clock.ran(self.events),
                    News::Done {
                        bed,
                        turn,
                        measured,
                    } => {
                        free.push(bed);
                        self.done(turn, measured)?;
                    }
                }
            } else if !self.extend() {
                return Ok(());
            }
        }
    }

    /// None also where the rest would fail too.
    fn next(&mut self) -> Option<Turn> {
        if self.failed >= GIVE_UP_AFTER {
            return None;
        }
        self.missing.pop_front()
    }

    fn begin(&mut self, turn: Turn) {
        let rounds = self.results.plan.rounds;
        let what = format!("round {} of {rounds}: {}", turn.round, turn.mode);
        (self.events)(Event::Step(what));
        self.clock.show(self.events);
        self.results.forget_guest(turn.mode, turn.round);
    }

    fn done(&mut self, turn: Turn, measured: Result<Measured>) -> Result<()> {
        match measured {
            Ok(measured) => {
                self.failed = 0;
                take(self.results, turn, measured, self.events);
            }
            Err(error) => {
                self.failed += 1;
                let problem = format!("round {}, {}: {error:#}", turn.round, turn.mode);
                (self.events)(Event::Warning(problem.clone()));
                self.results.problems.push(problem);
                if self.failed == GIVE_UP_AFTER {
                    let what =
                        format!("given up after {} guests in a row that failed", self.failed);
                    self.results.problems.push(what);
                }
            }
        }
        self.clock.guest_done();
        self.results.summarize();
        (self.keep)(self.results)
    }

    /// Plans one more round, where intervals are too wide for the plan and it allows one.
    fn extend(&mut self) -> bool {
        if self.failed >= GIVE_UP_AFTER || !self.results.wants_another_round() {
            return false;
        }
        self.results.plan.rounds += 1;
        let plan = &self.results.plan;
        let what = format!("intervals are still too wide: round {}", plan.rounds);
        (self.events)(Event::Step(what));
        self.missing.extend(round_of(plan, plan.rounds));
        self.clock.more(plan, self.missing.len());
        true
    }
}

fn take(results: &mut Results, turn: Turn, measured: Measured, events: Events) {
    let environment = &mut results.environment;
    environment.kernel_version = measured.kernel;
    let lines = &mut environment.qemu_command_lines.guests;
    lines.entry(turn.mode).or_insert(measured.command_line);
    for problem in measured.problems {
        let problem = format!("round {}, {}: {problem}", turn.round, turn.mode);
        events(Event::Warning(problem.clone()));
        results.problems.push(problem);
    }
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
        let per_guest = per_guest(plan);
        Clock {
            per_guest,
            total: per_guest * guests as u64,
            done: 0,
            guests_done: 0,
            begun: Instant::now(),
        }
    }

    fn more(&mut self, plan: &Plan, guests: usize) {
        self.total += per_guest(plan) * guests as u64;
    }

    fn ran(&mut self, events: Events) {
        self.done += 1;
        self.show(events);
    }

    /// Also after a guest that failed half-way; others may be half-way on other beds.
    fn guest_done(&mut self) {
        self.guests_done += 1;
        self.done = self.done.max(self.guests_done * self.per_guest);
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

fn per_guest(plan: &Plan) -> u64 {
    1 + plan.workloads.len() as u64 * u64::from(plan.repeats)
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
        drive(results, &mut [&mut bed], &mut keep, &mut |event| {
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
    fn two_beds_share_the_guests_between_them() {
        let mut results = results(2);
        let bed = || Rehearsal {
            plan: Some(results.plan.clone()),
            ..Rehearsal::default()
        };
        let (mut one, mut other) = (bed(), bed());
        drive(
            &mut results,
            &mut [&mut one, &mut other],
            &mut |_| Ok(()),
            &mut |_| (),
        )
        .unwrap();
        assert!(results.is_complete());
        assert_eq!(one.turns.len() + other.turns.len(), 6);
        assert!(one.turns.iter().all(|turn| !other.turns.contains(turn)));
    }

    #[test]
    fn results_that_cannot_be_kept_end_it() {
        let mut results = results(2);
        let mut bed = Rehearsal {
            plan: Some(results.plan.clone()),
            ..Rehearsal::default()
        };
        let mut keep = |_: &Results| anyhow::bail!("no space");
        let ended = drive(&mut results, &mut [&mut bed], &mut keep, &mut |_| ());
        assert_eq!(ended.unwrap_err().to_string(), "no space");
        assert_eq!(bed.turns.len(), 1);
    }

    #[test]
    fn rounds_are_added_while_intervals_are_too_wide_up_to_the_cap() {
        let mut results = results(2);
        results.plan.rounds_at_most = Some(4);
        results.plan.precision = Some(0.01);
        // Samples without numbers can never be narrow enough.
        let (turns, ..) = rehearse(&mut results, vec![]);
        assert_eq!((turns.len(), results.plan.rounds), (12, 4));
        assert!(results.is_complete());
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
