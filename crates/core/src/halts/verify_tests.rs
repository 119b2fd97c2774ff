// SPDX-License-Identifier: GPL-2.0-only
use super::super::{recording::Side, replay::replay, rule::LearnedRule, streams};
use super::*;
use proptest::prelude::*;

/// What the kernel would have recorded with this rule, from the first halt on.
fn recorded(rule: Rule, lengths: &[u64]) -> VcpuHalts {
    let mut halts = streams::halts(lengths);
    let (replayed, _) = replay(&halts, Policy::new(rule), 0);
    for (halt, one) in halts.iter_mut().zip(replayed) {
        halt.limit_ns = Some(one.limit_ns);
        halt.polled_ns = one.polled_ns;
        halt.waited = one.blocked;
        halt.traced = one.traced;
    }
    let side = if matches!(rule, Rule::Guest(_)) { Side::Guest } else { Side::Host };
    VcpuHalts { rule: Some(rule), from_start: true, ..streams::vcpu(side, halts) }
}

fn without_limits(mut vcpu: VcpuHalts) -> VcpuHalts {
    vcpu.from_start = false;
    vcpu.halts.iter_mut().for_each(|halt| halt.limit_ns = None);
    vcpu
}

const HOST: Rule = Rule::Host(HostRule::DEFAULT);

fn verified(vcpu: &VcpuHalts) -> Verified {
    verify(vcpu).unwrap()
}

#[test]
fn the_first_difference_is_named() {
    let mut vcpu = recorded(HOST, &[5_000, 15_000, 1_000, 50_000, 1_000_000]);
    assert_eq!(verified(&vcpu).difference, None);
    vcpu.halts[3].traced = Some(Traced { old: 20_000, new: 30_000 });
    let found = verified(&vcpu);
    assert_eq!((found.compared, found.changes), (4, 3));
    assert_eq!(
        found.difference.unwrap().to_string(),
        "halt 3, of 50000 ns: replayed limit 20000, then 20000 -> 40000, recorded limit 20000, \
         then 20000 -> 30000"
    );
    vcpu.halts[1].limit_ns = Some(10_001);
    assert_eq!(verified(&vcpu).difference.unwrap().index, 1);
    vcpu.halts[0].traced = None;
    let text = verified(&vcpu).difference.unwrap().to_string();
    assert!(text.ends_with("recorded limit 0, then no change"), "{text}");
}

#[test]
fn another_rule_than_the_one_in_force_is_found_out() {
    let lengths = streams::exponential(300.0);
    let mut vcpu = recorded(HOST, &lengths[..1000]);
    vcpu.rule = Some(Rule::Host("paper".parse().unwrap()));
    assert!(verified(&vcpu).difference.is_some());
    let mut vcpu = without_limits(recorded(Rule::Guest(GuestRule::DEFAULT), &lengths[..1000]));
    vcpu.rule = Some(Rule::Guest("50K_10K".parse().unwrap()));
    assert!(verified(&vcpu).difference.is_some());
}

#[test]
fn an_unknown_limit_becomes_known_with_the_first_change() {
    // 40 us in force; hits tell nothing that 80, 160 and 200 us would not, too.
    let all = [[30_000; 3].as_slice(), &[20_000; 5], &[1_000_000, 20_000]].concat();
    let mut vcpu = without_limits(recorded(HOST, &all));
    vcpu.halts.drain(..3);
    let found = verified(&vcpu);
    assert_eq!((found.unknown, found.compared, found.changes), (5, 2, 1));
    assert_eq!(found.difference, None);
}

#[test]
fn a_limit_is_known_without_any_change_where_only_one_is_possible() {
    // Any limit but 0 would have been shrunk by the first.
    let vcpu = without_limits(recorded(HOST, &[1_000_000; 10]));
    let found = verified(&vcpu);
    assert_eq!((found.unknown, found.compared, found.changes), (1, 9, 0));
}

#[test]
fn a_limit_that_the_ladder_does_not_have_is_followed_once_it_is_told() {
    // As after a change of the parameters.
    let mut policy = Policy::at(HOST, 70_000).unwrap();
    let mut halts = streams::halts(&[1_000, 1_000_000, 1_000_000, 1_000_000]);
    for halt in &mut halts {
        halt.traced = follow(&mut policy, &halt.clone()).traced;
    }
    let vcpu = VcpuHalts { rule: Some(HOST), ..streams::vcpu(Side::Host, halts) };
    let found = verified(&vcpu);
    assert_eq!((found.unknown, found.compared, found.changes), (1, 3, 3));
    assert_eq!(found.difference, None);
}

