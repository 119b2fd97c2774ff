// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use crate::{
    cause::Cause,
    exits::Counts,
    results::{Fault, Plan, Program, Sample},
};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn planned(name: &str) -> PlannedWorkload {
    PlannedWorkload::new(name, 100, "round trips")
}

fn empty() -> Results {
    Results::new("quick", Plan::new(2, [mode("tickless")], [planned("pingpong")], 4, 2))
}

fn mode(name: &str) -> Subject {
    name.parse().unwrap()
}

/// `exits` of one workload in `tickless`, two samples to a round.
fn results(exits: &[u64]) -> Results {
    let mut results = empty();
    for (round, pair) in (1..).zip(exits.chunks(2)) {
        for exits in pair {
            let sample = Sample {
                round,
                exits: Some(Counts {
                    total: *exits,
                    by_cause: BTreeMap::from([(Cause::Halt, *exits)]),
                    msr_writes: Some(BTreeMap::new()),
                    ..Counts::default()
                }),
                ..Sample::default()
            };
            results.add(&planned("pingpong"), mode("tickless"), sample);
        }
    }
    results
}

fn change(before: &[u64], after: &[u64]) -> FigureChange {
    let report = compare(&results(before), &results(after), &Gates::default());
    report.cells[0].figures[0].clone()
}

fn judged(before: &[u64], after: &[u64]) -> (Outcome, Option<Gate>) {
    let change = change(before, after);
    assert_eq!(change.figure, Figure::Exits);
    (change.outcome, change.stopped_by)
}

const CALM: [u64; 8] = [1000, 1004, 1001, 1003, 1002, 1000, 1003, 1001];

fn shifted(by: i64) -> Vec<u64> {
    CALM.iter().map(|n| n.saturating_add_signed(by)).collect()
}

#[test]
fn what_passes_all_gates_is_a_change_with_its_direction() {
    assert_eq!(judged(&CALM, &shifted(200)), (Outcome::More, None));
    assert_eq!(judged(&CALM, &shifted(-200)), (Outcome::Less, None));
    let versus = change(&CALM, &shifted(200)).versus.unwrap();
    assert!(1.19 < versus.low && versus.high < 1.21, "{versus:?}");
}

#[test]
fn each_gate_stops_what_is_not_its_own() {
    let none = Outcome::NoDifferenceShown;
    let wild = [500, 900, 1400, 2000, 700, 1100, 1600, 800];
    let higher: Vec<u64> = wild.iter().map(|n| n + 100).collect();
    assert_eq!(judged(&wild, &higher), (none, Some(Gate::Significance)));
    // 20 exits: significant, but fewer than 25.
    assert_eq!(judged(&CALM, &shifted(20)), (none, Some(Gate::Size)));
    // 28 exits of 1001: less than 3 %.
    assert_eq!(judged(&CALM, &shifted(28)), (none, Some(Gate::Noise)));
    assert_eq!(judged(&CALM, &shifted(40)), (Outcome::More, None));
}

/// Many samples make a small difference significant: it is noise all the same if half of the
/// samples of one file are farther than that from their own median.
#[test]
fn a_change_within_the_spread_of_a_file_is_noise() {
    let wide: Vec<u64> = (0..120u64).map(|n| 1000 + n * 7919 % 120 * 5).collect();
    let higher: Vec<u64> = wide.iter().map(|n| n + 140).collect();
    let seen = change(&wide, &higher);
    assert!(seen.versus.unwrap().low > 1.0);
    assert!(seen.spread_before.unwrap() > 0.1);
    assert_eq!(seen.stopped_by, Some(Gate::Noise));
    assert_eq!(judged(&CALM, &shifted(140)), (Outcome::More, None));
}

#[test]
fn three_boots_conclude_nothing() {
    let few = judged(&CALM, &[5000; 6]);
    assert_eq!(few, (Outcome::TooFewSamples, None));
    assert_eq!(judged(&CALM, &[5000; 8]), (Outcome::More, None));
}

#[test]
fn what_was_not_measured_is_not_compared() {
    let report = compare(&results(&CALM), &results(&CALM), &Gates::default());
    let outcome = |figure| {
        let mut figures = report.cells[0].figures.iter();
        figures.find(|change| change.figure == figure).unwrap().outcome
    };
    assert_eq!(outcome(Figure::CpuNs), Outcome::NotMeasured);
    assert_eq!(outcome(Figure::TscDeadlineWrites), Outcome::NoDifferenceShown);
    assert_eq!(report.count(Outcome::NotMeasured), 4);
}

