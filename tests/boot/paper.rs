// SPDX-License-Identifier: GPL-2.0-only
//! The paper's own algorithm, `paratick-paper`: it does what the paper says, and what a guest
//! loses by that, beside `paratick-ticks`.

use crate::{
    series::{active, said, PROMISED},
    support::{busy_ticks, compile, host_spec, kernel, pair, sh, text, workload, Measured},
};
use paratick_machine::{guest::Guest, host::Host};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/paper/starve.c");
const STARVE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/starve");
/// A CPU of the host whose tick stops while a vCPU runs there.
const TICKLESS_HOST: [&str; 2] = ["nohz_full=1", "isolcpus=1"];
const MODES: [&str; 2] = ["paratick-paper", "paratick-ticks"];

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

#[test]
fn the_papers_ticks_come_with_any_entry_and_with_nothing_else() {
    // Here each tick of the host is an entry.
    let (host, guest) = boot("paratick-paper", &[]);
    assert_eq!(active(&guest), "0");
    let alone = busy_ticks(&host, &guest);
    let came = percent(&alone, "duration_ns");
    println!("of a vCPU that computes: {came:.0} % of the ticks");
    assert!((40.0..=101.0).contains(&came), "{alone:?}");
    // One entry in each half millisecond: no tick waits for longer than that.
    let exits = starve(&guest, "exits")[0];
    assert!((200..=250).contains(&exits), "{exits}");
    guest.shutdown().unwrap();

    // And here there is none, but where the guest has an exit of its own.
    let (host, guest) = boot("paratick-paper", &TICKLESS_HOST);
    let starved = busy_ticks(&host, &guest);
    println!("without ticks of the host: {:.1} %", percent(&starved, "duration_ns"));
    assert!(starved.report("virtual_ticks") < 25, "{starved:?}");
    // Nobody notices.
    assert_eq!(active(&guest), "0");
    let exits = starve(&guest, "exits")[0];
    assert!((200..=250).contains(&exits), "{exits}");
    guest.shutdown().unwrap();

    // Ours has a timer of its own there.
    let (host, guest) = boot("paratick-ticks", &TICKLESS_HOST);
    let ours = busy_ticks(&host, &guest);
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
        match papers {
            true => assert!(came < 5.0 && taken >= alarms, "{timer:?}"),
            false => assert!((97.0..=103.0).contains(&came) && taken == 0, "{timer:?}"),
        }
        // The timer that ends a sleep is taken, too: what ran in between has few ticks.
        let mix = workload(&host, &guest, "mix", &["--work", "4000"]);
        let came = percent(&mix, "ran_ns");
        println!("{mode}: {came:.1} % of the ticks of 1 ms in every 4");
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
