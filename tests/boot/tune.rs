// SPDX-License-Identifier: GPL-2.0-only
//! Are all halts recorded, are the rules of KVM and of guests replayed as they are, and does a
//! prediction come true?

mod mixed;

use crate::support::{host_spec, kernel, pair, text, tools, workload, Measured, PATIENCE};
use assert_cmd::Command;
use paratick_bench::tune;
use paratick_core::{
    cause::Cause,
    halts::{verify, Halts, HostRule, Tally, Waker},
};
use paratick_machine::{exec::Exec, guest::Guest, host::Host};

/// With the work that halts some hundred times.
const WORKLOADS: [(&str, &str); 4] =
    [("pingpong", "300"), ("barrier", "300"), ("sleep", "200"), ("mix", "400")];

fn rule(name: &str) -> HostRule {
    name.parse().unwrap()
}

fn recorded(host: &Host, guest: &Guest, name: &str, work: &str) -> Halts {
    let agent = tools().agent.display().to_string();
    let argv = [&agent, "workload", name, "--work", work].map(String::from);
    tune::record(host, guest, &argv, PATIENCE).unwrap()
}

/// The sum over all guests that a host has had.
fn statistic(host: &Host, name: &str) -> u64 {
    let file = format!("/sys/kernel/debug/kvm/{name}");
    let said = host.exec(Exec::new(["cat", &file]).timeout(PATIENCE)).unwrap();
    text(&said.stdout).trim().parse().unwrap()
}

