// SPDX-License-Identifier: GPL-2.0-only
use super::{
    gather::Snapshot,
    raw::{Kind, Spent, Vcpu, BLOCKED, IN_GUEST, IN_KVM},
};
use paratick_core::{
    cause::{Cause, Facts},
    observed::Counted,
};
use std::collections::BTreeMap;

const ARM: u32 = Facts::MSR.0 | Facts::WRITE.0 | Facts::NONZERO.0;

fn kind(thread: u32, reason: u32, detail: u64, facts: u32) -> Kind {
    Kind { thread, tgid: 7, vcpu: thread - 70, isa: 2, reason, facts, detail }
}

fn kind_of(thread: &Vcpu) -> Kind {
    kind(70, thread.noted.reason, thread.noted.detail, thread.noted.facts)
}

fn spent(count: u64, kvm_ns: u64) -> Spent {
    let mut spent = Spent { count, kvm_ns, last_ns: 100 + count, ..Spent::default() };
    spent.took[3] = count;
    spent
}

/// A vCPU's thread that halts, after that many exits.
fn thread(exits: u64, state: u32) -> Vcpu {
    let mut thread = Vcpu { thread: 70, since_ns: 200, exits, state, ..Vcpu::default() };
    (thread.absence.tgid, thread.noted.isa, thread.noted.reason) = (7, 2, 0x78);
    thread.absence.kvm_ns = 5;
    thread
}

fn gather(threads: &[Vcpu], counts: &[(Kind, Spent)]) -> Counted {
    let mut snapshot = Snapshot::new(threads.to_vec(), BTreeMap::from([(0, 9), (7, 2)]), 1_200);
    counts.iter().for_each(|(kind, spent)| snapshot.add(kind, spent));
    let known = |kind: &Kind| counts.iter().any(|(known, _)| known == kind);
    snapshot.gather(known).remove(&7).unwrap()
}

fn count(counted: &Counted, cause: Cause) -> u64 {
    let those = counted.exits.iter().filter(|exits| exits.kind.cause == cause);
    those.map(|exits| exits.spent.count).sum()
}

#[test]
fn kinds_that_are_named_alike_are_one_and_threads_of_a_vcpu_too() {
    let mut moved = kind(80, 0x7c, 0x6e0, ARM);
    moved.vcpu = 0;
    let counts = [
        (kind(70, 0x7c, 0x6e0, ARM), spent(2, 20)),
        (kind(70, 0x7c, 0x6e0, ARM | Facts::IPI.0), spent(3, 30)),
        (moved, spent(4, 40)),
        (kind(71, 0x7c, 0x6e0, ARM), spent(5, 50)),
    ];
    let counted = gather(&[], &counts);
    let found: Vec<_> = counted.exits.iter().map(|e| (e.vcpu, e.spent.count)).collect();
    assert_eq!(found, [(0, 9), (1, 5)]);
    assert_eq!((counted.exits[0].spent.kvm_ns, counted.last_ns, counted.lost), (90, 105, 2));
    assert_eq!(counted.exits[0].spent.lengths, [0, 0, 0, 9]);
    assert_eq!(counted.exits[0].kind.words(), "TSC_DEADLINE");
}

#[test]
fn an_exit_that_has_not_ended_is_counted_once_and_up_to_now() {
    let counts = [(kind(70, 0x78, 0, 0), spent(4, 40))];
    let halted = gather(&[thread(5, BLOCKED)], &counts);
    assert_eq!(count(&halted, Cause::Halt), 5);
    let spent = &halted.exits[0].spent;
    assert_eq!((spent.kvm_ns, spent.blocked_ns, spent.lengths[3]), (45, 1_000, 4));
    // It ended between the two looks, or the guest runs.
    for (exits, state) in [(4, BLOCKED), (3, IN_KVM), (4, IN_GUEST)] {
        assert_eq!(count(&gather(&[thread(exits, state)], &counts), Cause::Halt), 4);
    }
    // One of five was lost, and the fifth is open.
    let lost = Vcpu { lost: 1, ..thread(5, IN_KVM) };
    let counts = [(kind(70, 0x78, 0, 0), super::tests::spent(3, 30))];
    assert_eq!(count(&gather(&[lost], &counts), Cause::Halt), 4);
}

/// Whoever has the number of one that has ended.
#[test]
fn what_a_thread_counted_ends_no_exit_of_another_one() {
    let counts = [(kind(70, 0x78, 0, 0), spent(4, 40))];
    let again = Vcpu { thread: 71, ..thread(1, BLOCKED) };
    assert_eq!(count(&gather(&[again], &counts), Cause::Halt), 5);
}

#[test]
fn what_a_vcpu_has_too_many_of_is_not_named_after_one() {
    let counted = gather(&[], &[(kind(70, 0x7c, 0, Facts::MANY.0), spent(1, 1))]);
    let kind = &counted.exits[0].kind;
    assert_eq!((kind.cause, kind.words()), (Cause::Other, "too many to keep apart"));
    let mut open = Vcpu { kinds: 512, ..thread(1, IN_KVM) };
    (open.noted.reason, open.noted.detail, open.noted.facts) = (0x7b, 0x1f0, Facts::PORT.0);
    assert_eq!(gather(&[open], &[]).exits[0].kind.cause, Cause::Other);
    let known = (Kind { vcpu: 0, ..kind_of(&open) }, spent(1, 1));
    assert_eq!(gather(&[Vcpu { exits: 2, ..open }], &[known]).exits[0].spent.count, 2);
}
