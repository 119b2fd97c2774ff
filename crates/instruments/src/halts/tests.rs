// SPDX-License-Identifier: GPL-2.0-only

use super::{gather::*, raw::*, *};
use crate::facts::raw::{MARKER_CLOSE, MARKER_OPEN};
use paratick_core::halts::{Halt, Maximum, Traced, Waker};

const VM: u32 = 40;

/// A halt of vCPU 0 that ended at `ended_ns` after `ns`.
fn halted(ended_ns: u64, ns: u64) -> Record {
    let flags = HALT_VALID;
    Record { kind: RECORD_HALT, tgid: VM, thread: 41, ended_ns, ns, flags, ..Record::default() }
}

fn mark(tgid: u32, at_ns: u64, what: u32) -> Record {
    Record { kind: RECORD_MARK, tgid, ended_ns: at_ns, vector: 7 << 8 | what, ..Record::default() }
}

fn read(records: &[Record]) -> Halts {
    gather(&Recorded { begun_ns: 1_000, ended_ns: 100_000, rule: None, records })
}

fn only(record: Record) -> Halt {
    let mut halts = read(&[record]);
    assert_eq!(halts.vcpus.len(), 1);
    halts.vcpus.remove(0).halts.remove(0)
}

#[test]
fn a_halt_has_its_length_its_poll_and_what_ended_it() {
    let halt = only(Record {
        flags: HALT_VALID | HALT_WAITED | HALT_CHANGED | HALT_DEADLINE,
        slept_at_ns: 42_000,
        woken_at_ns: 48_000,
        deadline_ns: 49_500,
        limit: 7_000, // not told: no flag says so
        old: 10_000,
        new: 20_000,
        vector: 0xec,
        switches: 1,
        ..halted(50_000, 10_000)
    });
    assert_eq!((halt.begin_ns, halt.ns, halt.polled_ns), (39_000, 10_000, 2_000));
    assert!(halt.waited && halt.valid);
    assert_eq!(halt.traced, Some(Traced { old: 10_000, new: 20_000 }));
    assert_eq!((halt.waker, halt.deadline_ns), (Waker::Timer, Some(9_500)));
    assert_eq!((halt.woken_ns, halt.limit_ns), (Some(8_000), None));
}

#[test]
fn a_limit_that_was_told_is_known_without_a_rule() {
    let flags = HALT_VALID | HALT_WAITED | HALT_LIMIT;
    let slept_at_ns = 42_000;
    let halt = only(Record { flags, slept_at_ns, limit: 1_500, ..halted(50_000, 10_000) });
    assert_eq!((halt.limit_ns, halt.polled_ns), (Some(1_500), 1_500));
}

#[test]
fn one_that_did_not_wait_was_polled_all_the_time() {
    let halt = only(halted(50_000, 3_000));
    assert_eq!((halt.polled_ns, halt.waited, halt.traced), (3_000, false, None));
    assert_eq!(halt.woken_ns, None);
    assert_eq!(halt.waker, Waker::Unknown);
}

#[test]
fn interrupts_are_told_apart_by_their_vectors() {
    let wakers = [(0xee, Waker::VirtualTick), (0xfd, Waker::Ipi), (0x24, Waker::Device)];
    for (vector, waker) in wakers.into_iter().chain([(0xf3, Waker::Other)]) {
        assert_eq!(only(Record { vector, ..halted(5_000, 10) }).waker, waker);
    }
}

#[test]
fn of_a_guest_that_is_not_linux_only_the_timer_is_known() {
    let woken = |nth: u64, vector, deadline_ns| Record {
        vector,
        deadline_ns,
        flags: HALT_VALID | HALT_WAITED | HALT_DEADLINE,
        slept_at_ns: nth * 1_000_000 - 9_000,
        ..halted(nth * 1_000_000, 10_000)
    };
    let by_timer = |vector| (1..7).map(move |nth| woken(nth, vector, nth * 1_000_000 - 500));
    let others = [(0xd1, 9), (0x2f, 10), (0xfd, 11), (0, 12)];
    let all = |timer| -> Vec<Record> {
        let others = others.iter().map(|(vector, nth)| woken(*nth, *vector, nth * 1_000_000 + 1));
        by_timer(timer).chain(others).collect()
    };
    let wakers = |timer| {
        let read = read(&all(timer));
        read.vcpus[0].halts.iter().map(|halt| halt.waker).collect::<Vec<_>>()
    };
    let windows = wakers(0xd1);
    assert_eq!(windows[..7], [Waker::Timer; 7]);
    assert_eq!(windows[7..], [Waker::Other, Waker::Other, Waker::Unknown]);
    let linux = wakers(0xec);
    assert_eq!(linux[6..], [Waker::Device, Waker::Device, Waker::Ipi, Waker::Unknown]);
}

#[test]
fn where_a_window_was_marked_only_its_halts_count() {
    let records = [
        halted(9_000, 10),
        mark(VM, 10_000, MARKER_OPEN),
        halted(11_000, 500),
        mark(VM, 12_000, MARKER_CLOSE),
        halted(13_000, 10),
        Record { tgid: 50, ..halted(11_500, 10) },
    ];
    let halts = read(&records);
    assert_eq!((halts.window_ns, halts.vcpus.len()), (2_000, 1));
    assert_eq!(halts.vcpus[0].halts.len(), 1);
    assert_eq!(halts.vcpus[0].halts[0].begin_ns, 500);
    assert_eq!(read(&[records[0], records[5]]).vcpus.len(), 2);
}

