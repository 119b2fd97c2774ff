// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use crate::{
    cause::Cause,
    noise::{ledger, Absence, Class, Disturbance, Gap, Instant, Kind, TscOffset},
};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const PROCESS: u32 = 7;
const STALLS: Stalls = Stalls { ns: 30_000, every_ns: 10_000_000 };
/// The guest booted so much later.
const LATER: u64 = 4_000_000;

/// A second of both; the guest's gaps, by its own clock, and the host's absences, by its.
fn recorded(gaps: &[(u64, u64)], absences: &[(u64, u64)]) -> (GuestNoise, HostNoise) {
    let clock = |begin: u64, ns: u64| Clock {
        begin: Instant { tsc: begin, ns },
        end: Instant { tsc: begin + SECOND, ns: ns + SECOND },
    };
    let gap = |&(begin_ns, ns): &(u64, u64)| Gap {
        cpu: 0,
        begin_ns,
        ns,
        written_ns: 0,
        interference: 0,
        disturbances: Vec::new(),
        told: None,
        stolen_ns: None,
    };
    let absence = |&(begin_ns, ns): &(u64, u64)| Absence {
        process: PROCESS,
        vcpu: 0,
        begin_ns,
        ns,
        kvm_ns: ns,
        vmm_ns: 0,
        blocked_ns: 0,
        waited_ns: 0,
        interrupted_ns: 0,
        cause: Cause::Other,
        reason: "any".into(),
        about: None,
        tick: false,
        class: Class::Light,
        exit_cpu: 1,
        entry_cpu: 1,
        held: false,
        audited: false,
        taker: None,
    };
    let guest = GuestNoise {
        clock: clock(0, 0),
        begin_ns: 0,
        end_ns: SECOND / 2,
        program: None,
        gaps: gaps.iter().map(gap).collect(),
    };
    let host = HostNoise::whole(
        clock(LATER, LATER),
        vec![TscOffset { process: PROCESS, vcpu: 0, offset: -(LATER as i64) }],
        absences.iter().map(absence).collect(),
    );
    (guest, host)
}

fn found(gaps: &[(u64, u64)], absences: &[(u64, u64)]) -> Found {
    let (guest, host) = recorded(gaps, absences);
    let book = ledger(&guest, Some((&host, PROCESS)));
    STALLS.found(&book, &guest, &host, PROCESS).unwrap()
}

/// On the guest's clock, the stall of that number after its boot.
fn stall(number: u64) -> u64 {
    number * STALLS.every_ns - LATER
}

#[test]
fn each_stall_is_found_missed_or_hidden() {
    let all: Vec<(u64, u64)> = (1..=50).map(|number| (stall(number) + 40, 30_100)).collect();
    let lengths = vec![30_100; 50];
    let every = found(&all, &[]);
    assert_eq!(every, Found { due: 50, lengths_ns: lengths, ..Found::default() });
    let none = found(&[], &[]);
    assert_eq!((none.due, none.missed), (50, 50));
    // By the host's clock.
    let hidden = found(&[], &[(STALLS.every_ns - 2_000, 40_000)]);
    assert_eq!((hidden.hidden, hidden.missed), (1, 49));
    let too_short = found(&[], &[(STALLS.every_ns - 2_000, 20_000)]);
    assert_eq!((too_short.hidden, too_short.missed), (0, 50));
    let other = found(&[(stall(2) + 5_000_000, 9_000)], &[]);
    assert_eq!((other.lengths_ns.len(), other.others, other.missed), (0, 1, 50));
}

/// osnoise takes it for the interrupt's.
#[test]
fn a_stall_in_an_interrupt_of_the_guest_makes_that_longer() {
    let (mut guest, host) = recorded(&[(stall(4) - 3_000, 35_000)], &[]);
    guest.gaps[0].interference = 1;
    guest.gaps[0].disturbances = vec![Disturbance {
        kind: Kind::Irq,
        name: "virtual_tick".into(),
        begin_ns: stall(4) - 2_500,
        end_ns: stall(4) + 31_500,
    }];
    let book = ledger(&guest, Some((&host, PROCESS)));
    let found = STALLS.found(&book, &guest, &host, PROCESS).unwrap();
    assert_eq!((found.hidden, found.missed, found.others), (1, 49, 0));
}

#[test]
fn a_gap_elsewhere_is_no_stall() {
    for off in [-40_000i64, 40_000] {
        let begin = stall(3).checked_add_signed(off).unwrap();
        let one = found(&[(begin, 30_100)], &[]);
        assert_eq!((one.lengths_ns.len(), one.others), (0, 1), "{off}");
    }
}

#[test]
fn what_are_no_stalls_is_refused() {
    let wrong = ["", "30us", "@", "30us@", "@10ms", "0us@10ms", "10ms@10ms", "30us@2s", "3@5"];
    for text in wrong {
        assert_eq!(text.parse::<Stalls>(), Err(BadStalls(text.into())), "{text:?}");
    }
}

proptest! {
    #[test]
    fn stalls_are_read_as_they_are_printed(ns in 1u64..1_000_000, more in 1u64..999_000_000) {
        let stalls = Stalls { ns, every_ns: ns + more };
        prop_assert_eq!(stalls.to_string().parse::<Stalls>(), Ok(stalls));
    }
}
