// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use crate::{
    latency::{Sampler, Step},
    noise::{Clock, Instant, TscOffset},
};
use proptest::prelude::*;

const VMM: u32 = 5;

fn clock() -> Clock {
    let at = |ns| Instant { tsc: ns, ns };
    Clock { begin: at(0), end: at(1_000_000_000) }
}

fn host(steps: impl IntoIterator<Item = (u64, What)>) -> HostSteps {
    let step = |(at_ns, what)| Step { process: VMM, vcpu: 0, at_ns, what };
    HostSteps {
        clock: clock(),
        tsc_offsets: vec![TscOffset { process: VMM, vcpu: 0, offset: 0 }],
        steps: steps.into_iter().map(step).collect(),
    }
}

fn entry(cause: Cause) -> What {
    What::Entry { cause, reason: cause.to_string() }
}

/// Due at 100 µs.
fn due(irq_began_us: u64, irq_us: u64, thread_us: u64) -> GuestLatency {
    let activation = Activation {
        cpu: 0,
        number: 1,
        deadline_ns: 100_000,
        irq_began_ns: irq_began_us * 1_000,
        via: Via::LocalTimer,
        irq_ns: irq_us * 1_000,
        thread_ns: thread_us * 1_000,
    };
    GuestLatency {
        sampler: Sampler::Timerlat,
        clock: clock(),
        begin_ns: 0,
        end_ns: 1_000_000,
        activations: vec![activation],
        unseen: Vec::new(),
    }
}

/// In µs, and what exits are among them.
fn one(guest: &GuestLatency, steps: Vec<(u64, What)>) -> ([u64; 8], Vec<Cause>, Split) {
    let steps = steps.into_iter().map(|(us, what)| (us * 1_000, what));
    let split = splits(guest, Some((&host(steps), VMM))).remove(0);
    assert_eq!(split.parts.until_irq(), split.irq_ns);
    assert_eq!(split.parts.sum(), split.thread_ns);
    let causes = split.exits.iter().map(|exit| exit.cause).collect();
    (split.parts.all().map(|ns| ns / 1_000), causes, split)
}

#[test]
fn a_halted_vcpu_is_woken_by_its_timer() {
    let (parts, exits, split) = one(
        &due(115, 17, 30),
        vec![
            (40, What::Exit),
            (45, What::Out),
            (103, What::Timer),
            (104, What::Woken),
            (108, What::Runs),
            (113, entry(Cause::Halt)),
            (118, What::Exit),
            (122, entry(Cause::Arm)),
        ],
    );
    assert_eq!(parts, [3, 5, 5, 2, 2, 0, 9, 4]);
    assert_eq!(exits, [Cause::Arm]);
    assert!(split.host_timer && !split.doubtful);
}

#[test]
fn a_busy_vcpu_needs_no_wake_up() {
    let (parts, ..) = one(
        &due(108, 10, 12),
        vec![(101, What::Exit), (103, What::Timer), (106, entry(Cause::Expiry))],
    );
    assert_eq!(parts, [3, 0, 3, 2, 2, 0, 2, 0]);
}

/// Another task has its pCPU; the timer expires meanwhile.
#[test]
fn a_preempted_vcpu_waits_for_its_pcpu() {
    let (parts, ..) = one(
        &due(160, 61, 62),
        vec![
            (80, What::Exit),
            (82, What::Out),
            (101, What::Timer),
            (150, What::Runs),
            (155, entry(Cause::HostTick)),
        ],
    );
    assert_eq!(parts, [1, 49, 5, 5, 1, 0, 1, 0]);
}

