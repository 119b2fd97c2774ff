// SPDX-License-Identifier: GPL-2.0-only
//! A pCPU that a vCPU shares with others: the host's ticks hit these as well.

use crate::{
    halt_until::{compile_timers, late},
    support::{
        compile, guest_on, host_for, host_spec, kernel, pair, row_of, sh, text, tools, PATIENCE,
    },
};
use paratick_core::size::Size;
use paratick_machine::{backend::EMULATED, exec::Exec, guest::Guest, host::Host, spec::HostSpec};
use serde_json::{json, Value};
use std::thread;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/shared/preempt.c");
const PREEMPT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/preempt");
const CONTENDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/shared/contend.c");
const CONTEND: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/contend");
const TICK_US: f64 = 4000.0;
/// How much of every tick's time another task has the pCPU.
const TAKEN_US: u32 = 1100;

/// The longest that a timer of the guest is late while a task of the host takes the pCPU of its
/// vCPU for a while in every tick of the host, at each of four times in it.
fn latest(host: &Host, guest: &Guest) -> f64 {
    let most = [0, 1000, 2000, 3000].map(|from| {
        let take = format!("exec {PREEMPT} 1 {from} {TAKEN_US} 300");
        thread::scope(|scope| {
            let taking = scope.spawn(|| host.exec(sh(&take)).unwrap());
            let most = late(guest, "", "40 nanosleep busy long").most();
            assert_eq!(taking.join().unwrap().code, 0);
            most
        })
    });
    most.into_iter().fold(0.0, f64::max)
}

#[test]
fn timers_are_on_time_where_the_host_s_ticks_hit_another_task() {
    compile_timers();
    compile(PROGRAM, PREEMPT);
    let spec = host_spec(kernel(), 1, &[]);
    for mode in ["tickless", "paratick"] {
        let (host, guest) = pair(spec.clone(), kernel(), 1, mode, &[]);
        let latest = latest(&host, &guest);
        println!("{mode}: {latest:.1} µs");
        row_of("late-beside-a-task", &[("", json!(mode)), ("late by, µs at most", json!(latest))]);
        assert!(latest <= TICK_US + f64::from(TAKEN_US), "{mode}: {latest}");
        guest.shutdown().unwrap();
    }
}

/// How long another task has a pCPU at once, in us.
const LONG_US: u32 = 40_000;
/// How long the guest takes locks, in ms.
const CONTEND_MS: u32 = 8000;

/// What the guest has charged for the CPU that waits for the lock, and how long that was kept from
/// it at once, in percent of the time.
fn charged_and_kept(host: &Host, guest: &Guest) -> (f64, f64) {
    let take = format!("exec {PREEMPT} 1 0 {LONG_US} {}", CONTEND_MS * 1000 / (LONG_US + 4000));
    let said = thread::scope(|scope| {
        let taking = scope.spawn(|| host.exec(sh(&take)).unwrap());
        let result = guest.exec(sh(&format!("exec {CONTEND} {CONTEND_MS}"))).unwrap();
        assert_eq!(result.code, 0, "{}", text(&result.stderr));
        assert_eq!(taking.join().unwrap().code, 0);
        text(&result.stdout)
    });
    let numbers: Vec<f64> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [wall, ticks, kept] = numbers[..] else { panic!("{said}") };
    (100.0 * ticks * 1e7 / wall, 100.0 * kept / wall)
}

/// Its holder's pCPU has something else to do; the vCPU that waits halts until it is kicked
/// (`kvm_wait()`), and has its tick all the same.
#[test]
#[ignore = "3 minutes, and it is chance how often the holder of the lock is taken off its pCPU"]
fn time_spent_waiting_for_a_lock_is_charged() {
    compile(PROGRAM, PREEMPT);
    compile(CONTENDING, CONTEND);
    // Else pCPUs that are busy at once take each other's time, and ticks are lost in any mode.
    let mut spec = HostSpec::for_guests(EMULATED, kernel(), 2, Size::mib(512));
    spec.emulation.parallel_clock = true;
    let measured = ["tickless", "paratick-ticks", "paratick"].map(|mode| {
        let (host, guest) = pair(spec.clone(), kernel(), 2, mode, &[]);
        let (charged, kept) = charged_and_kept(&host, &guest);
        println!("{mode}: {charged:.1} % of the time is charged, {kept:.1} % was spent waiting");
        guest.shutdown().unwrap();
        (charged, kept)
    });
    assert!(measured.iter().any(|(_, kept)| *kept >= 5.0), "nobody waited");
    for (charged, _) in measured {
        assert!((97.0..=103.0).contains(&charged), "{charged}");
    }
}

