// SPDX-License-Identifier: GPL-2.0-only
//! Windows of halts: one wake-up of a pCPU serves several guests, and no timer is later than its
//! window.

use crate::{
    halt_until::{compile_timers, late},
    series::said,
    support::{compile, host_spec, kernel, mode, pair, PATIENCE},
};
use paratick_bench::{
    noise::Sides,
    wakeups::{record, Load},
};
use paratick_core::{
    results::{self, Results, Sample},
    wakeups::{GuestWakeups, Late, Timer, What},
};
use std::{
    fs,
    process::{Command, Stdio},
    time::Duration,
};

const TICKER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/coalesce-ticker");
const TICKER_C: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/idle/ticker.c");
const STATE: &str = "/sys/devices/system/cpu/virtual_tick";
const MS: u64 = 1_000_000;
const TICK: u64 = 4 * MS;
/// Of the program's timers.
const PERIOD: u64 = 50 * MS;
const SLACK: u64 = 20 * MS;
/// An eighth of half a second, after which two timers of the wheel expire again and again, and of
/// what the wheel rounds that up by.
const WINDOW: u64 = (500 + 32) * MS / 8;

pub fn sample<'a>(results: &'a Results, load: &str, name: &str) -> &'a Sample {
    &results.cell(load, mode(name)).unwrap().samples()[0]
}

/// How many wake-ups the guests' pCPU has in a second.
pub fn wake_ups(sample: &Sample) -> f64 {
    sample.pcpus[1].wake_ups as f64 * 1e9 / sample.duration_ns.unwrap() as f64
}

#[test]
fn idle_guests_wake_their_pcpu_together() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Command::new(assert_cmd::cargo::cargo_bin("paratick"));
    bench.args(["bench", "idle", "--quick", "--guests", "2,8"]);
    bench.args(["--modes", "paratick,paratick+coalesce", "--kernel"]).arg(kernel());
    bench.arg("--output").arg(folder.path()).stdout(Stdio::null());
    assert_eq!(bench.status().unwrap().code(), Some(0));
    let all = [2, 8].map(|guests| {
        let file = folder.path().join(format!("idle-{guests}.json"));
        results::read(&fs::read_to_string(file).unwrap()).unwrap()
    });
    let [[few, many], [few_together, together]] = ["paratick", "paratick+coalesce"]
        .map(|name| [&all[0], &all[1]].map(|results| wake_ups(sample(results, "idle", name))));
    println!("{few} to {many}; {few_together} to {together}");
    // Of one run: 28 more, for 51.
    assert!((together - few_together) * 4.0 <= (many - few) * 3.0);
    let exits = |name| sample(&all[1], "idle", name).exits.as_ref().unwrap().total as f64;
    assert!(exits("paratick+coalesce") <= exits("paratick") * 1.1);
}

/// By how much each expiry of some timers was late, and by how much beyond what it allows without
/// windows.
pub fn all_late(guest: &GuestWakeups, of: impl Fn(&Timer) -> bool) -> (u64, u64) {
    let late = guest.events.iter().filter_map(|event| match &event.what {
        What::Expiry { timer, late: Some(late), .. } if of(timer) => Some(late),
        _ => None,
    });
    late.fold((0, 0), |(most, beyond), Late { ns, allowed_ns }| {
        assert!(*ns >= 0, "{ns}");
        let late = *ns as u64;
        (most.max(late), beyond.max(late.saturating_sub(allowed_ns.unwrap_or(0))))
    })
}

#[test]
fn no_timer_is_later_than_its_window() {
    compile_timers();
    compile(TICKER_C, TICKER);
    for vcpus in [1, 2] {
        in_windows(vcpus);
    }
}

fn in_windows(vcpus: u32) {
    let spec = host_spec(kernel(), 2, &[]);
    let (host, guest) = pair(spec, kernel(), vcpus, "paratick+coalesce", &[]);
    assert_eq!(said(&guest, &format!("cat {STATE}/halt_window")), "on");

    // Tasks of the real-time class allow nothing.
    let exact = late(&guest, "", "300 nanosleep");
    assert!(exact.most() * 1e3 <= TICK as f64);

    let command = [TICKER, &PERIOD.to_string(), &SLACK.to_string()].map(String::from);
    let recorded = |command: &[String]| {
        let load = Load { command, ..Load::default() };
        let side = Sides::GUEST;
        let time = Duration::from_secs(20);
        let recorded = record(&host, &guest, side, time, load, PATIENCE).unwrap();
        recorded.guest.expect("the guest's side")
    };
    let woken = recorded(&command);
    let named = |timer: &Timer, name| timer.process.as_ref().is_some_and(|of| of.name == name);
    let (most, beyond) = all_late(&woken, |timer| named(timer, "coalesce-ticker"));
    println!("slack: {most} ns late, {beyond} beyond");
    assert!(most > TICK && beyond <= TICK, "{most}, {beyond}");

    let wheel = |timer: &Timer| {
        named(timer, "kcompactd0") || timer.function.as_str() == "clocksource_watchdog"
    };
    let (most, beyond) = all_late(&woken, wheel);
    println!("timer wheel: {most} ns late, {beyond} beyond");
    // Whoever wakes up meanwhile has no more than twice the window of what is left to wait.
    assert!(beyond <= PERIOD / 4 + TICK, "{most}, {beyond}");

    let (most, beyond) = all_late(&recorded(&[]), wheel);
    println!("timer wheel of an idle guest: {most} ns late, {beyond} beyond");
    // Who waits for timers of others does not learn of all that are set: no windows then.
    let wanted = if vcpus == 1 { TICK + 1..=WINDOW + TICK } else { 0..=TICK };
    assert!(wanted.contains(&beyond), "{vcpus} vCPUs: {most}, {beyond}");
    guest.shutdown().unwrap();
}

#[test]
fn a_host_told_not_to_offers_no_windows() {
    let (host, guest) = pair(
        host_spec(kernel(), 2, &["kvm.halt_window=0"]),
        kernel(),
        2,
        "paratick",
        &["halt-window"],
    );
    let look = format!("cat {STATE}/halt_until_active; ls {STATE} | grep -c halt_window || true");
    assert_eq!(said(&guest, &look), "0-1\n0");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}