/// There is no ratio to 0, but a change from it.
#[test]
fn a_figure_that_was_0_can_change() {
    assert_eq!(judged(&[0; 8], &[500; 8]), (Outcome::More, None));
    assert_eq!(judged(&[500; 8], &[0; 8]), (Outcome::Less, None));
    assert_eq!(change(&[0; 8], &[500; 8]).versus, None);
    let (none, significance) = (Outcome::NoDifferenceShown, Some(Gate::Significance));
    assert_eq!(judged(&[0; 8], &[0; 8]), (none, significance));
    assert_eq!(judged(&[0, 0, 0, 0, 0, 0, 0, 900], &[500; 8]), (none, significance));
    assert_eq!(judged(&[0; 8], &[10; 8]), (none, Some(Gate::Size)));
}

#[test]
fn gates_can_be_moved() {
    let strict = Gates { noise: 0.0, sizes: BTreeMap::new() };
    let report = compare(&results(&CALM), &results(&shifted(6)), &strict);
    assert_eq!(report.cells[0].figures[0].outcome, Outcome::More);
    let same = compare(&results(&CALM), &results(&CALM), &strict);
    assert!(same.figures().all(|(_, change)| !change.outcome.is_change()));
}

#[test]
fn cells_of_one_file_are_named() {
    let mut after = results(&CALM);
    let tickless = mode("tickless");
    after.add(&planned("idle"), tickless, Sample::default());
    let report = compare(&results(&CALM), &after, &Gates::default());
    assert!(report.only_before.is_empty());
    assert_eq!(report.only_after[0].to_string(), "idle tickless");
    assert_eq!(report.cells.len(), 1);
}

#[test]
fn cells_that_did_something_else_are_not_compared() {
    let mut after = results(&CALM);
    after.cells[0].work = 200;
    let report = compare(&results(&CALM), &after, &Gates::default());
    assert!(report.cells.is_empty() && report.only_after.is_empty());
    assert_eq!(report.unlike[0].why, "did 100 round trips before and 200 round trips after");
    let mut after = results(&CALM);
    after.plan.workloads[0].program =
        Some(Program { command: "sort data".into(), ..Program::default() });
    let report = compare(&results(&CALM), &after, &Gates::default());
    assert!(report.unlike[0].why.contains("`sort data` after"));
}

#[test]
fn doubtful_samples_are_counted() {
    let mut after = results(&CALM);
    let doubt = Fault::CountsDiffer { exits: 2, world_switches: 1 };
    after.cells[0].readings.exits.samples[3].problems = vec![doubt];
    let report = compare(&results(&CALM), &after, &Gates::default());
    assert_eq!((report.before.doubtful, report.after.doubtful), (0, 1));
    assert_eq!((report.after.rounds, report.after.samples), (4, 8));
}

fn explained(before: &Results, after: &Results) -> Vec<Difference> {
    differences(before, after, |meets| meets.compare != Compare::Ignores)
}

fn differing(change: impl Fn(&mut Results)) -> Vec<(String, String, String)> {
    let mut after = empty();
    change(&mut after);
    let found = explained(&empty(), &after).into_iter();
    found.map(|d| (d.what, d.before, d.after)).collect()
}

#[test]
fn equal_environments_show_no_difference() {
    assert!(differing(|_| {}).is_empty());
    assert!(differing(|after| after.started = "2027-01-01T00:00:00Z".into()).is_empty());
}

#[test]
fn what_differs_is_named_with_both_values() {
    let one = |what: &str, before: &str, after: &str| {
        vec![(what.to_string(), before.to_string(), after.to_string())]
    };
    assert_eq!(differing(|r| r.plan.guests = 4), one("guests", "1", "4"));
    assert_eq!(differing(|r| r.plan.vcpus = 16), one("vCPUs of a guest", "2", "16"));
    assert_eq!(
        differing(|r| r.environment.patch_set_hash = Some("0123456789abcdef".into())),
        one("guests' patches", "none or unknown", "0123456789ab")
    );
    assert_eq!(
        differing(|r| r.environment.configuration.exit_cost_ns = Some(1400)),
        one("cost of a world switch", "none", "1400 ns")
    );
    assert!(differing(|r| r.environment.configuration.exit_cost_ns = Some(0)).is_empty());
    assert_eq!(
        differing(|r| r.environment.qemu_version = Some("QEMU 7.2".into())),
        one("QEMU", "none or unknown", "QEMU 7.2")
    );
}

