// SPDX-License-Identifier: GPL-2.0-only
//! A pCPU that a vCPU shares with others: the host's ticks hit these as well.

use crate::{
    halt_until::{compile_timers, late},
    support::{compile, guest_on, host_for, kernel, sh, text, tools, PATIENCE},
};
use paratick_machine::{exec::Exec, guest::Guest, host::Host};
use serde_json::Value;
use std::thread;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/shared/preempt.c");
const PREEMPT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/preempt");
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
    let host = host_for(kernel(), 1, &[]);
    for mode in ["tickless", "paratick"] {
        let guest = guest_on(&host, kernel(), 1, mode, &[]);
        let latest = latest(&host, &guest);
        println!("{mode}: {latest:.1} µs");
        assert!(latest <= TICK_US + f64::from(TAKEN_US), "{mode}: {latest}");
        guest.shutdown().unwrap();
    }
    host.shutdown().unwrap();
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