#[test]
fn the_limits_are_filled_in_from_what_was_traced() {
    let all = recorded(HOST, &streams::exponential(100.0)[..2000]);
    let mut vcpu = without_limits(all.clone());
    fill_limits(&mut vcpu);
    assert_eq!(vcpu.halts, all.halts);
    let floor = Rule::Host("paper-floor".parse().unwrap());
    let mut from_start = recorded(floor, &streams::exponential(100.0)[..2000]);
    let all_floor = from_start.clone();
    from_start.halts.iter_mut().for_each(|halt| halt.limit_ns = None);
    fill_limits(&mut from_start);
    assert_eq!(from_start, all_floor);
    let changed = all.halts.iter().filter(|halt| halt.traced.is_some()).count();
    assert!(changed > 100, "{changed}");
    let mut still = without_limits(recorded(HOST, &[1_000_000; 3]));
    fill_limits(&mut still);
    assert!(still.halts.iter().all(|halt| halt.limit_ns.is_none()));
}

#[test]
fn what_cannot_be_replayed_says_why() {
    let vcpu = recorded(HOST, &[1, 2, 3]);
    let no_rule = VcpuHalts { rule: None, ..vcpu.clone() };
    assert_eq!(verify(&no_rule), Err(NotVerified::NoRule));
    let lost = VcpuHalts { lost: 7, ..vcpu.clone() };
    let error = verify(&lost).unwrap_err().to_string();
    assert!(error.contains("7 records were lost\nhint: "), "{error}");
    let rule = Some(Rule::Learned(LearnedRule { max: 200_000, cost: 10_000 }));
    let middle = VcpuHalts { rule, from_start: false, ..vcpu };
    assert_eq!(verify(&middle), Err(NotVerified::NoStart));
}

fn rules() -> impl Strategy<Value = Rule> {
    let host = |name: &str| Just(Rule::Host(name.parse().unwrap()));
    let guest = |name: &str| Just(Rule::Guest(name.parse().unwrap()));
    prop_oneof![
        host("default"),
        host("2021"),
        host("paper-floor"),
        host("none"),
        host("70000,3,4000,5"),
        host("200000,2,10000,2,none"),
        host("50000,1,60000,1"),
        guest("default"),
        guest("50K_10K"),
        guest("70000,3,4000,0,keep"),
        Just(Rule::Learned(LearnedRule { max: 150_000, cost: 9_000 })),
        Just(Rule::Fixed(20_000)),
    ]
}

proptest! {
    #[test]
    fn what_a_rule_made_it_verifies(
        rule in rules(),
        lengths in prop::collection::vec(0..300_000u64, 0..300),
        from in 0..100usize,
    ) {
        let all = recorded(rule, &lengths);
        let found = verified(&all);
        prop_assert_eq!(&found.difference, &None);
        prop_assert_eq!(found.compared, lengths.len() as u64);
        if !matches!(rule, Rule::Learned(_)) {
            let mut later = without_limits(all);
            later.halts.drain(..from.min(lengths.len()));
            let found = verified(&later);
            prop_assert_eq!(&found.difference, &None);
            prop_assert_eq!(found.compared + found.unknown, later.halts.len() as u64);
            let after = later.halts.iter().position(|halt| halt.traced.is_some());
            prop_assert!(found.unknown <= after.unwrap_or(later.halts.len()) as u64);
        }
    }

    #[test]
    fn one_wrong_value_is_found(
        lengths in prop::collection::vec(0..300_000u64, 1..200),
        at: prop::sample::Index,
        by in 1..1000u32,
    ) {
        let mut vcpu = recorded(HOST, &lengths);
        let at = at.index(lengths.len());
        let halt = &mut vcpu.halts[at];
        halt.traced = match halt.traced {
            Some(traced) => Some(Traced { new: traced.new + by, ..traced }),
            None => Some(Traced { old: halt.limit_ns.unwrap(), new: by }),
        };
        prop_assert_eq!(verified(&vcpu).difference.map(|found| found.index), Some(at));
    }
}
