// SPDX-License-Identifier: GPL-2.0-only
//! Who balances load for idle CPUs, by the policies of the lab's kernel.

use crate::support::{guest_on, host_for, kernel, tools, PATIENCE};
use paratick_bench::{
    noise::Sides,
    wakeups::{record, Load},
};
use paratick_core::wakeups::{GuestWakeups, What};
use std::{ops::Range, time::Duration};

const TIME: Duration = Duration::from_secs(4);
const TICK_NS: u64 = 4_000_000;
const CPUS: u32 = 4;

/// One CPU works for half a second in turns, and no program is loaded meanwhile.
const WORK: [&str; 7] =
    ["workload", "mix", "--busy-us", "500000", "--sleep-us", "1000000", "--work"];
const TURNS_MS: &str = "20000";

fn recorded(policy: &str) -> GuestWakeups {
    let host = host_for(kernel(), CPUS, &[]);
    let policy = format!("lab_ilb.policy={policy}");
    let guest = guest_on(&host, kernel(), CPUS, "tickless-stop", &[&policy]);
    let agent = tools().agent.display().to_string();
    let command = [&[agent.as_str()], &WORK[..], &[TURNS_MS]].concat();
    let command: Vec<String> = command.into_iter().map(String::from).collect();
    let load = Load { command: &command, ..Load::default() };
    let inside = Sides { host: false, guest: true };
    let recorded = record(&host, &guest, inside, TIME, load, PATIENCE).unwrap();
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
    recorded.guest.unwrap()
}

fn is_tick(what: &What) -> bool {
    matches!(what, What::Expiry { timer, .. } if timer.is_tick())
}

/// When each CPU that ran something did.
fn busy(guest: &GuestWakeups, cpu: u32) -> Vec<Range<u64>> {
    let mut since = None;
    let mut busy = Vec::new();
    for event in guest.events.iter().filter(|event| event.cpu == cpu) {
        match (&event.what, since) {
            (What::Run { .. }, None) => since = Some(event.at_ns),
            (What::Idle, Some(begin)) => {
                busy.push(begin..event.at_ns);
                since = None;
            }
            _ => {}
        }
    }
    busy
}

/// The CPU that works, and when.
fn worker(guest: &GuestWakeups) -> (u32, Range<u64>) {
    let all = (0..CPUS).flat_map(|cpu| busy(guest, cpu).into_iter().map(move |time| (cpu, time)));
    // What comes after it is recorded, too.
    let last = guest.events.last().unwrap().at_ns;
    let all = all.filter(|(_, time)| time.end + 25 * TICK_NS < last);
    all.max_by_key(|(_, time)| time.end - time.start).unwrap()
}

fn ticks(guest: &GuestWakeups, cpu: u32, time: Range<u64>) -> usize {
    let its = guest.events.iter().filter(|event| event.cpu == cpu && time.contains(&event.at_ns));
    its.filter(|event| is_tick(&event.what)).count()
}

/// One idle CPU ticks while another one works, and stops within a tick of the moment when none
/// does.  With today's policy, no idle CPU ticks.
#[test]
fn the_owner_of_idle_balancing_ticks_until_no_cpu_works() {
    for (policy, owners) in [("push", 0), ("owner", 1)] {
        let guest = recorded(policy);
        let (worker, time) = worker(&guest);
        let work_ns = time.end - time.start;
        assert!(work_ns > 400_000_000, "{time:?}");
        let full = (work_ns / TICK_NS) as usize;
        let others: Vec<(u32, usize)> = (0..CPUS)
            .filter(|cpu| *cpu != worker)
            .map(|cpu| (cpu, ticks(&guest, cpu, time.clone())))
            .collect();
        println!("{policy}: CPU {worker} worked for {full} ticks, others had {others:?}");
        assert_eq!(others.iter().filter(|(_, ticks)| *ticks * 10 > full * 9).count(), owners);
        let few = others.iter().filter(|(_, ticks)| *ticks * 10 < full).count();
        assert_eq!(few, CPUS as usize - 1 - owners, "{others:?}");

        let later = time.end + TICK_NS..time.end + 20 * TICK_NS;
        let after: Vec<usize> = (0..CPUS).map(|cpu| ticks(&guest, cpu, later.clone())).collect();
        println!("{policy}: then {after:?}");
        // A timer may be due.
        assert!(after.iter().all(|ticks| *ticks <= 3), "{after:?}");
    }
}
