// SPDX-License-Identifier: GPL-2.0-only
//! The paper's own algorithm, `paratick-paper`: it does what the paper says, and what a guest
//! loses by that, beside `paratick-ticks`.

use crate::{
    series::{active, said, PROMISED},
    support::{busy_ticks, compile, host_spec, kernel, pair, sh, text, workload, Measured},
};
use paratick_machine::{guest::Guest, host::Host};
use serde_json::json;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/paper/starve.c");
const STARVE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/starve");
/// A CPU of the host whose tick stops while a vCPU runs there.
const TICKLESS_HOST: [&str; 2] = ["nohz_full=1", "isolcpus=1"];
const MODES: [&str; 2] = ["paratick-paper", "paratick-ticks"];

const WITH_TICKS: &str = "computes for 1 s, on a host with ticks";
const WITHOUT_TICKS: &str = "computes for 1 s, on a `nohz_full` CPU";

fn boot(mode: &str, host: &[&str]) -> (Host, Guest) {
    compile(PROGRAM, STARVE);
    pair(host_spec(kernel(), 1, host), kernel(), 1, mode, &[])
}

/// From memory: nothing comes over 9p while it runs.
fn starve(guest: &Guest, what: &str) -> Vec<u64> {
    let line = format!("cp {STARVE} /tmp/starve && exec /tmp/starve {what}");
    let result = guest.exec(sh(&line)).unwrap();
    let (out, error) = (text(&result.stdout), text(&result.stderr));
    assert_eq!(result.code, 0, "{error}");
    println!("{what}: {}", out.trim().replace('\n', " "));
    out.lines().map(|line| line.parse().unwrap()).collect()
}

/// Timer interrupts that the host has taken for ticks.
fn taken(host: &Host) -> u64 {
    let read = host.exec(sh("cat /sys/kernel/debug/kvm/*/pv_tick_taken")).unwrap();
    text(&read.stdout).trim().parse().unwrap()
}

/// Ticks that came, in percent of those that a time is worth.
fn percent(measured: &Measured, time: &str) -> f64 {
    measured.report("virtual_ticks") as f64 * 4e8 / measured.report(time) as f64
}

/// A row of docs/evaluation/tables/paper-starves.json, which `docs/evaluation/runs.py` collects.
fn row(guest: &str, mode: &str, what: &str, value: f64) {
    let value = (value * 10.0).round() / 10.0;
    println!(
        "row of paper-starves: {}",
        json!({ "guest": guest, "mode": mode, "what": what, "value": value })
    );
}

/// What a guest has of its time.
fn time_of(guest: &str, mode: &str, time: &str, measured: &Measured) {
    // Of a hundredth of a second each.
    let busy = (measured.report("cpu_user_ticks") + measured.report("cpu_system_ticks")) as f64;
    row(guest, mode, "ticks that come, %", percent(measured, time));
    row(guest, mode, "time in `/proc/stat`, %", busy * 1e9 / measured.report(time) as f64);
}

/// And of a vCPU that computes.
fn computed(host: &Host, guest: &Guest, mode: &str, what: &str) -> Measured {
    let measured = busy_ticks(host, guest);
    time_of(what, mode, "duration_ns", &measured);
    row(what, mode, "jiffies are late by, ms at most", measured.report("max_lag_ns") as f64 / 1e6);
    row(what, mode, "exits", measured.exits as f64);
    measured
}

