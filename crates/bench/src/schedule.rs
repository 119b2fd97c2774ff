// SPDX-License-Identifier: GPL-2.0-only
//! The order of things: rounds, modes rotated within them, several hosts side by side, more rounds
//! while intervals are too wide, and what happens when a guest fails.

use anyhow::Result;
use paratick_core::{
    event::{Event, Events, Step, Warning},
    halts::RunHalts,
    idle::IdleEntries,
    mode::TickMode,
    results::{Boot, Fault, Plan, PlannedWorkload, Problem, Results, Sample},
};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// After so many guests in a row that failed, the rest would fail too.
const GIVE_UP_AFTER: u32 = 3;

/// Whether idle entries are counted in its guest: in one whose kernel would stop its tick at each
/// of them, if it could.
pub fn counts_idle_entries(boot: Boot, plan: &Plan) -> bool {
    let mode = boot.subject.mode;
    let first = plan.subjects.iter().find(|subject| subject.mode == mode);
    let stops = mode.tick == TickMode::TicklessStop && !mode.polls();
    plan.idle_entries && stops && boot.round == 1 && first == Some(&boot.subject)
}

/// Whether halts are recorded in its guest: in the first of every subject.
pub fn records_halts(boot: Boot, plan: &Plan) -> bool {
    plan.halts && boot.round == 1
}

/// Whether its workloads run on the host itself afterwards: once for each setting of the host.
pub fn runs_natively(boot: Boot, plan: &Plan) -> bool {
    let mut subjects = plan.subjects.iter();
    let first = subjects.find(|subject| subject.host == boot.subject.host);
    records_halts(boot, plan) && plan.guests == 1 && first == Some(&boot.subject)
}

/// How many runs its guest makes; a boot counts as one.
fn runs(boot: Boot, plan: &Plan) -> u64 {
    let again =
        [counts_idle_entries(boot, plan), records_halts(boot, plan), runs_natively(boot, plan)];
    let again = again
        .into_iter()
        .chain([plan.records_wakeups, plan.records_lateness])
        .filter(|again| *again)
        .count();
    per_guest(plan) + (again * plan.workloads.len()) as u64
}

#[derive(Debug, Default)]
pub struct Measured {
    pub samples: Vec<(PlannedWorkload, Sample)>,
    /// By workload, where they were counted.
    pub idle_entries: Vec<(String, IdleEntries)>,
    /// By workload, where they were recorded.
    pub halts: Vec<(String, RunHalts)>,
    /// How long a run took on the host itself, in ns, by workload.
    pub native: Vec<(String, u64)>,
    /// As it was started.
    pub command_line: Vec<String>,
    /// As `uname -r` says in it.
    pub kernel: String,
    pub problems: Vec<Fault>,
}

/// Where guests are measured, one after the other.
pub trait Worker: Send {
    /// Boots a guest, runs every workload in it as often as the plan says, and ends it.  `ran` is
    /// called after every run.
    fn measure(&mut self, boot: Boot, ran: &mut dyn FnMut()) -> Result<Measured>;

    /// No more turns come: an emulated host that waits takes as much of the machine as one that
    /// works.
    fn end(&mut self);
}

pub fn order(plan: &Plan) -> impl Iterator<Item = Boot> + '_ {
    (1..=plan.rounds).flat_map(move |round| round_of(plan, round))
}

fn round_of(plan: &Plan, round: u32) -> impl Iterator<Item = Boot> {
    let mut subjects = plan.subjects.clone();
    // Rotated, so that none is always the first or always after the same one's warmth.
    let first = (round as usize - 1) % subjects.len().max(1);
    subjects.rotate_left(first);
    subjects.into_iter().map(move |subject| Boot { round, subject })
}

/// Measures every guest that is still missing, one on each worker at a time; `keep` is called after
/// each with the results so far.
pub fn measure(
    results: &mut Results,
    workers: &mut [&mut dyn Worker],
    keep: &mut dyn FnMut(&Results) -> Result<()>,
    events: Events,
) -> Result<()> {
    let missing: VecDeque<Boot> =
        order(&results.plan).filter(|boot| !results.has_guest(*boot)).collect();
    results.problems.retain(|problem| problem.fault != Fault::GivenUp);
    let clock = Clock::new(&results.plan, &missing);
    let mut schedule = Schedule { missing, failed: 0, clock, results, keep, events };
    let (tell, messages) = mpsc::channel();
    thread::scope(|scope| {
        let hands = workers.iter_mut().enumerate().map(|(worker, measurer)| {
            let (give, turns) = mpsc::channel();
            let tell = tell.clone();
            scope.spawn(move || serve(*measurer, worker, &turns, &tell));
            Some(give)
        });
        let mut hands: Vec<_> = hands.collect();
        schedule.hand_out(&mut hands, &messages)
    })?;
    schedule.results.summarize();
    (schedule.keep)(schedule.results)
}

enum Message {
    Ran,
    Done { worker: usize, boot: Boot, measured: Box<Result<Measured>> },
}

/// Measures one boot after the other on one worker, until no more come.
fn serve(
    measurer: &mut dyn Worker,
    worker: usize,
    turns: &mpsc::Receiver<Boot>,
    tell: &mpsc::Sender<Message>,
) {
    for boot in turns {
        // Nobody listens any more once the results cannot be written: then nothing is to be told.
        let measured = Box::new(measurer.measure(boot, &mut || drop(tell.send(Message::Ran))));
        let done = Message::Done { worker, boot, measured };
        if tell.send(done).is_err() {
            return;
        }
    }
    measurer.end();
}

