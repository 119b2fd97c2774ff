// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn met(ns: u64) -> Met {
    let (waited, valid, allowed, deadline_ns) = (true, true, true, None);
    Met { ns, blocked_ns: ns, waited, valid, allowed, deadline_ns }
}

fn limit(policy: &mut Policy) -> u32 {
    policy.limit(&Halt::blocked(0, 0))
}

/// The limits in force before each halt, and after the last.
fn limits(rule: Rule, halts: &[u64]) -> Vec<u32> {
    let mut policy = Policy::new(rule);
    let mut limits = vec![limit(&mut policy)];
    for ns in halts {
        policy.learn(&met(*ns));
        limits.push(limit(&mut policy));
    }
    limits
}

fn host(name: &str) -> Rule {
    Rule::Host(name.parse().unwrap())
}

fn guest(name: &str) -> Rule {
    Rule::Guest(name.parse().unwrap())
}

/// Up by six missed short halts, down by seven long ones.
fn up_and_down(rule: Rule, missed: u64) -> Vec<u32> {
    limits(rule, &[[missed; 6].as_slice(), &[1_000_000; 7]].concat())
}

#[test]
fn the_hosts_ladder_goes_up_and_down_as_kvm_does() {
    let up = [0, 10_000, 20_000, 40_000, 80_000, 160_000, 200_000];
    let found = up_and_down(host("default"), 199_999);
    assert_eq!(found[..7], up);
    assert_eq!(found[7..], [100_000, 50_000, 25_000, 12_500, 0, 0, 0]);
    let found = up_and_down(host("2021"), 199_999);
    assert_eq!((&found[..7], &found[7..9]), (&up[..], &[0, 0][..]));
    let found = up_and_down(host("paper"), 159_999);
    assert_eq!(found[..7], [0, 10_000, 20_000, 40_000, 80_000, 160_000, 160_000]);
    assert_eq!(found[7..], [80_000, 40_000, 20_000, 10_000, 0, 0, 0]);
    let found = up_and_down(host("paper-floor"), 159_999);
    assert_eq!(found[..6], [10_000, 20_000, 40_000, 80_000, 160_000, 160_000]);
    assert_eq!(found[10..], [10_000, 10_000, 10_000, 10_000]);
    let found = up_and_down(host("200000,2,10000,2,none"), 199_999);
    assert_eq!(found[10..], [12_500, 6_250, 3_125, 1_562]);
    assert_eq!(up_and_down(host("none"), 1), [0; 14]);
}

#[test]
fn growth_is_traced_beyond_the_maximum_and_clamped_at_the_next_halt() {
    let mut policy = Policy::at(host("default"), 160_000).unwrap();
    let traced = policy.learn(&met(170_000));
    assert_eq!(traced, Some(Traced { old: 160_000, new: 320_000 }));
    assert_eq!(limit(&mut policy), 200_000);
}

#[test]
fn what_changes_nothing_is_not_traced() {
    for (limit, ns) in [(20_000, 20_000), (0, 200_000), (0, 200_001), (200_000, 200_000)] {
        let mut policy = Policy::at(host("default"), limit).unwrap();
        assert_eq!(policy.learn(&met(ns)), None, "{limit} {ns}");
    }
    let mut policy = Policy::at(host("default"), 10_000).unwrap();
    assert_eq!(policy.learn(&Met { allowed: false, ..met(15_000) }), None);
    // A maximum of 0 was set since.
    let mut policy = Policy::at(host("none"), 10_000).unwrap();
    assert_eq!((limit(&mut policy), policy.learn(&met(15_000))), (0, None));
}

#[test]
fn what_kvm_traces_without_a_change_is_traced() {
    let mut never_grows = Policy::new(host("200000,0,10000,2"));
    assert_eq!(never_grows.learn(&met(5_000)), Some(Traced { old: 0, new: 0 }));
    let mut at_zero = Policy::new(host("default"));
    let invalid = Met { valid: false, ..met(5_000) };
    assert_eq!(at_zero.learn(&invalid), Some(Traced { old: 0, new: 0 }));
    let mut at_zero = Policy::new(guest("default"));
    assert_eq!(at_zero.learn(&met(200_001)), Some(Traced { old: 0, new: 0 }));
}

#[test]
fn a_wake_up_that_is_not_valid_shrinks_however_short_the_halt() {
    let mut policy = Policy::at(host("default"), 80_000).unwrap();
    let traced = policy.learn(&Met { valid: false, ..met(10) });
    assert_eq!(traced, Some(Traced { old: 80_000, new: 40_000 }));
}

