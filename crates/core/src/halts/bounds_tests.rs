// SPDX-License-Identifier: GPL-2.0-only
use super::super::{policy::Policy, recording::Side, replay::replay, streams};
use super::*;
use proptest::prelude::*;

/// What stock kernels trace of a VM with this maximum, where the others have the default's.
fn traced(max: u32, lengths: &[u64]) -> VcpuHalts {
    let rule = Rule::Host(HostRule { max, ..HostRule::DEFAULT });
    let mut halts = streams::halts(lengths);
    let (replayed, _) = replay(&halts, Policy::new(rule), 0);
    for (halt, one) in halts.iter_mut().zip(replayed) {
        halt.traced = one.traced;
    }
    streams::vcpu(Side::Host, halts)
}

fn said(max: u32, lengths: &[u64]) -> Maximum {
    traced_maximum([&traced(max, lengths)], Rule::Host(HostRule::DEFAULT))
}

#[test]
fn growth_that_stops_elsewhere_tells_the_maximum() {
    // 10, 20, 40, and 50 instead of 80, which a longer halt shrinks.
    let lengths = [45_000, 45_000, 45_000, 45_000, 60_000];
    assert_eq!(said(50_000, &lengths), Maximum::Traced { least: 50_000, most: Some(50_000) });
    // Before 5.17 it is the traced limit that stops.
    let mut old = streams::vcpu(Side::Host, streams::halts(&[45_000]));
    old.halts[0].traced = Some(Traced { old: 40_000, new: 50_000 });
    let found = traced_maximum([&old], Rule::Host(HostRule::DEFAULT));
    assert_eq!(found, Maximum::Traced { least: 50_000, most: Some(50_000) });
}

#[test]
fn limits_beyond_the_modules_maximum_are_the_vms_own() {
    // Nothing grows after a halt of 250 us where the most is 200.
    let found = said(1_000_000, &[250_000; 3]);
    assert_eq!(found, Maximum::Traced { least: 250_001, most: None });
    assert_eq!(found.to_string(), "its own, at least 250 µs");
}

#[test]
fn a_limit_that_shrinks_after_a_halt_below_the_modules_maximum_tells_that_it_is_another() {
    let found = said(50_000, &[15_000, 90_000]);
    assert_eq!(found, Maximum::Traced { least: 15_001, most: Some(89_999) });
    assert_eq!(found.to_string(), "its own, 15.0 µs to 90.0 µs");
}

#[test]
fn what_fits_the_module_or_says_nothing_is_not_known() {
    assert_eq!(said(200_000, &streams::exponential(100.0)), Maximum::Unknown);
    // It never grows, because of its maximum, or because the guest polls itself.
    assert_eq!(said(50_000, &[90_000; 100]), Maximum::Unknown);
    // A wake-up that is none shrinks any limit.
    let mut vcpu = traced(200_000, &[15_000, 15_000]);
    vcpu.halts[1].valid = false;
    vcpu.halts[1].traced = Some(Traced { old: 10_000, new: 0 });
    let module = Rule::Host(HostRule::DEFAULT);
    assert_eq!(traced_maximum([&vcpu], module), Maximum::Unknown);
    // It was changed while it was recorded.
    let both = [&traced(1_000_000, &[250_000]), &traced(50_000, &[15_000, 90_000])];
    assert_eq!(traced_maximum(both, module), Maximum::Unknown);
}

#[test]
fn a_rule_is_another_one_for_a_vm_with_its_own_maximum() {
    let module = Rule::Host(HostRule::DEFAULT);
    let own = Rule::Host(HostRule { max: 50_000, ..HostRule::DEFAULT });
    let between = |least, most| Maximum::Traced { least, most };
    for (maximum, rule, is_own) in [
        (Maximum::Unknown, Some(module), false),
        (Maximum::Module, Some(module), false),
        (Maximum::Own(50_000), Some(own), true),
        (between(50_000, Some(50_000)), Some(own), true),
        (between(50_000, Some(60_000)), None, true),
        (between(250_001, None), None, true),
    ] {
        assert_eq!((maximum.of(module), maximum.is_own()), (rule, is_own), "{maximum}");
        let text = serde_json::to_string(&maximum).unwrap();
        assert_eq!(serde_json::from_str::<Maximum>(&text).unwrap(), maximum, "{text}");
    }
}

proptest! {
    #[test]
    fn no_trace_says_what_is_not_so(
        max in 1..500_000u32,
        lengths in prop::collection::vec(0..600_000u64, 0..200),
        from in 0..50usize,
    ) {
        let mut vcpu = traced(max, &lengths);
        vcpu.halts.drain(..from.min(lengths.len()));
        let found = traced_maximum([&vcpu], Rule::Host(HostRule::DEFAULT));
        if let Maximum::Traced { least, most } = found {
            prop_assert!((least..=most.unwrap_or(u32::MAX)).contains(&max), "{found}");
            prop_assert!(max != HostRule::DEFAULT.max);
        } else {
            prop_assert_eq!(found, Maximum::Unknown);
        }
    }
}
