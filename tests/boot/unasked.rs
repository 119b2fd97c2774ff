// SPDX-License-Identifier: GPL-2.0-only
//! Guests that poll although nobody has asked for it: where they must not, what they leave alone,
//! and what that costs others.

use crate::support::{
    compile, guest_on, host_for, kernel, mode, pair, parallel_spec, row_of, sh, text, tools,
};
use paratick_core::{
    size::Size,
    wire::{Disk, GuestConfig},
};
use paratick_machine::{guest::Guest, host::Host};
use serde_json::{json, Value};
use std::thread;

const RALLYING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/unasked/rally.c");
const RALLY: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/rally");
const LEARN: &str = "haltpoll.guest_halt_poll_learn";
const FORCE: &str = "cpuidle_haltpoll.force=1";

fn said(guest: &Guest, line: &str) -> String {
    let done = guest.exec(sh(line)).unwrap();
    assert_eq!(done.code, 0, "{line}: {}", text(&done.stderr));
    text(&done.stdout).trim().to_string()
}

/// The driver, and whether the governor learns.
fn governed(guest: &Guest) -> String {
    said(
        guest,
        "cat /sys/devices/system/cpu/cpuidle/current_driver || echo none; \
         cat /sys/module/haltpoll/parameters/guest_halt_poll_learn",
    )
    .replace('\n', " ")
}

/// How often each CPU polls while two tasks wait for each other.
fn polls(guest: &Guest) -> Vec<u64> {
    polls_in(guest, "pingpong")
}

fn polls_in(guest: &Guest, workload: &str) -> Vec<u64> {
    let usage = "cat /sys/devices/system/cpu/cpu*/cpuidle/state0/usage";
    let agent = tools().agent.display().to_string();
    let line = format!("{usage}; {agent} workload {workload} --work 300 >/dev/null; {usage}");
    let counts: Vec<u64> = said(guest, &line).lines().map(|count| count.parse().unwrap()).collect();
    let (before, after) = counts.split_at(counts.len() / 2);
    let polls = after.iter().zip(before).map(|(after, before)| after - before).collect();
    println!("{polls:?}");
    polls
}

/// A poll for a disk's interrupt spares no exit.  Who asks for the driver has it all the same.
#[test]
fn who_polls_unasked_does_not_poll_for_a_device() {
    let host = host_for(kernel(), 1, &[]);
    let reads = |append: &[&str]| {
        let mut config = GuestConfig::new(kernel(), 1, Size::mib(512), mode("paratick"));
        config.append = append.iter().map(|word| word.to_string()).collect();
        config.disk = Some(Disk::Delayed { size: Size::mib(16), ns: 1_000 });
        let guest = host.start_guest(config).unwrap();
        let polls = polls_in(&guest, "block");
        guest.shutdown().unwrap();
        polls[0]
    };
    assert!(reads(&[]) <= 20);
    assert!(reads(&[FORCE, &format!("{LEARN}=1")]) >= 250);
    host.shutdown().unwrap();
}

#[test]
fn a_cpu_whose_ticks_are_its_own_does_not_poll_unasked() {
    let host = host_for(kernel(), 2, &[]);
    let guest = guest_on(&host, kernel(), 2, "paratick", &[]);
    let switch = |to| {
        said(&guest, &format!("echo {to} >/sys/devices/system/cpu/virtual_tick/control"));
        polls(&guest)
    };
    assert!(polls(&guest).iter().all(|polls| *polls > 100));
    assert!(switch("off").iter().all(|polls| *polls == 0));
    assert!(switch("on").iter().all(|polls| *polls > 100));
    // There is no other rule, in which nobody would look at the steal time.
    let learn = |to| {
        said(&guest, &format!("echo {to} >/sys/module/haltpoll/parameters/guest_halt_poll_learn"));
        polls(&guest)
    };
    assert!(learn("N").iter().all(|polls| *polls == 0));
    assert!(learn("Y").iter().all(|polls| *polls > 100));
    guest.shutdown().unwrap();
    let polled = |append: &[&str]| {
        let guest = guest_on(&host, kernel(), 2, "paratick", append);
        let polls = polls(&guest);
        guest.shutdown().unwrap();
        polls
    };
    assert_eq!(polled(&["nohz=off"]), [0, 0]);
    let [first, second] = polled(&["nohz_full=1"])[..] else { panic!("two CPUs") };
    assert!(first > 100 && second == 0, "{first} {second}");
    host.shutdown().unwrap();
}

#[test]
fn who_has_said_what_idle_cpus_do_is_left_alone() {
    let host = host_for(kernel(), 1, &[]);
    let yes = format!("{LEARN}=Y");
    let no = format!("{LEARN}=N");
    for (append, expected) in [
        ("", "haltpoll Y"),
        (yes.as_str(), "haltpoll Y"),
        (no.as_str(), "none N"),
        ("cpuidle.governor=menu", "none N"),
        ("cpuidle.governor=haltpoll", "haltpoll Y"),
        ("cpuidle.off=1", "none N"),
        ("idle=halt", "none N"),
        (FORCE, "haltpoll N"),
    ] {
        let guest = guest_on(&host, kernel(), 1, "paratick", &[append]);
        assert_eq!(governed(&guest), expected, "{append}");
        guest.shutdown().unwrap();
    }
    host.shutdown().unwrap();
}

