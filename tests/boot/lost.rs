// SPDX-License-Identifier: GPL-2.0-only
//! Virtual ticks that stop to come where a CPU looks for them least: while it idles by polling,
//! and right after a long halt; and what a resume makes of a CPU that has given up its ticks.

use crate::support::{compile, host_spec, kernel, pair, sh, text};
use crate::transitions::{functions, KEEP_DELIVERY_STOPPED};
use paratick_machine::guest::Guest;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/lost/lost.c");
const LOST: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/lost");

/// 50 ticks.
const NOTICED_MS: u64 = 200;

fn lost(guest: &Guest, before: &str, what: &str) -> Vec<String> {
    let line = format!("{}{before}\ncp {LOST} /tmp/lost && exec /tmp/lost {what}", functions());
    let result = guest.exec(sh(&line)).unwrap();
    let (out, error) = (text(&result.stdout), text(&result.stderr));
    println!("{what}: {out}{error}");
    assert_eq!(result.code, 0, "{error}");
    out.lines().map(str::to_string).collect()
}

fn numbers(lines: &[String]) -> Vec<u64> {
    lines.iter().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn a_cpu_that_idles_by_polling_for_good_notices_that_its_ticks_are_lost() {
    compile(PROGRAM, LOST);
    // Nothing else may set timers there.
    let append = ["nowatchdog", "msr.allow_writes=on"];
    for mode in ["paratick+poll", "paratick-ticks+poll"] {
        let (host, guest) = pair(host_spec(kernel(), 1, &[]), kernel(), 1, mode, &append);
        let waits = numbers(&lost(&guest, "", "polls"));
        let (before, after) = waits.split_at(3);
        assert!(before.iter().all(|ms| (100..140).contains(ms)), "{mode}: {before:?}");
        let most = 140 + NOTICED_MS;
        assert!(after.iter().all(|ms| (100..most).contains(ms)), "{mode}: {after:?}");
        assert!(after[2..].iter().all(|ms| *ms < 140), "{mode}: {after:?}");
        guest.shutdown().unwrap();
        host.shutdown().unwrap();
    }
}

/// Before its fifth tick after the halt it may take so long; something else mostly finds out first.
#[test]
fn a_cpu_that_loses_its_ticks_after_a_long_halt_notices_within_four_seconds() {
    compile(PROGRAM, LOST);
    let append = ["nowatchdog", "msr.allow_writes=on"];
    let (host, guest) = pair(host_spec(kernel(), 2, &[]), kernel(), 2, "paratick", &append);
    // The fair server's timers would notice sooner.
    let quiet = "for n in 0 1; do echo 0 >/sys/kernel/debug/sched/fair_server/cpu$n/runtime; done";
    let noticed = numbers(&lost(&guest, quiet, "computes"))[0];
    assert!(noticed <= 4000 + NOTICED_MS, "{noticed}");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// A warning on the guest's console, such as one of a clock that is read too early, is an error.
#[test]
fn a_suspend_takes_no_ticks_and_gives_back_those_that_were_given_up() {
    compile(PROGRAM, LOST);
    for before in ["", KEEP_DELIVERY_STOPPED] {
        let append = ["msr.allow_writes=on"];
        let (_host, guest) = pair(host_spec(kernel(), 2, &[]), kernel(), 2, "paratick", &append);
        // The root of the guest, by 9p, is gone after that.
        let said = lost(&guest, before, "suspend");
        let after = &said[said.len() - 4..];
        assert_eq!(after[..2], ["0-1", "0-1"]);
        let half_a_second = 118..=132;
        assert!(numbers(&after[2..]).iter().all(|ticks| half_a_second.contains(ticks)));
    }
}
