// SPDX-License-Identifier: GPL-2.0-only
//! Timers while everything else happens: loads, switches, CPUs that come and go.
//!
//! `make soak` sets PARATICK_SOAK_MINUTES: this goes on for as long, each time with other random
//! numbers.

use crate::support::{guest_on, kernel, sh, text, tools};
use paratick_core::size::Size;
use paratick_machine::{backend::EMULATED, guest::Guest, host::Host, snapshot, spec::HostSpec};
use std::{
    process::Command,
    time::{Duration, Instant},
};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/soak/soak.c");
const SOAK: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/soak");
const TICK_NS: u64 = 4_000_000;

/// How late timers came, in ns.
#[expect(dead_code, reason = "all of it is printed")]
#[derive(Debug, Default, Clone, Copy)]
struct Late {
    count: u64,
    half: u64,
    of_100: u64,
    of_1000: u64,
    of_10000: u64,
    most: u64,
}

impl Late {
    fn parse(line: &str) -> Late {
        let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let [count, half, of_100, of_1000, of_10000, most] = numbers[..] else {
            panic!("{line}");
        };
        Late { count, half, of_100, of_1000, of_10000, most }
    }
}

/// With the parallel clock.  Without it a CPU keeps its turn up to the next deadline, and timers of
/// the others are late by what it computes meanwhile: the more so the fewer deadlines there are.
fn boot_host(vcpus: u32) -> Host {
    let mut spec = HostSpec::for_guests(EMULATED, kernel(), vcpus, Size::mib(1024));
    spec.emulation.parallel_clock = true;
    snapshot::host(spec, &tools(), &mut |_| {}).unwrap()
}

fn compile() {
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-Wall", "-static", "-pthread", "-o", SOAK, PROGRAM]);
    assert!(gcc.status().expect("gcc").success());
}

/// In memory: no page of it comes over 9p in the middle.
fn soak(guest: &Guest, seconds: u32, seed: u32, what: &str) -> Late {
    let line = format!("cp {SOAK} /tmp/soak; exec /tmp/soak {seconds} {seed} {what}");
    let result = guest.exec(sh(&line)).unwrap();
    let (out, error) = (text(&result.stdout), text(&result.stderr));
    println!("{seconds} s, seed {seed}, {what}\n{out}{error}");
    assert_eq!(result.code, 0, "a timer is lost: {out}{error}");
    assert_eq!(error, "");
    let all = out.lines().find_map(|line| line.strip_prefix("all "));
    Late::parse(all.expect("a summary"))
}

/// One run in a guest of its own, whose console has to be clean.
fn in_guest(host: &Host, vcpus: u32, mode: &str, run: (u32, u32, &str)) -> Late {
    let guest = guest_on(host, kernel(), vcpus, mode, &[]);
    let late = soak(&guest, run.0, run.1, run.2);
    guest.shutdown().unwrap();
    println!("{mode}: {late:?}");
    late
}

/// The same load on today's kernel says what hotplug and the load do to timers.
fn compare(host: &Host, vcpus: u32, poll: &str, seconds: u32, seed: u32) -> (Late, Late) {
    let [tickless, paratick] = ["tickless", "paratick"].map(|mode| format!("{mode}{poll}"));
    let what = "load hotplug latency";
    let before = in_guest(host, vcpus, &tickless, (seconds, seed, what));
    let after = in_guest(host, vcpus, &paratick, (seconds, seed, &format!("{what} switch")));
    (before, after)
}

#[test]
#[ignore = "it takes minutes: make soak"]
fn no_timer_is_lost_or_late_by_a_tick_whatever_happens() {
    compile();
    let minutes = std::env::var("PARATICK_SOAK_MINUTES").unwrap_or("1".into());
    let end = Instant::now() + Duration::from_secs(60 * minutes.parse::<u64>().unwrap());
    let (mut before, mut after) = (Late::default(), Late::default());
    let mut seed = 1;
    while Instant::now() < end {
        let vcpus = 2 + seed % 3;
        let host = boot_host(vcpus);
        let poll = if seed % 4 == 0 { "+poll" } else { "" };
        let (one, other) = compare(&host, vcpus, poll, 6, seed);
        for (all, late) in [(&mut before, one), (&mut after, other)] {
            all.count += late.count;
            all.most = all.most.max(late.most);
            all.of_10000 = all.of_10000.max(late.of_10000);
        }
        host.shutdown().unwrap();
        println!("so far {before:?}, {after:?}");
        seed += 1;
    }
    assert!(before.count > 2000 && after.count > 2000, "{before:?}, {after:?}");
    // What hotplug and the load take, the same in either mode, is in it.
    assert!(after.most <= TICK_NS, "{before:?}, {after:?}");
}