/// The CPU time of all vCPUs of the host, in ns.
fn vcpu_time(host: &Host) -> u64 {
    let line = "for task in $(grep -l 'CPU .*/KVM' /proc/[0-9]*/task/*/comm); do \
        cat ${task%comm}schedstat; done";
    let times = text(&host.exec(sh(line)).unwrap().stdout);
    times.lines().map(|line| line.split(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// How late a guest's threads are woken up, and the CPU time of its vCPUs for each round.
#[derive(Debug)]
struct Late {
    mean_ns: f64,
    /// 99 % of the rounds were within this.
    most_ns: f64,
    cpu_us: f64,
}

/// Of threads that wait for about `us`.
fn late(host: &Host, guest: &Guest, us: u64) -> Late {
    const ROUNDS: u64 = 1000;
    let before = vcpu_time(host);
    let said = said(guest, &format!("exec {RALLY} {ROUNDS} {us}"));
    let ns: Vec<f64> = said.split(' ').map(|ns| ns.parse().unwrap()).collect();
    let took = vcpu_time(host) - before;
    Late { mean_ns: ns[0], most_ns: ns[1], cpu_us: took as f64 / 1e3 / ROUNDS as f64 }
}

#[test]
#[ignore = "2 minutes"]
fn tasks_are_woken_up_no_later_than_where_only_the_host_polls() {
    const WAITS: [u64; 4] = [5, 20, 60, 150];
    compile(RALLYING, RALLY);
    let mut spec = parallel_spec(2);
    spec.boot.append.push("kvm.halt_poll_ns=200000".into());
    let measured = ["tickless", "paratick"].map(|mode| {
        let (host, guest) = pair(spec.clone(), kernel(), 2, mode, &[]);
        let measured = WAITS.map(|us| late(&host, &guest, us));
        println!("{mode}: {measured:.1?}");
        guest.shutdown().unwrap();
        measured
    });
    let [tickless, paratick] = &measured;
    for (us, (tickless, paratick)) in WAITS.into_iter().zip(tickless.iter().zip(paratick)) {
        row_of(
            "wake-ups",
            &[
                ("a wait of", json!(format!("{us} µs"))),
                ("tickless: mean", json!(tickless.mean_ns)),
                ("99 % within", json!(tickless.most_ns)),
                ("paratick: mean", json!(paratick.mean_ns)),
                ("99 % within", json!(paratick.most_ns)),
            ],
        );
        assert!(paratick.mean_ns <= tickless.mean_ns * 1.1, "{measured:?}");
        assert!(paratick.most_ns <= tickless.most_ns * 1.1, "{measured:?}");
        assert!(paratick.cpu_us <= tickless.cpu_us * 1.1, "{measured:?}");
    }
}

/// For how long a guest computes on both pCPUs, in ms, while another one's tasks wait for each
/// other there; and for how long one of their rounds took, in us.
fn beside_hand_offs(host: &Host, mode: &str) -> (f64, f64) {
    let agent = tools().agent.display().to_string();
    let [waits, computes] = [mode, "tickless"].map(|mode| guest_on(host, kernel(), 2, mode, &[]));
    let run = |guest: &Guest, line: &str| -> Value {
        let result = guest.exec(sh(&format!("{agent} workload {line}"))).unwrap();
        assert_eq!(result.code, 0, "{}", text(&result.stderr));
        serde_json::from_slice(&result.stdout).unwrap()
    };
    let (computing, waiting) = thread::scope(|scope| {
        let waiting = scope.spawn(|| run(&waits, "pingpong --work 30000"));
        assert_eq!(host.exec(sh("sleep 0.05")).unwrap().code, 0);
        let computing = run(&computes, "cpu --work 100 --threads 2");
        (computing, waiting.join().unwrap())
    });
    let ms = |report: &Value| report["duration_ns"].as_f64().unwrap() / 1e6;
    waits.shutdown().unwrap();
    computes.shutdown().unwrap();
    (ms(&computing), ms(&waiting) * 1e3 / 30_000.0)
}

#[test]
#[ignore = "3 minutes"]
fn a_guest_whose_tasks_wait_for_each_other_takes_nothing_from_a_neighbour() {
    let mut spec = parallel_spec(2);
    spec.boot.memory = spec.boot.memory + Size::mib(512);
    let host = paratick_machine::snapshot::host(spec, &tools(), &mut |_| {}).unwrap();
    host.counting_start().unwrap();
    let [halts, polls] = ["paratick+nopoll", "paratick"].map(|mode| {
        let (ms, us) = beside_hand_offs(&host, mode);
        println!("{mode}: the neighbour computes for {ms:.1} ms; {us:.2} us each round");
        let took = ("the other one computes for, ms", json!(ms));
        row_of("beside-hand-offs", &[("", json!(mode)), took]);
        ms
    });
    assert!(polls <= halts * 1.05, "{polls} {halts}");
    host.shutdown().unwrap();
}
