// SPDX-License-Identifier: GPL-2.0-only
//! The learned window of the guest, halt by halt: is each limit what the replay makes of the halts
//! before it?  The host's cannot be followed: for how long it polled before a short block, which is
//! what it notes then, is not traced.

use crate::support::{guest_on, host_for, kernel, sh, text, workload};
use paratick_core::halts::{known, Window};
use std::collections::BTreeMap;

/// The kernel's default of `guest_halt_poll_ns`.
const MAX: u32 = 200_000;

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
            window.note(number(said, " ns "), MAX, cost);
        }
        let next = window.past[usize::from(window.after)].ns;
        assert_eq!(number::<u32>(said, " window "), next, "{line}\n{window:?}");
        *reasons.entry(why.to_string()).or_default() += 1;
    }
    reasons
}

#[test]
fn each_limit_of_the_guest_is_the_replayed_one() {
    let host = host_for(kernel(), 2, &[]);
    let traced = ["trace_event=power:guest_halt_poll_window", "trace_buf_size=16M"];
    let guest = guest_on(&host, kernel(), 2, "paratick+learn", &traced);
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
    host.shutdown().unwrap();
}