#[test]
fn only_the_options_that_differ_are_named() {
    let config = |options: &[(&str, &str)]| {
        let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        Some(options.iter().map(owned).collect::<BTreeMap<_, _>>())
    };
    let (mut before, mut after) = (empty(), empty());
    before.environment.configuration.kernel_config = config(&[("HZ", "250"), ("SMP", "y")]);
    after.environment.configuration.kernel_config =
        config(&[("HZ", "1000"), ("SMP", "y"), ("KVM", "y")]);
    let found = explained(&before, &after);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].before.as_str(), found[0].after.as_str()), ("HZ=250", "HZ=1000 KVM=y"));
}

#[test]
fn packages_are_compared_where_both_files_name_them() {
    let package = |name: &str, version: &str| (name.to_string(), version.to_string());
    let (mut before, mut after) = (empty(), empty());
    before.environment.packages = [package("fio", "3.33-3"), package("x264", "2:0.164")].into();
    after.environment.packages = [package("pigz", "2.6-1"), package("x264", "2:0.165")].into();
    let found = explained(&before, &after);
    assert_eq!(found.len(), 1);
    assert_eq!(
        (&*found[0].what, &*found[0].before, &*found[0].after),
        ("package x264", "2:0.164", "2:0.165")
    );
}

/// Files of older programs have no hash of the agent, which is no difference but not known.
#[test]
fn hashes_are_shown_by_their_beginning() {
    let hash = |hash: &str| {
        let (mut before, mut after) = (empty(), empty());
        before.environment.hashes.insert("agent".into(), "0123456789abcdef".into());
        after.environment.hashes.insert("agent".into(), hash.into());
        let found = explained(&before, &after).remove(0);
        (found.what, found.before, found.after)
    };
    let told = |what: &str, one: &str, other: &str| (what.into(), one.into(), other.into());
    assert_eq!(hash("fedcba9876543210"), told("agent", "0123456789ab", "fedcba987654"));
    let alike = told("agent", "0123456789abcdef", "0123456789abcxxx");
    assert_eq!(hash("0123456789abcxxx"), alike);
}

#[test]
fn guests_side_by_side_are_not_compared_with_one() {
    let mut after = results(&CALM);
    after.plan.guests = 4;
    let report = compare(&results(&CALM), &after, &Gates::default());
    assert!(report.cells.is_empty());
    assert_eq!(report.unlike[0].why, "guests: 1 before and 4 after");
}

#[test]
fn a_host_setting_and_the_number_of_vcpus_are_a_part_of_the_key() {
    let mut after = results(&CALM);
    after.cells[0].subject.host.apply("halt-poll=200000").unwrap();
    let report = compare(&results(&CALM), &after, &Gates::default());
    assert!(report.cells.is_empty());
    assert_eq!(report.only_after[0].to_string(), "pingpong tickless halt-poll=200000");
    let mut after = results(&CALM);
    after.cells[0].vcpus = 16;
    let report = compare(&results(&CALM), &after, &Gates::default());
    assert_eq!((report.only_before.len(), report.only_after.len()), (1, 1));
}

fn any_exits() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0u64..3000, 1..16)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_file_against_itself_shows_no_change(exits in any_exits()) {
        let same = compare(&results(&exits), &results(&exits), &Gates::default());
        prop_assert!(same.figures().all(|(_, change)| !change.outcome.is_change()));
        prop_assert!(same.differences.is_empty() && same.only_after.is_empty());
    }

    /// Whatever the samples, a change has passed each gate by itself.
    #[test]
    fn a_change_has_passed_every_gate(before in any_exits(), after in any_exits()) {
        let change = change(&before, &after);
        let (old, new) = (change.before.unwrap().median, change.after.unwrap().median);
        if !change.outcome.is_change() {
            prop_assert!(change.stopped_by.is_some() || change.outcome == Outcome::TooFewSamples);
            return Ok(());
        }
        prop_assert_eq!(change.outcome == Outcome::More, new > old);
        prop_assert!((new - old).abs() >= 25.0);
        prop_assert!((new - old).abs() > DEFAULT_NOISE * old);
        for spread in [change.spread_before, change.spread_after].into_iter().flatten() {
            prop_assert!((new - old).abs() > spread * old);
        }
        if let Some(versus) = change.versus {
            prop_assert!(versus.low > 1.0 || versus.high < 1.0);
        }
    }

    #[test]
    fn wider_gates_let_no_more_through(before in any_exits(), after in any_exits()) {
        let wide = Gates { noise: 0.5, sizes: BTreeMap::from([(Figure::Exits, 300.0)]) };
        let judged = |gates| {
            let compared = compare(&results(&before), &results(&after), gates);
            compared.cells[0].figures[0].outcome
        };
        if judged(&wide).is_change() {
            prop_assert!(judged(&Gates::default()).is_change());
        }
    }
}
