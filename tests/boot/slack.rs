// SPDX-License-Identifier: GPL-2.0-only
//! A busy CPU's timers that may be late, or that are the tick's anyway, cost no exit.

use crate::{
    coalesce::all_late,
    halt_until::timer_caused,
    support::{busy_ticks, compile, host_spec, kernel, pair, row_of, sh, tools, PATIENCE},
};
use paratick_bench::{
    noise::Sides,
    wakeups::{record, Load},
};
use paratick_core::wakeups::{GuestWakeups, Timer, What};
use paratick_machine::{guest::Guest, host::Host};
use serde_json::json;
use std::time::Duration;

const TICKER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/slack-ticker");
const TICKER_C: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/idle/ticker.c");
const TIME: Duration = Duration::from_secs(2);
const MS: u64 = 1_000_000;
const TICK: u64 = 4 * MS;
const PERIOD: u64 = 20 * MS;

fn in_background(guest: &Guest, line: &str) {
    let line = format!("{line} </dev/null >/dev/null 2>&1 &");
    assert_eq!(guest.exec(sh(&line)).unwrap().code, 0);
}

/// Exits of a CPU that computes for a second: to arm and to stop its timer, and by its expiry.
fn by_timers(host: &Host, guest: &Guest) -> u64 {
    timer_caused(&busy_ticks(host, guest))
}

/// What the guest sees of it.
fn seen(host: &Host, guest: &Guest) -> GuestWakeups {
    let agent = tools().agent.display().to_string();
    let command = [agent.as_str(), "workload", "cpu", "--work", "1000000"].map(String::from);
    let load = Load { command: &command, ..Load::default() };
    let inside = Sides::GUEST;
    record(host, guest, inside, TIME, load, PATIENCE).unwrap().guest.unwrap()
}

fn expiries(woken: &GuestWakeups, of: impl Fn(&Timer) -> bool) -> usize {
    let expires = |what: &What| matches!(what, What::Expiry { timer, .. } if of(timer));
    woken.events.iter().filter(|event| expires(&event.what)).count()
}

/// Two periods of the tick are enough: one tick comes in that time.
#[test]
fn timers_with_slack_cost_a_busy_cpu_no_exit() {
    compile(TICKER_C, TICKER);
    let spec = host_spec(kernel(), 1, &[]);
    let mut exact = 0;
    for slack in [1, 9 * MS, 50 * MS] {
        let (host, guest) = pair(spec.clone(), kernel(), 1, "paratick", &[]);
        let alone = by_timers(&host, &guest);
        in_background(&guest, &format!("{TICKER} {PERIOD} {slack}"));
        let exits = by_timers(&host, &guest);
        let its = |timer: &Timer| {
            timer.process.as_ref().is_some_and(|process| process.name == "slack-ticker")
        };
        let woken = seen(&host, &guest);
        let (late, beyond) = all_late(&woken, its);
        let times = expiries(&woken, its);
        println!("{slack} ns: {alone}, {exits} exits; {times} expiries, {late} ns late");
        row_of(
            "slack",
            &[
                ("may be late by, ms", json!(slack / MS)),
                ("exits for timers without it", json!(alone)),
                ("with it", json!(exits)),
                ("was late by, ms", json!(late as f64 / MS as f64)),
            ],
        );
        assert!(beyond <= TICK / 4 && times >= 30, "{beyond}, {times}");
        let more = exits.saturating_sub(alone);
        if slack == 1 {
            assert!(more >= 40, "each arms a timer: {exits}");
            exact = more;
        } else {
            // Of the time before the work, when the CPU is idle, and after it.
            assert!(more * 5 <= exact, "{exits}");
        }
        guest.shutdown().unwrap();
    }
}

/// The sampler of the lab's kernel is a timer of the wheel.
#[test]
#[ignore = "1 minute"]
fn timers_of_the_wheel_cost_a_busy_cpu_no_exit() {
    let spec = host_spec(kernel(), 1, &[]);
    for class in ["deferrable", "rounded"] {
        let class = format!("lab_sampler.{class}=Y");
        let append = ["lab_sampler.period_us=20000", &class];
        let (host, guest) = pair(spec.clone(), kernel(), 1, "paratick", &append);
        let exits = by_timers(&host, &guest);
        let times = expiries(&seen(&host, &guest), |timer| timer.function == "lab_sampler_fn");
        println!("{class}: {exits} exits; {times} expiries");
        // As many as without it: the workload's own.
        assert!(exits <= 12 && times >= 1, "{exits}, {times}");
        guest.shutdown().unwrap();
    }
}
