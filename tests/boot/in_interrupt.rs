// SPDX-License-Identifier: GPL-2.0-only
//! Timers that are set where no task is about to run, and nobody but the mode `paratick` itself
//! sees that they cannot wait for the next tick.

use crate::support::{compile, host_spec, kernel, pair, parallel_spec, sh, text};
use paratick_machine::guest::Guest;
use std::collections::BTreeMap;

const LATE_SOURCE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/in_interrupt/late.c");
const LATE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/late");
const KSOFTIRQD_SOURCE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/in_interrupt/ksoftirqd.c");
const KSOFTIRQD: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/ksoftirqd");

/// The answers of the file server come to CPU 1, which polls for up to a millisecond; the tasks
/// that they wake, and their timers, stay where they are.
const POLL: &str = "
    for irq in $(sed -n 's/^ *\\([0-9]*\\):.*-requests$/\\1/p' /proc/interrupts); do
        echo 2 >/proc/irq/$irq/smp_affinity
    done
    echo 0 >/proc/sys/kernel/timer_migration
    echo NO_TTWU_QUEUE >/sys/kernel/debug/sched/features
    echo 1000000 >/sys/module/haltpoll/parameters/guest_halt_poll_ns
    echo 1000000 >/sys/module/haltpoll/parameters/guest_halt_poll_cost_ns";
/// A pass of ksoftirqd ends before long, and so do those of tasks.
const SMALL_PASSES: &str = "
    echo 8 >/proc/sys/net/core/netdev_budget
    echo 8 >/proc/sys/net/core/dev_weight";

/// Late by more than that, in us, is a timer that nobody looked after.
const LATE_US: f64 = 100.0;

/// Runs a program for some ms, and tells by how many us those timers of tasks with deadlines are
/// late that are set where `counts` says so.  It gets the event `hrtimer_start`, and in which
/// context that was: `h` for a hard interrupt, `H` for one in a softirq, `s` for a softirq.
fn late(
    guest: &Guest,
    before: &str,
    program: &str,
    ms: u32,
    counts: impl Fn(&str, u8) -> bool,
) -> Vec<f64> {
    // What is read for the first time comes by two levels of 9p.
    let line = format!(
        "set -e; {before}
        {program} 20
        cd /sys/kernel/tracing; echo 8192 >buffer_size_kb
        echo 1 >events/timer/hrtimer_start/enable
        echo 1 >events/timer/hrtimer_expire_entry/enable
        {program} {ms}
        echo 0 >tracing_on; grep dl_task_timer trace"
    );
    let said = guest.exec(sh(&line)).unwrap();
    assert_eq!(said.code, 0, "{}", text(&said.stderr));
    let mut set = BTreeMap::new();
    let mut late = vec![];
    for line in text(&said.stdout).lines() {
        let after = |name: &str| line.split_once(name)?.1.split_whitespace().next();
        let number = |name: &str| after(name).and_then(|word| word.parse::<f64>().ok());
        let timer = after(" hrtimer=").unwrap().to_owned();
        if let Some(now) = number(" now=") {
            late.extend(set.remove(&timer).map(|expires| (now - expires) / 1e3));
            continue;
        }
        set.remove(&timer);
        // `TASK-PID [CPU] d.h2. …`
        let context = after("] ").map(|flags| flags.as_bytes()[2]);
        if counts(line, context.unwrap()) {
            set.insert(timer, number(" expires=").unwrap());
        }
    }
    late.sort_by(f64::total_cmp);
    late
}

fn check(late: &[f64]) {
    println!("{} timers, late by {late:.0?} µs", late.len());
    assert!(late.len() >= 20, "{late:?}");
    assert!(late.iter().all(|us| *us <= LATE_US), "{late:.1?}");
}

#[test]
fn timers_of_an_interrupt_end_the_poll_of_the_idle_cpu() {
    compile(LATE_SOURCE, LATE);
    let (host, guest) = pair(parallel_spec(2), kernel(), 2, "paratick", &[]);
    let late = late(&guest, POLL, &format!("{LATE} polls"), 1000, |line, context| {
        line.contains("<idle>-0") && line.contains("[001]") && context == b'h'
    });
    check(&late);
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

#[test]
fn timers_of_an_interrupt_do_not_wait_for_a_task_that_is_to_be_switched_from() {
    compile(LATE_SOURCE, LATE);
    let (host, guest) = pair(host_spec(kernel(), 1, &[]), kernel(), 1, "paratick", &[]);
    let late = late(&guest, "", &format!("{LATE} kernel"), 5000, |line, context| {
        !line.contains("<idle>-0") && matches!(context, b'h' | b'H')
    });
    check(&late);
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

#[test]
fn timers_that_ksoftirqd_sets_do_not_wait_until_it_has_nothing_to_do() {
    compile(KSOFTIRQD_SOURCE, KSOFTIRQD);
    let (host, guest) = pair(host_spec(kernel(), 1, &[]), kernel(), 1, "paratick", &[]);
    let late = late(&guest, SMALL_PASSES, KSOFTIRQD, 500, |line, context| {
        line.contains("ksoftirqd/0-") && context == b's'
    });
    check(&late);
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}