#[test]
fn kvms_own_rule_replayed_says_what_was_traced() {
    let (host, guest) =
        pair(host_spec(kernel(), 2, &["kvm.halt_poll_ns=200000"]), kernel(), 2, "tickless", &[]);
    for name in ["default", "2021", "paper"] {
        tune::set(&host, &rule(name)).unwrap();
        for (workload, work) in WORKLOADS {
            let halts = recorded(&host, &guest, workload, work);
            let (mut compared, mut changes) = (0, 0);
            for vcpu in &halts.vcpus {
                let verified = verify(vcpu).unwrap();
                assert_eq!(verified.difference, None, "{name} {workload} vCPU {}", vcpu.vcpu);
                compared += verified.compared;
                changes += verified.changes;
            }
            println!(
                "{name} {workload}: {compared} halts, {changes} changes; {:?}",
                Tally::of_all(&halts)
            );
            assert!(compared >= 100 && changes > 0, "{name} {workload}");
        }
    }
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// `guest_halt_poll_` and these.
const GUEST_RULES: [(&str, &[&str]); 4] = [
    ("default", &[]),
    ("50K_10K", &["ns=50000", "grow_start=10000"]),
    ("keep", &["ns=100000", "grow=3", "grow_start=7000", "allow_shrink=0"]),
    ("zero", &["shrink=0"]),
];

#[test]
fn a_guests_own_rule_replayed_says_what_was_traced() {
    let spec = host_spec(kernel(), 2, &[]);
    for (name, parameters) in GUEST_RULES {
        let append: Vec<String> =
            parameters.iter().map(|set| format!("haltpoll.guest_halt_poll_{set}")).collect();
        let append: Vec<&str> = append.iter().map(String::as_str).collect();
        let (_host, guest) = pair(spec.clone(), kernel(), 2, "tickless+poll", &append);
        for (workload, work) in WORKLOADS {
            let agent = tools().agent.display().to_string();
            let argv = [&agent, "workload", workload, "--work", work].map(String::from);
            let halts = tune::record_in(&guest, &argv, PATIENCE).unwrap();
            let (mut compared, mut changes) = (0, 0);
            for cpu in &halts.vcpus {
                assert!(cpu.halts.iter().all(|halt| halt.limit_ns.is_some()), "{name} {workload}");
                let verified = verify(cpu).unwrap();
                assert_eq!(verified.difference, None, "{name} {workload} CPU {}", cpu.vcpu);
                compared += verified.compared;
                changes += verified.changes;
            }
            println!(
                "{name} {workload}: {compared} halts, {changes} changes; {:?}",
                Tally::of_all(&halts)
            );
            assert!(compared >= 100, "{name} {workload}");
            // One that never shrinks soon is as long as it can be.
            assert!(changes > 0 || name == "keep", "{name} {workload}");
        }
        guest.shutdown().unwrap();
    }
}

#[test]
fn every_halt_is_recorded() {
    let (host, guest) =
        pair(host_spec(kernel(), 2, &["kvm.halt_poll_ns=200000"]), kernel(), 2, "tickless", &[]);
    let names = ["halt_attempted_poll", "halt_successful_poll"];
    let before = names.map(|name| statistic(&host, name));
    let halts = recorded(&host, &guest, "sleep", "400");
    let [attempted, successful] =
        [0, 1].map(|nth: usize| statistic(&host, names[nth]) - before[nth]);
    let tally = Tally::of_all(&halts);
    println!("{tally:?}; KVM: {attempted} polls, {successful} hits");
    // The guest also halts before its window and after it.
    let close = |all: u64, seen: u64| (all - 40..=all).contains(&seen);
    assert!(tally.halts >= 400, "{tally:?}");
    assert!(close(attempted, tally.hits + tally.misses), "{attempted} {tally:?}");
    assert!(close(successful, tally.hits), "{successful} {tally:?}");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

fn halts_of(measured: &Measured) -> u64 {
    measured.causes.get(&Cause::Halt).copied().unwrap_or(0)
}

/// It begins after the exit: whatever it saves, exits it does not (the article says otherwise).
#[test]
fn polling_on_the_host_saves_no_exit() {
    let (host, guest) = pair(host_spec(kernel(), 2, &[]), kernel(), 2, "tickless", &[]);
    let mut measured = Vec::new();
    for name in ["none", "default"] {
        tune::set(&host, &rule(name)).unwrap();
        let exits = workload(&host, &guest, "sleep", &["--work", "300"]);
        let halts = recorded(&host, &guest, "sleep", "300");
        let timers = halts.vcpus.iter().flat_map(|vcpu| &vcpu.halts);
        let timers = timers.filter(|halt| halt.waker == Waker::Timer).count();
        println!("{name}: {} halts among exits, {timers} recorded", halts_of(&exits));
        // Those of the 300 sleeps, and some of the guest's own.
        assert!((295..=400).contains(&timers), "{timers}");
        measured.push((exits, Tally::of_all(&halts)));
    }
    let [(none, never), (default, polled)] = &measured[..] else { unreachable!() };
    assert!(none.exits.abs_diff(default.exits) <= none.exits / 20, "{none:?} {default:?}");
    // Now and then a halt ends before its thread has gone to sleep, which looks like a short poll.
    assert!(never.hits == 0 && never.polled_ns < 10_000, "{never:?}");
    // Half of 100 us and more are within the limit of 200.
    assert!(polled.blocks * 2 < never.blocks, "{polled:?} {never:?}");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// Sleeps are so long that to poll for them costs twenty times what blocking does.
#[test]
fn a_prediction_that_comes_true_is_applied() {
    let agent = tools().agent.display().to_string();
    let mut tune = Command::cargo_bin("paratick").unwrap();
    tune.args(["lab", "halts", "--mode", "tickless", "--halt-poll", "default", "--apply"]);
    tune.arg("--kernel").arg(kernel());
    tune.args(["--", &agent, "workload", "sleep", "--work", "300"]);
    let output = tune.timeout(PATIENCE).output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    for line in ["Best: none: it costs", "is as traced:", "not in stock kernels"] {
        assert!(stdout.contains(line), "{line}: {stdout}");
    }
    assert!(stderr.contains("applied: none (none)\n"), "{stderr}");
    assert!(stderr.contains("1.000 predicted"), "{stderr}");
}

/// Each of two vCPUs waits for the other one's wake-up as well, until they are polled for.
#[test]
fn what_polling_does_to_vcpus_that_wait_for_each_other_is_predicted() {
    let agent = tools().agent.display().to_string();
    let mut tune = Command::cargo_bin("paratick").unwrap();
    tune.args(["lab", "halts", "--mode", "tickless", "--parallel-clock"]);
    tune.args(["--halt-poll", "none", "--apply=default", "--format", "json", "--kernel"]);
    tune.arg(kernel()).args(["--", &agent, "workload", "pingpong", "--work", "2000"]);
    let output = tune.timeout(PATIENCE).output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    println!("{stdout}\n{stderr}");
    assert_eq!(output.status.code(), Some(0));
    let said: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(said["applied"]["rule"], "default");
    assert_eq!(said["applied"]["outcome"], "applied");
    // Who ends a poll goes on sooner than the replay knows: polls are shorter than predicted, and
    // what the rule saves is some more.
    for claim in ["blocks", "switches", "cost"] {
        let claim = &said["applied"]["verdict"][claim];
        let [before, predicted, measured] =
            ["before", "predicted", "measured"].map(|what| claim[what].as_f64().unwrap());
        assert!(measured <= predicted * 1.1, "{claim}");
        assert!(before - predicted >= before / 2.0, "{claim}");
    }
}

#[test]
fn what_was_recorded_of_a_vm_that_ends_is_kept() {
    let agent = tools().agent.display().to_string();
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("halts.json");
    let ending = format!(
        "{agent} workload sleep --work 200 && echo 1 >/proc/sys/kernel/sysrq && \
         echo o >/proc/sysrq-trigger; sleep 60"
    );
    let mut tune = Command::cargo_bin("paratick").unwrap();
    tune.args(["lab", "halts", "--mode", "tickless", "--kernel"]).arg(kernel());
    tune.arg("--save").arg(&saved).args(["--", "sh", "-c", &ending]);
    let output = tune.timeout(PATIENCE).output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    println!("{stdout}{stderr}");
    assert_eq!(output.status.code(), Some(69), "{stdout}\n{stderr}");
    assert!(stderr.contains("the recording ended early, with "), "{stderr}");
    assert!(stdout.contains("What each rule would have cost"), "{stdout}");
    let halts: Halts = serde_json::from_str(&std::fs::read_to_string(&saved).unwrap()).unwrap();
    assert!(Tally::of_all(&halts).halts >= 200, "{stderr}");
}
