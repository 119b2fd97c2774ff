// SPDX-License-Identifier: GPL-2.0-only
//! Learned windows, halt by halt, of the guest and of the host: is each limit what the replay makes
//! of the halts before it?

use crate::support::{guest_on, host_for, host_spec, kernel, pair, sh, text, workload};
use paratick_core::halts::{known, Window};
use std::collections::BTreeMap;

/// The kernel's default of `guest_halt_poll_ns`, and of KVM's `halt_poll_ns`.
const MAX: u32 = 200_000;
/// The default of `halt_poll_cost_ns`.
const HOST_COST: u32 = 10_000;

const WORKLOADS: [(&str, &str); 4] =
    [("sleep", "300"), ("exponential", "300"), ("pingpong", "1500"), ("barrier", "1000")];

/// The word after `name` in a line of a trace.
fn word<'a>(line: &'a str, name: &str) -> &'a str {
    let rest = line.split_once(name).unwrap_or_else(|| panic!("{name}: {line}")).1;
    rest.split([' ', ',']).next().unwrap()
}

fn number<T: std::str::FromStr>(line: &str, name: &str) -> T {
    word(line, name).parse().unwrap_or_else(|_| panic!("{name}: {line}"))
}

/// A limit, with its reason and the time to the next timer; -1 is none.
fn limit(line: &str) -> (u32, &str, u64) {
    let why = line.split_once('(').unwrap().1.split_once(')').unwrap().0;
    (number(line, "limit "), why, number::<i64>(line, "deadline ") as u64)
}

/// Is the wait learned as one without an end, as nobody has asked for polls for devices?
fn by_device(line: &str) -> bool {
    number::<u8>(line, " irq ") == 1
}

/// How often each reason was met.
type Reasons = BTreeMap<String, usize>;

/// Follows the waits of each CPU since it was booted.
fn follow(trace: &str, cost: u32) -> Reasons {
    let mut reasons = Reasons::new();
    let mut cpus = BTreeMap::<&str, Window>::new();
    for line in trace.lines() {
        let Some((before, said)) = line.split_once(" guest_halt_poll_window: ") else { continue };
        let cpu = before.split(['[', ']']).nth(1).unwrap();
        let window = cpus.entry(cpu).or_default();
        let (traced, why, deadline) = limit(said);
        let is_known = known(deadline, MAX, cost);
        let replayed = match why {
            "steal" => 0,
            _ => window.limit(deadline, MAX, cost),
        };
        assert_eq!(traced, replayed, "{line}\n{window:?}");
        assert!(why == "steal" || is_known == (why == "deadline"), "{line}");
        if !is_known {
            window.note(if by_device(said) { u64::MAX } else { number(said, " ns ") }, MAX, cost);
        }
        let next = window.past[usize::from(window.after)].ns;
        assert_eq!(number::<u32>(said, " window "), next, "{line}\n{window:?}");
        *reasons.entry(why.to_string()).or_default() += 1;
    }
    reasons
}

#[test]
fn each_limit_of_the_guest_is_the_replayed_one() {
    let spec = host_spec(kernel(), 2, &[]);
    let traced = ["trace_event=power:guest_halt_poll_window", "trace_buf_size=16M"];
    let (host, guest) = pair(spec.clone(), kernel(), 2, "paratick+learn", &traced);
    for (name, work) in WORKLOADS {
        workload(&host, &guest, name, &["--work", work]);
    }
    let cost = "cat /sys/module/haltpoll/parameters/guest_halt_poll_cost_ns";
    let cost = text(&guest.exec(sh(cost)).unwrap().stdout).trim().parse().unwrap();
    let trace =
        guest.exec(sh("mount -t tracefs none /sys/kernel/tracing; cat /sys/kernel/tracing/trace"));
    let reasons = follow(&text(&trace.unwrap().stdout), cost);
    println!("{cost} ns, {reasons:?}");
    assert!(reasons["window"] > 1_000, "{reasons:?}");
    guest.shutdown().unwrap();
}

/// Follows the halts of each vCPU since it was made.
fn follow_host(trace: &str) -> Reasons {
    let mut reasons = Reasons::new();
    let mut vcpus = BTreeMap::<&str, (Window, bool)>::new();
    for line in trace.lines() {
        let limits = line.split_once(" kvm_halt_poll_window: vcpu ");
        let learned = line.split_once(" kvm_halt_poll_learn: vcpu ");
        let Some((_, said)) = limits.or(learned) else { continue };
        let (window, teaches) = vcpus.entry(said.split_once(':').unwrap().0).or_default();
        if learned.is_some() {
            assert!(*teaches, "{line}");
            *teaches = false;
            window.note(number(said, " ns "), MAX, HOST_COST);
            let next = window.past[usize::from(window.after)].ns;
            assert_eq!(number::<u32>(said, " window "), next, "{line}\n{window:?}");
            continue;
        }
        assert!(!*teaches, "nothing was learned from the halt before: {line}");
        let (traced, why, deadline) = limit(said);
        let is_known = known(deadline, MAX, HOST_COST);
        // A late timer is waited for, too.
        let late = if is_known { HOST_COST } else { 0 };
        let replayed = (window.limit(deadline, MAX, HOST_COST) + late).min(MAX);
        assert_eq!(traced, replayed, "{line}\n{window:?}");
        assert_eq!(why, if is_known { "deadline" } else { "window" }, "{line}");
        *teaches = !is_known;
        *reasons.entry(why.to_string()).or_default() += 1;
    }
    reasons
}

#[test]
fn each_limit_of_the_host_is_the_replayed_one() {
    let host = host_for(kernel(), 2, &[]);
    let on = "cd /sys/module/kvm/parameters && echo 200000 >halt_poll_ns && \
        echo 1 >halt_poll_learn || exit 1; \
        mount -t tracefs none /sys/kernel/tracing; cd /sys/kernel/tracing; \
        echo mono >trace_clock; echo 16384 >buffer_size_kb; \
        for event in kvm_halt_poll_window kvm_halt_poll_learn; do \
        echo 1 >events/kvm/$event/enable || exit 1; done";
    assert_eq!(host.exec(sh(on)).unwrap().code, 0);
    let guest = guest_on(&host, kernel(), 2, "tickless", &[]);
    for (name, work) in WORKLOADS {
        workload(&host, &guest, name, &["--work", work]);
    }
    guest.shutdown().unwrap();
    let trace = host.exec(sh("cat /sys/kernel/tracing/trace")).unwrap().stdout;
    let reasons = follow_host(&text(&trace));
    println!("{reasons:?}");
    assert!(reasons["window"] > 1_000, "{reasons:?}");
    assert!(reasons["deadline"] > 10, "{reasons:?}");
    host.shutdown().unwrap();
}