#[test]
fn the_papers_ticks_come_with_any_entry_and_with_nothing_else() {
    // Here each tick of the host is an entry.
    let [papers, ours] = MODES;
    let (host, guest) = boot(ours, &[]);
    computed(&host, &guest, ours, WITH_TICKS);
    guest.shutdown().unwrap();

    let (host, guest) = boot(papers, &[]);
    assert_eq!(active(&guest), "0");
    let alone = computed(&host, &guest, papers, WITH_TICKS);
    let came = percent(&alone, "duration_ns");
    println!("of a vCPU that computes: {came:.0} % of the ticks");
    assert!((40.0..=101.0).contains(&came), "{alone:?}");
    // One entry in each half millisecond: no tick waits for longer than that.
    let exits = starve(&guest, "exits")[0];
    assert!((200..=250).contains(&exits), "{exits}");
    guest.shutdown().unwrap();

    // And here there is none, but where the guest has an exit of its own.
    let (host, guest) = boot(papers, &TICKLESS_HOST);
    let starved = computed(&host, &guest, papers, WITHOUT_TICKS);
    println!("without ticks of the host: {:.1} %", percent(&starved, "duration_ns"));
    assert!(starved.report("virtual_ticks") < 25, "{starved:?}");
    // Nobody notices.
    assert_eq!(active(&guest), "0");
    let exits = starve(&guest, "exits")[0];
    assert!((200..=250).contains(&exits), "{exits}");
    guest.shutdown().unwrap();

    // Ours has a timer of its own there.
    let (host, guest) = boot(ours, &TICKLESS_HOST);
    let ours = computed(&host, &guest, ours, WITHOUT_TICKS);
    assert!(PROMISED.contains(&ours.report("virtual_ticks")), "{ours:?}");
    guest.shutdown().unwrap();
}

#[test]
fn a_pending_timer_takes_the_place_of_the_papers_tick() {
    for mode in MODES {
        let papers = mode == "paratick-paper";
        let (host, guest) = boot(mode, &[]);
        let before = taken(&host);
        let timer = workload(&host, &guest, "itimer", &["--work", "250"]);
        let (came, alarms) = (percent(&timer, "duration_ns"), timer.report("alarms"));
        let taken = taken(&host) - before;
        println!("{mode}: {came:.1} % of the ticks beside {alarms} alarms, {taken} taken");
        const ALARMS: &str = "computes for 1 s, with a timer of 1 ms";
        time_of(ALARMS, mode, "duration_ns", &timer);
        row(ALARMS, mode, "timer interrupts taken for ticks", taken as f64);
        match papers {
            true => assert!(came < 5.0 && taken >= alarms, "{timer:?}"),
            false => assert!((97.0..=103.0).contains(&came) && taken == 0, "{timer:?}"),
        }
        // The timer that ends a sleep is taken, too: what ran in between has few ticks.
        let mix = workload(&host, &guest, "mix", &["--work", "4000"]);
        let came = percent(&mix, "ran_ns");
        println!("{mode}: {came:.1} % of the ticks of 1 ms in every 4");
        time_of("computes for 1 ms in every 4, for 4 s", mode, "ran_ns", &mix);
        assert_eq!(came < 40.0, papers, "{mix:?}");
        guest.shutdown().unwrap();
    }
}

/// What relies on ticks: taking turns, and timers of the wheel.
#[test]
fn what_the_papers_tick_starves_has_its_time_in_ours() {
    for mode in MODES {
        let (_host, guest) = boot(mode, &[]);
        let [first, first_ms, second, second_ms] = starve(&guest, "shares")[..] else { panic!() };
        let [times, late_ms] = starve(&guest, "timeouts")[..] else { panic!() };
        let waited = first_ms.max(second_ms);
        let two = "two processes, whoever runs has a timer of 1 ms";
        row(two, mode, "one waits for its turn, ms", waited as f64);
        let beside = "waits 20 ms by the timer wheel, for 2 s, beside one";
        row(beside, mode, "times", times as f64);
        row(beside, mode, "late by, ms at most", late_ms as f64);
        match mode {
            "paratick-ticks" => {
                assert!(first.abs_diff(second) <= 20 && waited <= 30, "{first} {second} {waited}");
                assert!(times >= 60 && late_ms <= 30, "{times} {late_ms}");
            }
            _ => assert!(waited >= 300 && late_ms >= 300, "{waited} {late_ms}"),
        }
        assert_eq!(said(&guest, "dmesg | grep -c 'ticks have stopped' || true"), "0");
        guest.shutdown().unwrap();
    }
}
