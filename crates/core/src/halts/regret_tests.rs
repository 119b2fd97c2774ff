// SPDX-License-Identifier: GPL-2.0-only
use super::super::streams;
use super::*;
use proptest::prelude::*;

const HOST: Rule = Rule::Host(HostRule::DEFAULT);

fn of(lengths: &[u64], cost: u32) -> Regret {
    let rules = stock_rules(Side::Host, Some(HOST), cost);
    regret(&streams::recording(Side::Host, lengths), Side::Host, (cost, 0), &rules, Some(HOST))
}

#[test]
fn a_rule_that_costs_less_is_advised_with_its_reason() {
    let regret = of(&streams::constant(30.0), 10_000);
    let advice = regret.advice.unwrap();
    assert_eq!(advice.name, "none");
    assert_eq!(
        advice.reason,
        "it costs 67 % less than default: 19997 blocks more, and 0.0 % of the halted time polled \
         instead of 100.0 %"
    );
}

#[test]
fn the_present_rule_stays_where_little_is_to_be_won() {
    let regret = of(&streams::constant(6.0), 10_000);
    let advice = regret.advice.unwrap();
    assert_eq!((advice.name.as_str(), advice.rule), ("default", HOST));
    assert!(advice.reason.starts_with("no rule that needs no patch saves more than 0."));
}

#[test]
fn what_needs_a_patch_is_compared_and_not_advised() {
    let regret = of(&streams::mixture(0.7, 6.0, 2000.0), 10_000);
    let stock: Vec<_> = regret.rows.iter().filter(|row| row.stock).map(|row| &row.name).collect();
    assert_eq!(stock, ["none", "2021", "paper", "default"]);
    let advised = regret.advice.unwrap().name;
    assert!(stock.contains(&&advised), "{advised}");
}

#[test]
fn nothing_halted_and_nothing_is_advised() {
    let regret = of(&[], 10_000);
    assert_eq!((regret.halts, regret.advice), (0, None));
    assert!(regret.rows.iter().all(|row| row.of_clairvoyant.is_none()));
}

#[test]
fn a_rule_in_force_that_has_no_name_gets_a_row() {
    let rule = Rule::Host("50000,2,10000,0".parse().unwrap());
    let rules = stock_rules(Side::Host, Some(rule), 10_000);
    assert_eq!((rules[0].name.as_str(), rules.len()), ("50000,2,10000,0", 7));
    assert_eq!(stock_rules(Side::Guest, None, 10_000).len(), 4);
}

#[test]
fn halts_of_the_other_side_and_those_that_no_rule_is_asked_about_do_not_count() {
    let mut recording = streams::recording(Side::Host, &[1_000, 2_000]);
    recording.vcpus[0].halts[0].allowed = false;
    recording.vcpus.push(streams::vcpu(Side::Guest, streams::halts(&[5_000])));
    let regret = regret(&recording, Side::Host, (10_000, 0), &[], None);
    assert_eq!((regret.halts, regret.clairvoyant.ns), (1, 2_000));
}

proptest! {
    #[test]
    fn nobody_does_better_than_who_knows_the_future(
        lengths in prop::collection::vec(prop_oneof![0..20_000u64, 0..1_000_000u64], 1..200),
        deadlines in prop::collection::vec(prop::option::of(0..50_000u64), 200),
        cost in 0..100_000u32,
        fixed in 0..500_000u32,
        refused in prop::collection::vec(prop::bool::weighted(0.1), 200),
    ) {
        let mut recording = streams::recording(Side::Host, &lengths);
        let halts = recording.vcpus[0].halts.iter_mut();
        for (halt, (deadline, refused)) in halts.zip(deadlines.iter().zip(refused)) {
            (halt.deadline_ns, halt.allowed) = (*deadline, !refused);
        }
        let mut rules = stock_rules(Side::Host, None, cost);
        rules.extend(stock_rules(Side::Guest, None, cost));
        rules.push(Candidate { name: "fixed".into(), rule: Rule::Fixed(fixed) });
        let regret = regret(&recording, Side::Host, (cost, 0), &rules, None);
        prop_assert!(regret.clairvoyant.ns <= regret.best_fixed.ns);
        for row in &regret.rows {
            prop_assert!(regret.clairvoyant.ns <= row.cost.ns, "{}", row.name);
        }
        prop_assert!(regret.best_fixed.ns <= regret.rows[rules.len() - 1].cost.ns);
    }

    #[test]
    fn the_best_fixed_window_is_what_it_says_and_no_other_costs_less(
        lengths in prop::collection::vec(0..1_000u64, 1..60),
        cost in 0..500u32,
    ) {
        let recording = streams::recording(Side::Host, &lengths);
        let fixed = |ns| Candidate { name: String::new(), rule: Rule::Fixed(ns) };
        let all: Vec<_> = (0..=1_000).map(fixed).collect();
        let regret = regret(&recording, Side::Host, (cost, 0), &all, None);
        let least = regret.rows.iter().map(|row| row.cost.ns).min().unwrap();
        prop_assert_eq!(regret.best_fixed.ns, least);
        let row = &regret.rows[regret.best_fixed_ns as usize];
        prop_assert_eq!(row.cost, regret.best_fixed);
    }
}
