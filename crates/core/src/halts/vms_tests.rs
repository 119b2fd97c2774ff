// SPDX-License-Identifier: GPL-2.0-only
use super::super::{regret::stock_rules, rule::HostRule, streams};
use super::*;

const COST: u32 = 50_000;
/// Nothing is polled for.
const NONE: Rule = Rule::Host(HostRule { max: 0, ..HostRule::DEFAULT });

/// One VM's halts of one length, under the rule that never polls.
fn vcpu(process: u32, us: f64, maximum: Maximum) -> VcpuHalts {
    let halts = streams::halts(&vec![(us * 1000.0) as u64; 1000]);
    let process = Some(process);
    VcpuHalts { process, maximum, rule: Some(NONE), ..streams::vcpu(Side::Host, halts) }
}

/// Short halts that are worth polling for, and longer ones that are not.
fn opposite(second: Maximum) -> Halts {
    let vcpus = vec![vcpu(7, 20.0, Maximum::Module), vcpu(8, 150.0, second)];
    Halts { window_ns: 200_000_000, vcpus, ..Halts::default() }
}

fn found(halts: &Halts) -> Vec<Vm> {
    let rules = stock_rules(Side::Host, Some(NONE), COST);
    vms(halts, Side::Host, (COST, 0), &rules)
}

fn outcomes(vms: &[Vm], rule: &str) -> Vec<Outcome> {
    vms.iter().map(|vm| vm.under(rule).unwrap().outcome).collect()
}

#[test]
fn two_vms_with_opposite_wishes_are_told_apart() {
    let vms = found(&opposite(Maximum::Module));
    let best = |vm: &Vm| vm.best.as_ref().unwrap().name.clone();
    assert_eq!([best(&vms[0]), best(&vms[1])], ["2021", "none"]);
    assert_eq!(vms[0].process, Some(7));
    assert_eq!(vms[0].now_ns, Some(50_000_000));
    assert!((0.59..0.61).contains(&vms[0].saving().unwrap()), "{:?}", vms[0].saving());
    assert_eq!(vms[1].saving(), Some(0.0));
    assert_eq!(outcomes(&vms, "default"), [Outcome::Wins, Outcome::Loses]);
    assert_eq!(outcomes(&vms, "none"), [Outcome::Same, Outcome::Same]);
}

#[test]
fn a_vm_with_its_own_maximum_is_not_affected_and_its_best_rule_is_told_all_the_same() {
    let vms = found(&opposite(Maximum::Own(300_000)));
    assert_eq!(outcomes(&vms, "default"), [Outcome::Wins, Outcome::Same]);
    assert_eq!(vms[1].best.as_ref().unwrap().name, "none");
    assert!(vms[1].saving().unwrap() > 0.6, "{:?}", vms[1].saving());
    // Growing and shrinking are the module's: nothing shrinks these halts, so there are none.
    assert_eq!(outcomes(&vms, "2021"), [Outcome::Wins, Outcome::Same]);
}

#[test]
fn where_a_maximum_is_not_known_no_cost_is() {
    let vms = found(&opposite(Maximum::Traced { least: 250_001, most: None }));
    assert_eq!(outcomes(&vms, "default"), [Outcome::Wins, Outcome::NotKnown]);
    assert_eq!((vms[1].now_ns, vms[1].saving()), (None, None));
    assert_eq!(vms[1].best.as_ref().unwrap().name, "none");
    let all = opposite(Maximum::Traced { least: 250_001, most: None });
    let rules = stock_rules(Side::Host, Some(NONE), COST);
    assert_eq!(regret(&all, Side::Host, (COST, 0), &rules, Some(NONE)).halts, 1000);
}

#[test]
fn what_was_changed_while_it_was_recorded_is_compared_with_nothing() {
    let mut halts = opposite(Maximum::Module);
    halts.vcpus[1].rule = None;
    let vms = found(&halts);
    assert_eq!(outcomes(&vms, "default"), [Outcome::Wins, Outcome::NotKnown]);
    assert!(vms[1].under("default").unwrap().expected_ns.is_some());
}

#[test]
fn a_little_of_the_cost_or_of_the_time_is_no_loss() {
    let outcome = |now, then, window| Outcome::new(Some(now), Some(then), window);
    assert_eq!(outcome(1_000, 1_049, 1), Outcome::Same);
    assert_eq!(outcome(1_000, 1_051, 1), Outcome::Loses);
    assert_eq!(outcome(1_000, 949, 1), Outcome::Wins);
    assert_eq!(outcome(1_000, 2_000, 1_000_000), Outcome::Same);
    assert_eq!(outcome(1_000, 2_001, 1_000_000), Outcome::Loses);
    assert_eq!(Outcome::new(None, Some(1), 1), Outcome::NotKnown);
}
