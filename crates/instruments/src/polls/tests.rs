// SPDX-License-Identifier: GPL-2.0-only

use super::{gather::*, raw::*, *};
use paratick_core::halts::{Halt, Traced, Waker};

const KNOWN: u32 = IDLE_MEASURED;

/// CPU 0 was in a state from `began_ns` on.
fn idled(state: u32, began_ns: u64, residency_ns: u64, flags: u32) -> Idling {
    Idling {
        state,
        began_ns,
        // Later than cpuidle measures it.
        ended_ns: began_ns + residency_ns + 300,
        residency_ns,
        limit_ns: 50_000,
        deadline_ns: u64::MAX,
        flags: flags | IDLE_MEASURED,
        ..Idling::default()
    }
}

fn read(records: &[Idling]) -> Vec<Halt> {
    let mut halts = gather(&Recorded { begun_ns: 1_000, ended_ns: 900_000, rule: None, records });
    assert_eq!((halts.window_ns, halts.vcpus.len()), (899_000, 1));
    halts.vcpus.remove(0).halts
}

#[test]
fn a_poll_that_was_enough_is_no_block() {
    let halts = read(&[idled(0, 2_000, 7_000, 0), idled(0, 20_000, 8_000, 0)]);
    assert_eq!(halts.len(), 2);
    let Halt { begin_ns, ns, polled_ns, waited, limit_ns, .. } = halts[0];
    assert_eq!((begin_ns, ns, polled_ns, waited), (1_000, 7_000, 7_000, false));
    assert_eq!((limit_ns, halts[0].deadline_ns), (Some(50_000), None));
}

#[test]
fn a_poll_that_was_not_enough_is_one_with_its_halt() {
    let poll = Idling { deadline_ns: 152_000, ..idled(0, 2_000, 50_100, IDLE_TIMED_OUT) };
    let halt = Idling { vector: 0xec, old: 50_000, new: 100_000, ..idled(1, 53_000, 99_000, 0) };
    let halts = read(&[poll, Idling { flags: KNOWN | IDLE_CHANGED, ..halt }]);
    assert_eq!(halts.len(), 1);
    let Halt { ns, polled_ns, waited, waker, .. } = halts[0];
    assert_eq!((ns, polled_ns, waited, waker), (149_100, 50_100, true, Waker::Timer));
    assert_eq!(halts[0].blocked_ns(), 99_000);
    assert_eq!(halts[0].traced, Some(Traced { old: 50_000, new: 100_000 }));
    assert_eq!(halts[0].deadline_ns, Some(150_000));
}

#[test]
fn a_halt_after_something_ran_is_one_of_its_own() {
    let poll = Idling { ran: 1, ..idled(0, 2_000, 50_100, IDLE_TIMED_OUT) };
    let halts = read(&[poll, idled(1, 80_000, 10_000, 0)]);
    assert_eq!(halts.iter().map(|halt| halt.waited).collect::<Vec<_>>(), [false, true]);
    assert_eq!((halts[1].polled_ns, halts[1].blocked_ns()), (0, 10_000));
}

#[test]
fn without_cpuidle_a_halt_is_as_long_as_its_tracepoints_say() {
    let halts = read(&[Idling { flags: 0, ..idled(1, 2_000, 0, 0) }]);
    let halts = (halts[0].ns, halts[0].limit_ns, halts[0].waited);
    // In state 0, too: it is the first that halts.
    assert_eq!(halts, (300, None, true));
    assert!(read(&[Idling { flags: 0, ..idled(0, 2_000, 0, 0) }])[0].waited);
}

#[test]
fn the_rule_is_the_governor_s_unless_it_learns() {
    let folder = std::env::temp_dir().join(format!("paratick-polls-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, value: &str| {
        fs::write(folder.join(format!("guest_halt_poll_{name}")), value).unwrap();
    };
    for (name, value) in [("ns", "200000\n"), ("grow", "2\n"), ("grow_start", "50000\n")] {
        write(name, value);
    }
    assert_eq!(rule_in(&folder), None);
    write("shrink", "2\n");
    write("allow_shrink", "Y\n");
    assert_eq!(rule_in(&folder), Some(Rule::Guest(GuestRule::DEFAULT)));
    write("learn", "Y\n");
    assert_eq!(rule_in(&folder), None);
    fs::remove_dir_all(folder).unwrap();
}