/// What carries the deadline is no timer of KVM's: the exit is the first that the host sees of it.
#[test]
fn without_a_timer_the_exit_counts() {
    let (parts, _, split) =
        one(&due(108, 10, 12), vec![(104, What::Exit), (106, entry(Cause::HostTick))]);
    assert_eq!(parts, [4, 0, 2, 2, 2, 0, 2, 0]);
    assert!(!split.host_timer);
    // Blocked, and woken for something else.
    let (parts, ..) = one(
        &due(120, 21, 22),
        vec![
            (40, What::Exit),
            (45, What::Out),
            (110, What::Woken),
            (112, What::Runs),
            (115, entry(Cause::Halt)),
        ],
    );
    assert_eq!(parts, [10, 2, 3, 5, 1, 0, 1, 0]);
    // In KVM all the time: it polls before it blocks.
    let (parts, ..) = one(&due(105, 6, 7), vec![(40, What::Exit), (103, entry(Cause::Halt))]);
    assert_eq!(parts, [0, 0, 3, 2, 1, 0, 1, 0]);
    // Not out of its guest at all.
    let (parts, ..) = one(&due(105, 6, 7), vec![(40, What::Exit), (50, entry(Cause::Halt))]);
    assert_eq!(parts, [0, 0, 0, 5, 1, 0, 1, 0]);
}

#[test]
fn an_exit_on_the_way_to_the_handler_is_no_injection() {
    let (parts, exits, _) = one(
        &due(120, 30, 40),
        vec![
            (90, What::Exit),
            (102, What::Timer),
            (104, entry(Cause::Io)),
            (106, What::Exit),
            (109, entry(Cause::Ipi)),
            (124, What::Exit),
            (126, entry(Cause::Arm)),
        ],
    );
    assert_eq!(parts, [2, 0, 2, 13, 8, 5, 10, 0]);
    assert_eq!(exits, [Cause::Ipi, Cause::Arm]);
}

#[test]
fn a_timer_that_expires_early_is_not_late() {
    let steps = vec![(97, What::Exit), (98, What::Timer), (101, entry(Cause::Expiry))];
    let (parts, _, split) = one(&due(103, 4, 5), steps);
    assert_eq!((parts, split.host_timer), ([0, 0, 1, 2, 1, 0, 1, 0], true));
}

#[test]
fn clocks_that_contradict_each_other_are_told() {
    let steps = vec![(101, What::Exit), (103, What::Timer), (112, entry(Cause::Expiry))];
    let (_, _, split) = one(&due(105, 20, 21), steps);
    assert!(split.doubtful);
}

#[test]
fn without_a_host_all_is_the_guest_s() {
    let split = splits(&due(108, 10, 12), None).remove(0);
    assert_eq!(split.parts.all().map(|ns| ns / 1_000), [0, 0, 0, 8, 2, 0, 2, 0]);
    // Nor with one that does not know the vCPU.
    let mut other = host([(101_000, What::Exit)]);
    other.tsc_offsets.clear();
    assert_eq!(splits(&due(108, 10, 12), Some((&other, VMM))), [split]);
}

fn what() -> impl Strategy<Value = What> {
    prop_oneof![
        Just(What::Exit),
        Just(What::Timer),
        Just(What::Out),
        Just(What::Woken),
        Just(What::Runs),
        Just(entry(Cause::Arm)),
    ]
}

proptest! {
    /// Whatever was recorded, in whatever order, and however the clocks are off.
    #[test]
    fn parts_add_up_to_timerlat_s_numbers(
        steps in prop::collection::vec((0u64..400, what()), 0..40),
        offset in -50i64..50,
        irq_began in 0u64..400,
        irq in 0u64..200,
        more in 0u64..200,
        deadline in 0u64..300,
    ) {
        let mut guest = due(0, 0, 0);
        let activation = &mut guest.activations[0];
        activation.deadline_ns = deadline;
        activation.irq_began_ns = irq_began;
        activation.irq_ns = irq;
        activation.thread_ns = irq + more;
        let mut seen = host(steps);
        seen.tsc_offsets[0].offset = offset;
        let split = splits(&guest, Some((&seen, VMM))).remove(0);
        prop_assert_eq!(split.parts.until_irq(), irq);
        prop_assert_eq!(split.parts.sum(), irq + more);
        let exits: u64 = split.exits.iter().map(|exit| exit.ns).sum();
        prop_assert_eq!(exits, split.parts.irq_exits + split.parts.thread_exits);
    }
}
