// SPDX-License-Identifier: GPL-2.0-only
//! Halt polling on the host and in the guest: the rule as it was, and learned windows.

use crate::support::{guest_on, host_for, host_spec, kernel, pair, sh, text, workload};
use paratick_machine::{guest::Guest, host::Host};

const KVM: &str = "/sys/module/kvm/parameters";
const HALTPOLL: &str = "/sys/module/haltpoll/parameters";

/// A halt as the host's tracepoints have it.
#[derive(Debug)]
struct Halt {
    limit: u64,
    why: String,
    deadline: i64,
    ns: u64,
    waited: bool,
    /// `halt_poll_ns` of the vCPU, where the halt has changed it.
    new: Option<u64>,
}

fn set(host: &Host, parameters: &[(&str, u64)]) {
    let line: Vec<_> =
        parameters.iter().map(|(name, value)| format!("echo {value} >{KVM}/{name}")).collect();
    let done = host.exec(sh(&format!("set -e; {}", line.join("; ")))).unwrap();
    assert_eq!(done.code, 0, "{}", text(&done.stderr));
}

/// The number after `name` in a line of a trace.
fn number<T: std::str::FromStr>(line: &str, name: &str) -> T {
    let rest = line.split_once(name).unwrap_or_else(|| panic!("{name}: {line}")).1;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
    rest[..end].parse().unwrap_or_else(|_| panic!("{name}: {line}"))
}

/// The halts of a guest with one vCPU that sleeps for 100 µs again and again.
fn halts(host: &Host, guest: &Guest) -> Vec<Halt> {
    // A halt may come between two of these lines. Its window is the last to be switched on, and
    // its end the first to be switched off: a halt that is told is told whole.
    let events = "kvm_vcpu_wakeup kvm_halt_poll_ns kvm_halt_poll_window";
    let switch = |on| {
        let line = format!(
            "cd /sys/kernel/tracing 2>/dev/null && test -d events || \
             mount -t tracefs none /sys/kernel/tracing; cd /sys/kernel/tracing; \
             echo 16384 >buffer_size_kb; [ {on} = 0 ] || echo >trace; \
             for event in {events}; do echo {on} >events/kvm/$event/enable; done"
        );
        assert_eq!(host.exec(sh(&line)).unwrap().code, 0);
    };
    switch(1);
    workload(host, guest, "sleep", &["--work", "300"]);
    switch(0);
    let trace = host.exec(sh("grep kvm_ /sys/kernel/tracing/trace")).unwrap().stdout;
    let mut halts = Vec::new();
    let mut begun: Option<Halt> = None;
    for line in text(&trace).lines() {
        if line.contains("kvm_halt_poll_window:") {
            let why = line.split_once('(').unwrap().1.split_once(')').unwrap().0.to_string();
            let (limit, deadline) = (number(line, "limit "), number(line, "deadline "));
            begun = Some(Halt { limit, why, deadline, ns: 0, waited: false, new: None });
        } else if line.contains("kvm_halt_poll_ns:") {
            // The trace may begin in the middle of a halt.
            let Some(halt) = begun.as_mut() else { continue };
            halt.new = Some(number(line, "halt_poll_ns "));
        } else if line.contains("kvm_vcpu_wakeup:") {
            let Some(mut halt) = begun.take() else { continue };
            halt.waited = line.contains("wait time");
            halt.ns = number(line, " time ");
            halts.push(halt);
        }
    }
    assert!(halts.len() >= 300, "{} halts", halts.len());
    halts
}

/// What 6.12's rule makes of `h` in a halt: grow 2, start 10 µs, shrink 2.
fn ladder(h: u64, max: u64, ns: u64, floor: u64) -> u64 {
    const START: u64 = 10_000;
    if ns > h && h > 0 && ns > max {
        match (h / 2, floor) {
            (half, 0) if half < START => 0,
            (half, 2) => half.max(START),
            (half, _) => half,
        }
    } else if ns > h && h < max && ns < max {
        (h * 2).max(START)
    } else {
        h
    }
}