/// User, stolen, and all time, in percent of the wall clock, of the guest's CPU while it is busy.
fn shares(guest: &Guest) -> [f64; 3] {
    let agent = tools().agent.display().to_string();
    let argv = [agent.as_str(), "workload", "mix", "--work", "2000", "--busy-us", "1000000"];
    let result = guest.exec(Exec::new(argv).timeout(PATIENCE)).unwrap();
    assert_eq!(result.code, 0, "{}", text(&result.stderr));
    let report: Value = serde_json::from_slice(&result.stdout).unwrap();
    println!("{report}");
    let wall = report["duration_ns"].as_f64().unwrap();
    let percent =
        |name: &str| 100.0 * 1e7 * report[format!("cpu_{name}_ticks")].as_f64().unwrap() / wall;
    let [user, steal] = ["user", "steal"].map(percent);
    [user, steal, user + steal + percent("system") + percent("idle")]
}

#[test]
fn two_guests_on_a_pcpu_each_see_half_of_it_and_the_rest_stolen() {
    let host = host_for(kernel(), 1, &[]);
    for mode in ["tickless", "paratick-ticks", "paratick"] {
        let guests = [0, 1].map(|_| guest_on(&host, kernel(), 1, mode, &[]));
        let measured = thread::scope(|scope| {
            let running = guests.each_ref().map(|guest| scope.spawn(|| shares(guest)));
            running.map(|guest| guest.join().unwrap())
        });
        println!("{mode}: user, stolen and all: {measured:.1?} %");
        for seen in measured {
            let cells = ["its own, %", "stolen, %", "all, %"].into_iter().zip(seen);
            let cells = cells.map(|(column, percent)| (column, json!(percent)));
            let cells = [("", json!(mode))].into_iter().chain(cells).collect::<Vec<_>>();
            row_of("two-on-a-pcpu", &cells);
        }
        for [user, steal, all] in measured {
            assert!((40.0..=62.0).contains(&user), "{mode}: {user}");
            assert!((40.0..=62.0).contains(&steal), "{mode}: {steal}");
            assert!((95.0..=105.0).contains(&all), "{mode}: {all}");
        }
        for guest in guests {
            guest.shutdown().unwrap();
        }
    }
    host.shutdown().unwrap();
}

/// For how long one guest computes while another one sleeps and wakes up on the same pCPU, in ms,
/// and how often that woke up for each ms.
fn beside_sleeps(host: &Host, mode: &str) -> (f64, f64) {
    let agent = tools().agent.display().to_string();
    let [sleeps, computes] = [mode, "tickless"].map(|mode| guest_on(host, kernel(), 1, mode, &[]));
    let run = |guest: &Guest, line: &str| -> Value {
        let result = guest.exec(sh(&format!("{agent} workload {line}"))).unwrap();
        assert_eq!(result.code, 0, "{}", text(&result.stderr));
        serde_json::from_slice(&result.stdout).unwrap()
    };
    let (computing, sleeping) = thread::scope(|scope| {
        // For much longer than the other one computes.
        let sleeping = scope.spawn(|| run(&sleeps, "sleep --work 3000"));
        assert_eq!(host.exec(sh("sleep 0.05")).unwrap().code, 0);
        let computing = run(&computes, "cpu --work 50");
        (computing, sleeping.join().unwrap())
    });
    let ms = |report: &Value| report["duration_ns"].as_f64().unwrap() / 1e6;
    assert!(ms(&sleeping) > ms(&computing) + 50.0, "{sleeping} {computing}");
    sleeps.shutdown().unwrap();
    computes.shutdown().unwrap();
    (ms(&computing), 3_000.0 / ms(&sleeping))
}

#[test]
#[ignore = "1 minute"]
fn a_guest_that_learns_takes_nothing_from_a_neighbour_with_other_work() {
    let host = host_for(kernel(), 1, &[]);
    let modes = ["tickless", "tickless+poll", "tickless+learn", "paratick+nopoll", "paratick"];
    let measured = modes.map(|mode| {
        let (ms, rate) = beside_sleeps(&host, mode);
        println!("{mode}: the neighbour computes for {ms:.1} ms; {rate:.2} sleeps each ms");
        row_of(
            "beside-sleeps",
            &[("", json!(mode)), ("the other one computes for, ms", json!(ms))],
        );
        ms
    });
    let [tickless, poll, learn, at_once, paratick] = measured;
    // The stock rule polls for what is shorter than the neighbour's turn.
    assert!(poll > tickless * 1.1, "{measured:?}");
    assert!(learn < tickless * 1.02 && paratick < at_once * 1.02, "{measured:?}");
    host.shutdown().unwrap();
}