#[test]
fn vcpus_of_several_guests_are_kept_apart() {
    let other = Record { tgid: 50, ..halted(2_000, 10) };
    let second = Record { vcpu: 1, ..halted(3_000, 10) };
    let halts = read(&[halted(1_500, 10), other, second, halted(4_000, 10)]);
    let found: Vec<_> =
        halts.vcpus.iter().map(|vcpu| (vcpu.process, vcpu.vcpu, vcpu.halts.len())).collect();
    assert_eq!(found, [(Some(VM), 0, 2), (Some(VM), 1, 1), (Some(50), 0, 1)]);
}

#[test]
fn each_vm_has_the_maximum_that_was_read_of_it() {
    let read = |tgid, flags, maximum, at| Record {
        tgid,
        flags: HALT_VALID | flags,
        maximum,
        ..halted(at, 10)
    };
    let (module, own) = (HALT_MAXIMUM, HALT_MAXIMUM | HALT_OWN);
    let records = [
        // Before its first entry nothing is read.
        read(40, 0, 0, 2_000),
        read(40, own, 50_000, 3_000),
        Record { vcpu: 1, ..read(40, own, 50_000, 4_000) },
        read(50, module, 7, 2_000),
        read(50, module, 8, 3_000),
        read(60, own, 50_000, 2_000),
        read(60, own, 60_000, 3_000),
        read(70, module, 0, 2_000),
        read(70, own, 0, 3_000),
    ];
    let rule = Some(Rule::Host(HostRule::DEFAULT));
    let halts = gather(&Recorded { begun_ns: 1_000, ended_ns: 100_000, rule, records: &records });
    let found: Vec<_> = halts.vcpus.iter().map(|vcpu| (vcpu.maximum, vcpu.rule)).collect();
    // What changed meanwhile is no rule.
    let changed = (Maximum::Unknown, None);
    let first = (Maximum::Own(50_000), rule);
    assert_eq!(found, [first, first, (Maximum::Module, rule), changed, changed]);
    let max = |vcpu: usize| halts.vcpus[vcpu].in_force().map(Rule::max);
    assert_eq!([max(0), max(2), max(3)], [Some(50_000), Some(200_000), None]);
}

#[test]
fn where_no_maximum_was_read_the_trace_of_all_vcpus_tells_it() {
    let grown =
        Record { flags: HALT_VALID | HALT_CHANGED, new: 10_000, ..halted(900_000, 250_000) };
    let records = [grown, Record { vcpu: 1, ..halted(950_000, 10) }];
    let rule = Some(Rule::Host(HostRule::DEFAULT));
    let of = |rule| gather(&Recorded { begun_ns: 1, ended_ns: 1_000_000, rule, records: &records });
    let traced = Maximum::Traced { least: 250_001, most: None };
    assert!(of(rule).vcpus.iter().all(|vcpu| vcpu.maximum == traced));
    assert!(of(None).vcpus.iter().all(|vcpu| vcpu.maximum == Maximum::Unknown));
}

#[test]
fn who_sent_an_ipi_is_known_if_the_halt_slept() {
    let flags = HALT_VALID | HALT_WAITED;
    let woken =
        |by: u64| Record { flags, woken_by: by, woken_at_ns: 4_900, ..halted(5_000, 1_000) };
    let by = |record: Record, vector: u32| {
        let other = Record { thread: 42, vcpu: 1, ..halted(6_000, 10) };
        read(&[Record { vector, ..record }, other]).vcpus[0].halts[0].sender
    };
    assert_eq!(by(woken(42), 0xfd), Some(1));
    // A thread that is no vCPU's, an interrupt that is no IPI, a halt that was polled.
    assert_eq!((by(woken(43), 0xfd), by(woken(42), 0xec)), (None, None));
    assert_eq!(by(Record { flags: HALT_VALID, ..woken(42) }, 0xfd), None);
}

#[test]
fn the_rule_is_known_with_all_of_its_parameters_only() {
    let folder = std::env::temp_dir().join(format!("paratick-rule-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, value: &str| fs::write(folder.join(name), value).unwrap();
    write("halt_poll_ns", "200000\n");
    write("halt_poll_ns_grow", "2\n");
    write("halt_poll_ns_grow_start", "10000\n");
    assert_eq!(rule_in(&folder), None);
    write("halt_poll_ns_shrink", "0\n");
    let stock =
        HostRule { max: 200_000, grow: 2, grow_start: 10_000, shrink: 0, floor: Floor::ToZero };
    assert_eq!(rule_in(&folder), Some(Rule::Host(stock)));
    write("halt_poll_floor", "2\n");
    let floor = Floor::At(10_000);
    assert_eq!(rule_in(&folder), Some(Rule::Host(HostRule { floor, ..stock })));
    // What learns does not grow or shrink.
    write("halt_poll_cost_ns", "7000\n");
    write("halt_poll_learn", "N\n");
    assert_eq!(rule_in(&folder), Some(Rule::Host(HostRule { floor, ..stock })));
    write("halt_poll_learn", "Y\n");
    let learned = LearnedRule { max: 200_000, cost: 7_000 };
    assert_eq!(rule_in(&folder), Some(Rule::Learned(learned)));
    fs::remove_dir_all(folder).unwrap();
}
