// SPDX-License-Identifier: GPL-2.0-only
use super::super::{replay, Halt, HostRule};
use super::*;
use proptest::prelude::*;

const WORK: u64 = 5_000;
const WAKE: u32 = 3_000;

fn vcpu(number: u32, halts: Vec<Halt>) -> VcpuHalts {
    VcpuHalts { vcpu: number, halts, ..VcpuHalts::default() }
}

/// Two vCPUs work in turns; each blocks while the other one wakes up and works.
fn in_turns(turns: u64) -> [VcpuHalts; 2] {
    let turn = WORK + u64::from(WAKE);
    [0, 1].map(|which| {
        let halts = (0..turns).map(|nth| {
            // It is woken `turn` after the other one, whose halt began then.
            let begin = (2 * nth + which) * turn;
            let woken_ns = Some(turn);
            let ns = turn + u64::from(WAKE);
            Halt { waker: Waker::Ipi, woken_ns, ..Halt::blocked(begin, ns) }
        });
        vcpu(which as u32, halts.collect())
    })
}

#[test]
fn who_polls_lets_the_other_one_wait_for_less() {
    let vcpus = in_turns(100);
    let vcpus: Vec<&VcpuHalts> = vcpus.iter().collect();
    let always = coupled(&vcpus, Rule::Fixed(20_000), WAKE);
    // The first halts of both come before either was polled for.
    assert_eq!((always.halts, always.blocks), (200, 0));
    assert!(always.polled_ns.abs_diff(200 * WORK) <= 2 * u64::from(WAKE), "{always:?}");
    let never = coupled(&vcpus, Rule::Fixed(0), WAKE);
    assert_eq!((never.blocks, never.halted_ns), (200, 200 * (WORK + 2 * u64::from(WAKE))));
    // What comes when it came would be polled for longer.
    let (_, alone) = replay(&vcpus[0].halts, Policy::new(Rule::Fixed(20_000)), WAKE);
    assert_eq!(alone.polled_ns, 100 * (WORK + u64::from(WAKE)));
}

fn halts(wakers: &'static [Waker]) -> impl Strategy<Value = Vec<Halt>> {
    let step = (0..50_000u64, 0..400_000u64, 0..wakers.len(), 0..5_000u64);
    prop::collection::vec(step, 0..100).prop_map(move |steps| {
        let mut now = 0;
        let halts = steps.into_iter().map(|(run, ns, waker, wake)| {
            let begin = now + run;
            now = begin + ns;
            let woken_ns = Some(ns.saturating_sub(wake));
            Halt { waker: wakers[waker], woken_ns, ..Halt::blocked(begin, ns) }
        });
        halts.collect()
    })
}

proptest! {
    #[test]
    fn who_waits_for_nobody_is_replayed_as_if_alone(
        one in halts(&[Waker::Timer, Waker::Device, Waker::Other, Waker::VirtualTick]),
        other in halts(&[Waker::Timer]),
        wake in 0..5_000u32,
    ) {
        let rule = Rule::Host(HostRule::DEFAULT);
        let (_, mut alone) = replay(&one, Policy::new(rule), wake);
        alone.merge(&replay(&other, Policy::new(rule), wake).1);
        prop_assert_eq!(coupled(&[&vcpu(0, one), &vcpu(1, other)], rule, wake), alone);
    }

    #[test]
    fn what_was_recorded_is_what_its_own_rule_does(
        all in prop::collection::vec(halts(&Waker::ALL), 1..4),
        wake in 0..5_000u32,
    ) {
        let vcpus: Vec<VcpuHalts> = (0..).zip(all).map(|(n, halts)| vcpu(n, halts)).collect();
        let vcpus: Vec<&VcpuHalts> = vcpus.iter().collect();
        let mut recorded = Tally::default();
        vcpus.iter().for_each(|vcpu| recorded.merge(&Tally::of(vcpu)));
        let again = coupled(&vcpus, Rule::Fixed(0), wake);
        prop_assert_eq!(
            (again.halts, again.blocks, again.halted_ns),
            (recorded.halts, recorded.blocks, recorded.halted_ns)
        );
    }

    #[test]
    fn a_recording_that_makes_no_sense_is_replayed_all_the_same(
        times in prop::collection::vec((0..2usize, 0..1_000u64, 0..1_000u64, 0..2_000u64), 0..100),
        scale in prop::sample::select(vec![1, u64::MAX / 1_000]),
    ) {
        let mut vcpus = [vcpu(0, vec![]), vcpu(1, vec![])];
        for (which, begin, ns, woken) in times {
            let woken_ns = Some(woken.saturating_mul(scale));
            let halt = Halt::blocked(begin * scale, ns * scale);
            vcpus[which].halts.push(Halt { waker: Waker::Ipi, woken_ns, ..halt });
        }
        let halts = vcpus.iter().map(|vcpu| vcpu.halts.len() as u64).sum::<u64>();
        let vcpus: Vec<&VcpuHalts> = vcpus.iter().collect();
        prop_assert!(coupled(&vcpus, Rule::Host(HostRule::DEFAULT), 100).halts <= halts);
    }
}