fn follows_the_ladder(halts: &[Halt], max: u64, floor: u64) {
    let mut h = None;
    for halt in halts {
        assert_eq!(halt.why, "ladder");
        assert!(halt.deadline >= -1);
        if let Some(h) = h {
            assert_eq!(halt.limit, u64::min(h, max), "{halt:?}");
        }
        let next = ladder(halt.limit, max, halt.ns, floor);
        assert_eq!(halt.new.unwrap_or(halt.limit), next, "{halt:?}");
        h = Some(next);
    }
}

#[test]
fn the_host_polls_by_the_old_rule_or_by_what_it_has_learned() {
    let (host, guest) = pair(host_spec(kernel(), 1, &[]), kernel(), 1, "tickless", &[]);

    // Off, as by default: the old rule, in each value.
    for max in [50_000, 120_000, 400_000] {
        set(&host, &[("halt_poll_ns", max)]);
        follows_the_ladder(&halts(&host, &guest), max, 0);
    }

    // Most halts take longer than it costs to block: there is nothing to poll for.
    set(&host, &[("halt_poll_ns", 400_000), ("halt_poll_learn", 1)]);
    let learned = halts(&host, &guest);
    let late = &learned[learned.len() / 2..];
    assert!(late.iter().filter(|halt| halt.limit > 10_000).count() * 20 < late.len());

    // Blocking costs more than waiting for the timer: each poll is long enough.
    set(&host, &[("halt_poll_cost_ns", 300_000)]);
    let learned = halts(&host, &guest);
    let timed: Vec<_> = learned.iter().filter(|halt| halt.why == "deadline").collect();
    assert!(timed.len() >= 250, "{} of {}", timed.len(), learned.len());
    // A late timer is waited for, too.
    assert!(timed.iter().all(|halt| halt.limit as i64 >= halt.deadline && halt.limit <= 400_000));
    assert!(timed.iter().filter(|halt| halt.waited).count() * 20 < timed.len());

    // A tenth of the halted time, and not more.
    set(&host, &[("halt_poll_budget", 10)]);
    let learned = halts(&host, &guest);
    let polled: u64 = learned.iter().filter(|h| !h.waited).map(|h| h.ns.min(h.limit)).sum();
    let halted: u64 = learned.iter().map(|halt| halt.ns).sum();
    assert!(learned.iter().any(|halt| halt.why == "budget" && halt.limit == 0));
    assert!(polled * 8 < halted, "{polled} of {halted}");

    // Absurd, and harmless; what is no number is refused.
    let most = u64::from(u32::MAX);
    set(&host, &[("halt_poll_budget", most), ("halt_poll_cost_ns", most), ("halt_poll_ns", most)]);
    workload(&host, &guest, "sleep", &["--work", "50"]);
    set(&host, &[("halt_poll_cost_ns", 0), ("halt_poll_ns", 200_000)]);
    // The window is chosen anew within some halts.
    assert!(halts(&host, &guest).iter().skip(10).all(|halt| halt.limit == 0));
    for name in ["halt_poll_learn", "halt_poll_cost_ns", "halt_poll_budget"] {
        let refused = host.exec(sh(&format!("echo -3 >{KVM}/{name}"))).unwrap();
        assert_ne!(refused.code, 0, "{name}");
    }
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

#[test]
fn the_three_floors_of_the_old_rule_are_told_apart() {
    let (host, guest) = pair(host_spec(kernel(), 1, &[]), kernel(), 1, "tickless", &[]);
    for floor in [0, 1, 2] {
        // Up the ladder, by halts that are shorter than this, and down by the same, which are
        // longer than that.
        set(&host, &[("halt_poll_floor", floor), ("halt_poll_ns", 400_000)]);
        follows_the_ladder(&halts(&host, &guest), 400_000, floor);
        set(&host, &[("halt_poll_ns", 50_000)]);
        let shrunk = halts(&host, &guest);
        let low =
            |from, to| shrunk.iter().any(|h| h.new.is_some_and(|new| (from..to).contains(&new)));
        assert_eq!(low(0, 1), floor == 0 || low(1, 2), "{floor}");
        assert_eq!(low(1, 10_000), floor == 1, "{floor}");
        assert_eq!(shrunk.iter().all(|halt| halt.limit >= 10_000), floor == 2, "{floor}");
    }
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// Sets a parameter of the guest's governor.
fn tell(guest: &Guest, name: &str, value: &str) {
    let done = guest.exec(sh(&format!("echo {value} >{HALTPOLL}/{name}"))).unwrap();
    assert_eq!(done.code, 0, "{}", text(&done.stderr));
}

fn says(guest: &Guest, name: &str) -> String {
    text(&guest.exec(sh(&format!("cat {HALTPOLL}/{name}"))).unwrap().stdout).trim().to_string()
}

#[test]
fn a_guest_polls_for_what_is_short_and_halts_at_once_for_what_is_long() {
    let (host, guest) = pair(host_spec(kernel(), 2, &[]), kernel(), 2, "paratick", &[]);
    let cost: u64 = says(&guest, "guest_halt_poll_cost_ns").parse().unwrap();
    assert!((5_000..200_000).contains(&cost), "{cost}");

    let hand_offs = workload(&host, &guest, "pingpong", &["--work", "1000"]);
    assert!(hand_offs.exits < 400, "{}", hand_offs.exits);
    let sleeps = workload(&host, &guest, "sleep", &["--work", "500"]);
    assert!((500..600).contains(&sleeps.exits), "{}", sleeps.exits);

    // A limit of 0, absurd ones, and switching to and fro leave a guest that works.
    tell(&guest, "guest_halt_poll_ns", "0");
    assert!(workload(&host, &guest, "pingpong", &["--work", "200"]).exits > 600);
    tell(&guest, "guest_halt_poll_ns", "4294967295");
    tell(&guest, "guest_halt_poll_cost_ns", "4294967295");
    workload(&host, &guest, "sleep", &["--work", "50"]);
    tell(&guest, "guest_halt_poll_learn", "N");
    tell(&guest, "guest_halt_poll_ns", "200000");
    tell(&guest, "guest_halt_poll_learn", "Y");
    tell(&guest, "guest_halt_poll_cost_ns", "0");
    let again: u64 = says(&guest, "guest_halt_poll_cost_ns").parse().unwrap();
    assert!((5_000..200_000).contains(&again), "{again}");
    for name in ["guest_halt_poll_learn", "guest_halt_poll_cost_ns"] {
        assert_ne!(guest.exec(sh(&format!("echo -3 >{HALTPOLL}/{name}"))).unwrap().code, 0);
    }
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// Sleeps, while a program asks for no latency at all.
fn with_no_latency(host: &Host, guest: &Guest, sleeps: u32) -> u64 {
    let ask = "exec 3>/dev/cpu_dma_latency; printf '\\0\\0\\0\\0' >&3; sleep 1000";
    let started = guest.exec(sh(&format!("({ask}) >/dev/null 2>&1 & sleep 0.1"))).unwrap();
    assert_eq!(started.code, 0, "{}", text(&started.stderr));
    let exits = workload(host, guest, "sleep", &["--work", &sleeps.to_string()]).exits;
    assert_eq!(guest.exec(sh("pkill -f '[s]leep 1000'")).unwrap().code, 0);
    exits
}

#[test]
fn a_guest_with_virtual_ticks_learns_unasked_and_does_not_poll_for_ever() {
    let host = host_for(kernel(), 2, &[]);
    let driver = |guest: &Guest| {
        let file = "/sys/devices/system/cpu/cpuidle/current_driver";
        text(&guest.exec(sh(&format!("cat {file}"))).unwrap().stdout).trim().to_string()
    };
    for mode in ["tickless", "paratick+nopoll"] {
        let guest = guest_on(&host, kernel(), 2, mode, &[]);
        assert_eq!(
            (driver(&guest).as_str(), says(&guest, "guest_halt_poll_learn").as_str()),
            ("none", "N")
        );
        guest.shutdown().unwrap();
    }
    let guest = guest_on(&host, kernel(), 2, "paratick", &[]);
    assert_eq!(
        (driver(&guest).as_str(), says(&guest, "guest_halt_poll_learn").as_str()),
        ("haltpoll", "Y")
    );
    let exits = with_no_latency(&host, &guest, 500);
    assert!((500..700).contains(&exits), "{exits}");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}