#[test]
fn the_guests_ladder_goes_up_and_down_as_haltpoll_does() {
    let found = up_and_down(guest("default"), 200_000);
    assert_eq!(found[..5], [0, 50_000, 100_000, 200_000, 200_000]);
    assert_eq!(found[7..11], [100_000, 50_000, 0, 0]);
    let found = up_and_down(guest("50K_10K"), 50_000);
    assert_eq!(found[..5], [0, 10_000, 20_000, 40_000, 50_000]);
    assert_eq!(found[7..11], [25_000, 12_500, 0, 0]);
    let found = up_and_down(guest("200000,2,50000,2,keep"), 200_000);
    assert_eq!(found[7..], [200_000; 7]);
    let found = up_and_down(guest("200000,2,50000,0"), 200_000);
    assert_eq!(found[7..9], [0, 0]);
}

#[test]
fn the_guests_ladder_does_not_hear_of_polls_that_hit() {
    let mut policy = Policy::at(guest("default"), 100_000).unwrap();
    assert_eq!(policy.learn(&Met { blocked_ns: 0, waited: false, ..met(70_000) }), None);
    // 250 us in all, of which 150 were blocked for: it grows.
    let traced = policy.learn(&Met { blocked_ns: 150_000, ..met(250_000) });
    assert_eq!(traced, Some(Traced { old: 100_000, new: 200_000 }));
}

#[test]
fn a_late_timer_is_waited_for_and_teaches_the_window_nothing() {
    let rule = LearnedRule { max: 200_000, cost: 10_000 };
    let mut policy = Policy::new(Rule::Learned(rule));
    let halt = |deadline| Halt { deadline_ns: Some(deadline), ..Halt::blocked(0, 8_500) };
    assert_eq!((policy.limit(&halt(8_000)), policy.patience(&halt(8_000))), (8_000, Some(10_000)));
    assert_eq!((policy.limit(&halt(0)), policy.patience(&halt(0))), (0, Some(10_000)));
    assert_eq!((policy.limit(&halt(10_001)), policy.patience(&halt(10_001))), (0, None));
    let before = policy;
    assert_eq!(policy.learn(&Met { deadline_ns: Some(8_000), ..met(8_500) }), None);
    assert_eq!(policy, before);
    // Nor does a halt that something else has ended earlier.
    assert_eq!(policy.learn(&Met { deadline_ns: Some(8_000), ..met(7_500) }), None);
    let traced = policy.learn(&Met { deadline_ns: Some(10_001), ..met(7_500) });
    assert_eq!(traced, Some(Traced { old: 0, new: 10_000 }));
    // A timer that is too far off to be polled for is no reason to learn nothing.
    let mut dear = Policy::new(Rule::Learned(LearnedRule { max: 50_000, cost: 400_000 }));
    for _ in 0..20 {
        dear.learn(&Met { deadline_ns: Some(200_000), ..met(20_000) });
    }
    assert!((20_000..=50_000).contains(&dear.limit(&halt(200_000))));
    // No poll is longer than allowed.
    let mut short = Policy::new(Rule::Learned(LearnedRule { max: 9_000, cost: 10_000 }));
    assert_eq!((short.limit(&halt(8_000)), short.patience(&halt(8_000))), (8_000, Some(1_000)));
}

proptest! {
    #[test]
    fn a_ladder_never_leaves_its_values(
        halts in prop::collection::vec((0..400_000u64, prop::bool::weighted(0.9)), 0..300),
    ) {
        let k = |steps: &[u32]| -> BTreeSet<u32> { steps.iter().map(|step| step * 100).collect() };
        for (rule, values) in [
            (host("default"), k(&[0, 100, 200, 400, 800, 1600, 2000, 1000, 500, 250, 125])),
            (host("2021"), k(&[0, 100, 200, 400, 800, 1600, 2000])),
            (host("paper"), k(&[0, 100, 200, 400, 800, 1600])),
            (host("paper-floor"), k(&[100, 200, 400, 800, 1600])),
            (guest("default"), k(&[0, 500, 1000, 2000])),
            (guest("50K_10K"), k(&[0, 100, 200, 400, 500, 250, 125])),
        ] {
            let mut policy = Policy::new(rule);
            for (ns, valid) in &halts {
                let limit = limit(&mut policy);
                prop_assert!(values.contains(&limit), "{rule}: {limit}");
                let traced = policy.learn(&Met { valid: *valid, ..met(*ns) });
                prop_assert!(traced.is_none_or(|traced| traced.old == limit));
            }
        }
    }
}