struct Schedule<'a, 'e> {
    missing: VecDeque<Boot>,
    failed: u32,
    clock: Clock,
    results: &'a mut Results,
    keep: &'a mut dyn FnMut(&Results) -> Result<()>,
    events: Events<'e>,
}

impl Schedule<'_, '_> {
    fn hand_out(
        &mut self,
        hands: &mut [Option<mpsc::Sender<Boot>>],
        messages: &mpsc::Receiver<Message>,
    ) -> Result<()> {
        let mut free: Vec<usize> = (0..hands.len()).rev().collect();
        loop {
            while let Some(worker) = free.pop() {
                let Some((boot, hand)) = self.next().zip(hands[worker].as_ref()) else {
                    free.push(worker);
                    break;
                };
                self.begin(boot);
                hand.send(boot)?;
            }
            if self.is_last_round() {
                free.iter().for_each(|worker| hands[*worker] = None);
            }
            if free.len() < hands.len() {
                match messages.recv()? {
                    Message::Ran => self.clock.ran(self.events),
                    Message::Done { worker, boot, measured } => {
                        free.push(worker);
                        self.done(boot, *measured)?;
                    }
                }
            } else if !self.extend() {
                return Ok(());
            }
        }
    }

    /// None also where the rest would fail too.
    fn next(&mut self) -> Option<Boot> {
        if self.failed >= GIVE_UP_AFTER {
            return None;
        }
        self.missing.pop_front()
    }

    fn begin(&mut self, boot: Boot) {
        let rounds = self.results.plan.rounds;
        (self.events)(Step::Measuring { boot, rounds }.into());
        self.clock.show(self.events);
    }

    fn done(&mut self, boot: Boot, measured: Result<Measured>) -> Result<()> {
        match measured {
            Ok(measured) => {
                self.failed = 0;
                take(self.results, boot, measured, self.events);
            }
            Err(error) => {
                self.failed += 1;
                forget_problems(boot, self.results);
                let why = format!("{error:#}");
                tell(self.results, boot.problem(Fault::Guest { why }), self.events);
                if self.failed == GIVE_UP_AFTER {
                    let problem = Problem { boot: None, fault: Fault::GivenUp };
                    self.results.problems.push(problem);
                }
            }
        }
        self.clock.guest_done();
        self.results.summarize();
        (self.keep)(self.results)
    }

    fn is_last_round(&self) -> bool {
        let plan = &self.results.plan;
        self.missing.is_empty() && plan.rounds_at_most.is_none_or(|most| plan.rounds >= most)
    }

    /// Plans one more round, where intervals are too wide for the plan and it allows one.
    fn extend(&mut self) -> bool {
        if self.failed >= GIVE_UP_AFTER || !self.results.wants_another_round() {
            return false;
        }
        self.results.plan.rounds += 1;
        let plan = &self.results.plan;
        let round = plan.rounds;
        (self.events)(Step::AddingRound { round }.into());
        self.missing.extend(round_of(plan, plan.rounds));
        self.clock.more(plan, self.missing.len());
        true
    }
}

/// What earlier tries at it had to say no longer holds.
fn forget_problems(boot: Boot, results: &mut Results) {
    results.problems.retain(|problem| problem.boot != Some(boot));
}

fn tell(results: &mut Results, problem: Problem, events: Events) {
    events(Warning::Problem(&problem).into());
    results.problems.push(problem);
}

fn take(results: &mut Results, boot: Boot, measured: Measured, events: Events) {
    let environment = &mut results.environment;
    environment.kernel_version = measured.kernel;
    let lines = &mut environment.qemu_command_lines.guests;
    lines.entry(boot.subject.to_string()).or_insert(measured.command_line);
    forget_problems(boot, results);
    for fault in measured.problems {
        tell(results, boot.problem(fault), events);
    }
    // Only now: until there are others, an earlier try's samples are worth keeping.
    let samples = || measured.samples.iter();
    let again: BTreeSet<_> = samples().map(|(done, _)| done.workload.as_str()).collect();
    for workload in again {
        results.forget(workload, boot);
    }
    for (workload, sample) in measured.samples {
        for fault in &sample.problems {
            let doubtful = Warning::DoubtfulRun {
                boot,
                workload: &workload.workload,
                run: sample.repeat,
                fault,
            };
            events(doubtful.into());
        }
        results.add(&workload, boot.subject, sample);
    }
    for (workload, entries) in measured.idle_entries {
        results.set_idle_entries(&workload, boot.subject, entries);
    }
    for (workload, halts) in measured.halts {
        results.set_halts(&workload, boot.subject, halts);
    }
    for (workload, ns) in measured.native {
        results.set_native(&workload, boot.subject, ns);
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
    fn new(plan: &Plan, turns: &VecDeque<Boot>) -> Clock {
        Clock {
            per_guest: per_guest(plan),
            total: turns.iter().map(|boot| runs(*boot, plan)).sum(),
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

    /// Also after a guest that failed half-way; others may be half-way on other workers.
    fn guest_done(&mut self) {
        self.guests_done += 1;
        self.done = self.done.max(self.guests_done * self.per_guest);
    }

    fn show(&self, events: Events) {
        events(Event::Progress { done: self.done, total: Some(self.total), left: self.left() });
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
mod tests;
