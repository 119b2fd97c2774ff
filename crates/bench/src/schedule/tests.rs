// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use paratick_core::mode::Mode;

/// A worker in which nothing runs: it notes its turns and fails where it is told to.
#[derive(Default)]
struct Rehearsal {
    turns: Vec<Boot>,
    fail: Vec<usize>,
    plan: Option<Plan>,
    ended: u32,
}

impl Worker for Rehearsal {
    fn measure(&mut self, turn: Boot, ran: &mut dyn FnMut()) -> Result<Measured> {
        self.turns.push(turn);
        if self.fail.contains(&self.turns.len()) {
            anyhow::bail!("a soft lockup");
        }
        let plan = self.plan.as_ref().unwrap();
        let mut measured = Measured::default();
        for workload in &plan.workloads {
            for repeat in 1..=plan.repeats {
                let sample = Sample { round: turn.round, repeat, ..Sample::default() };
                measured.samples.push((workload.clone(), sample));
                ran();
            }
        }
        Ok(measured)
    }

    fn end(&mut self) {
        self.ended += 1;
    }
}

fn results(rounds: u32) -> Results {
    let subjects: [Mode; 3] =
        ["periodic", "tickless", "paratick"].map(|mode| mode.parse().unwrap());
    let workloads = ["cpu", "idle"].map(|name| PlannedWorkload::new(name, 10, "things"));
    Results::new("quick", Plan::new(2, subjects, workloads, rounds, 2))
}

fn rehearse(results: &mut Results, fail: Vec<usize>) -> (Vec<Boot>, usize, Vec<bool>) {
    let mut worker = Rehearsal { plan: Some(results.plan.clone()), fail, ..Rehearsal::default() };
    let (mut kept, mut times_known) = (0, Vec::new());
    let mut keep = |_: &Results| {
        kept += 1;
        Ok(())
    };
    measure(results, &mut [&mut worker], &mut keep, &mut |event| {
        if let Event::Progress { left, .. } = event {
            times_known.push(left.is_some());
        }
    })
    .unwrap();
    assert_eq!(worker.ended, 1);
    (worker.turns, kept, times_known)
}

fn told(results: &Results) -> Vec<String> {
    results.problems.iter().map(Problem::to_string).collect()
}

#[test]
fn modes_are_interleaved_and_begin_elsewhere_in_every_round() {
    let names: Vec<String> =
        order(&results(3).plan).map(|turn| format!("{} {}", turn.round, turn.subject)).collect();
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
    let paratick = results.plan.subjects[2];
    let cell = results.cells.iter_mut().find(|cell| cell.subject == paratick).unwrap();
    cell.readings.exits.samples.pop();
    let (turns, ..) = rehearse(&mut results, vec![]);
    assert_eq!(turns, [Boot { round: 2, subject: paratick }]);
    assert!(results.cells.iter().all(|cell| cell.samples().len() == 4));
}

#[test]
fn a_guest_that_fails_is_told_and_the_others_go_on() {
    let mut results = results(2);
    let (turns, ..) = rehearse(&mut results, vec![2]);
    assert_eq!(turns.len(), 6);
    assert_eq!(told(&results), ["round 1, tickless: a soft lockup"]);
    assert!(!results.is_complete());
}

