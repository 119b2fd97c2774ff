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
            // It wakes up from `turn` after the other one's IPI until that of its own.
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

proptest! {
    #[test]
    fn who_waits_for_nobody_is_replayed_as_if_alone(
        steps in prop::collection::vec((0..50_000u64, 0..400_000u64, 0..4usize), 0..200),
        wake in 0..5_000u32,
    ) {
        let wakers = [Waker::Timer, Waker::Device, Waker::Other, Waker::VirtualTick];
        let mut now = 0;
        let halts = steps.into_iter().map(|(run, ns, waker)| {
            let begin = now + run;
            now = begin + ns;
            Halt { waker: wakers[waker], ..Halt::blocked(begin, ns) }
        });
        let one = vcpu(0, halts.collect());
        let rule = Rule::Host(HostRule::DEFAULT);
        let (_, alone) = replay(&one.halts, Policy::new(rule), wake);
        prop_assert_eq!(coupled(&[&one], rule, wake), alone);
    }
}