/// What was wrong no longer is once the guest was measured; and until then nothing is lost.
#[test]
fn a_guest_that_is_measured_again_takes_its_problem_and_its_samples_along() {
    let mut results = results(1);
    rehearse(&mut results, vec![1, 2, 3]);
    assert_eq!(results.problems.len(), 4);
    rehearse(&mut results, vec![]);
    assert!(results.is_complete());
    assert_eq!(told(&results), [""; 0]);

    let (workload, subject) = (results.plan.workloads[0].clone(), results.plan.subjects[0]);
    results.cells.retain(|cell| cell.workload != workload.workload || cell.subject != subject);
    let before = results.cells.clone();
    rehearse(&mut results, vec![1]);
    assert_eq!(told(&results), ["round 1, periodic: a soft lockup"]);
    assert_eq!(results.cells, before);
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
    let worker = || Rehearsal { plan: Some(results.plan.clone()), ..Rehearsal::default() };
    let (mut one, mut other) = (worker(), worker());
    measure(&mut results, &mut [&mut one, &mut other], &mut |_| Ok(()), &mut |_| ()).unwrap();
    assert!(results.is_complete());
    assert_eq!(one.turns.len() + other.turns.len(), 6);
    assert!(one.turns.iter().all(|turn| !other.turns.contains(turn)));
}

#[test]
fn results_that_cannot_be_kept_end_it() {
    let mut results = results(2);
    let mut worker = Rehearsal { plan: Some(results.plan.clone()), ..Rehearsal::default() };
    let mut keep = |_: &Results| anyhow::bail!("no space");
    let ended = measure(&mut results, &mut [&mut worker], &mut keep, &mut |_| ());
    assert_eq!(ended.unwrap_err().to_string(), "no space");
    assert_eq!(worker.turns.len(), 1);
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
    let (.., known) = rehearse(&mut results(1), vec![]);
    assert!(!known[0] && known[known.len() - 1]);
}

#[test]
fn idle_entries_are_counted_once_where_the_kernel_stops_its_tick() {
    let mut plan = results(2).plan;
    plan.subjects = ["tickless", "tickless-stop", "tickless-stop+poll"]
        .map(|mode| mode.parse().unwrap())
        .to_vec();
    let counting = |plan: &Plan| -> Vec<Boot> {
        let turns = order(plan).filter(|boot| counts_idle_entries(*boot, plan));
        turns.collect()
    };
    assert_eq!(counting(&plan), []);
    plan.idle_entries = true;
    let stop = Boot { round: 1, subject: "tickless-stop".parse().unwrap() };
    assert_eq!(counting(&plan), [stop]);
    // A boot, two workloads twice, and both once more.
    assert_eq!(runs(stop, &plan), 1 + 2 * 2 + 2);
}

#[test]
fn halts_are_recorded_in_the_first_guest_of_every_subject() {
    let mut plan = results(2).plan;
    let recording = |plan: &Plan| order(plan).filter(|boot| records_halts(*boot, plan)).count();
    assert_eq!(recording(&plan), 0);
    plan.halts = true;
    assert_eq!(recording(&plan), plan.subjects.len());
    // A boot, two workloads twice, both once more, and on a host of its own settings once natively.
    let natively: Vec<_> = order(&plan).filter(|boot| runs_natively(*boot, &plan)).collect();
    assert_eq!(natively.len(), 1);
    let extra = |boot: Boot| runs(boot, &plan) - (1 + 2 * 2 + 2);
    let all: Vec<_> = order(&plan).filter(|boot| boot.round == 1).map(extra).collect();
    assert_eq!(all.iter().sum::<u64>(), 2, "{all:?}");
    assert_eq!(extra(natively[0]), 2);
}

#[test]
fn idle_entries_go_to_the_cell_of_their_workload() {
    let mut results = results(1);
    let (subject, entries) = (results.plan.subjects[1], IdleEntries::default());
    let workload = results.plan.workloads[0].clone();
    let measured = Measured {
        samples: vec![(workload, Sample::default())],
        idle_entries: vec![("cpu".into(), entries.clone()), ("idle".into(), entries)],
        halts: vec![("cpu".into(), RunHalts::default())],
        ..Measured::default()
    };
    take(&mut results, Boot { round: 1, subject }, measured, &mut |_| ());
    let readings = &results.cell("cpu", subject).unwrap().readings;
    assert!(readings.idle.is_some() && readings.halts.is_some());
    // It failed: there is nothing that the entries would explain.
    assert!(results.cell("idle", subject).is_none());
}
