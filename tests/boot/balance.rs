// SPDX-License-Identifier: GPL-2.0-only
//! Who balances load for idle CPUs, by the policies of the lab's kernel.

use crate::{
    series::said,
    support::{
        busy_ticks, compile, kernel, pair, parallel_spec, row_of, sh, text, tools, PATIENCE,
    },
};
use paratick_bench::{
    noise::Sides,
    wakeups::{record, Load},
};
use paratick_core::wakeups::{GuestWakeups, What};
use paratick_machine::{guest::Guest, host::Host};
use serde_json::json;
use std::{ops::Range, time::Duration};

const TIME: Duration = Duration::from_secs(4);
const TICK_NS: u64 = 4_000_000;
const CPUS: u32 = 4;

/// One CPU works for half a second in turns.
const WORK: [&str; 7] =
    ["workload", "mix", "--busy-us", "500000", "--sleep-us", "1000000", "--work"];
const TURNS_MS: &str = "20000";

fn recorded(policy: &str) -> GuestWakeups {
    let policy = format!("lab_ilb.policy={policy}");
    let host = parallel_spec(CPUS);
    let (host, guest) = pair(host, kernel(), CPUS, "tickless-stop", &[&policy]);
    let agent = tools().agent.display().to_string();
    let command = [&[agent.as_str()], &WORK[..], &[TURNS_MS]].concat();
    let command: Vec<String> = command.into_iter().map(String::from).collect();
    let load = Load { command: &command, ..Load::default() };
    let inside = Sides::GUEST;
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

const SPREAD_C: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/balance/spread.c");
const SPREAD: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/spread");

/// A guest in `paratick` whose busy CPUs balance for idle ones, or kick one of them.
fn guest_that(cpus: u32, balances: bool, append: &[&str]) -> (Host, Guest) {
    let (host, guest) = pair(parallel_spec(cpus), kernel(), cpus, "paratick", append);
    let feature = if balances { "VIRTUAL_TICK_ILB" } else { "NO_VIRTUAL_TICK_ILB" };
    let switch = format!("echo {feature} >/sys/kernel/debug/sched/features");
    assert_eq!(guest.exec(sh(&switch)).unwrap().code, 0);
    (host, guest)
}

/// Counts kicks of idle CPUs for a while, in which one CPU computes.
const KICKS: &str = r"
    cd /sys/kernel/tracing
    while :; do :; done &
    sleep 0.2
    echo 1 >events/csd/csd_queue_cpu/enable; sleep 1; echo 0 >events/csd/csd_queue_cpu/enable
    kill $!
    grep -c nohz_csd_func trace || true";

/// A CPU with one task looks for load to balance in its tick, and finds none.
#[test]
fn no_idle_cpu_is_woken_to_look_for_load() {
    let kicks = [false, true].map(|balances| {
        let (host, guest) = guest_that(2, balances, &[]);
        let kicks: u64 = said(&guest, KICKS).parse().unwrap();
        let causes = busy_ticks(&host, &guest).causes;
        println!("busy CPUs balance: {balances}; {kicks} kicks, {causes:?}");
        let who = if balances { "the busy CPU" } else { "an idle one, by an IPI" };
        row_of("kicks", &[("who balances", json!(who)), ("IPIs in a second", json!(kicks))]);
        guest.shutdown().unwrap();
        kicks
    });
    // A tick may find something more urgent than that task.
    assert!(kicks[0] >= 10 && kicks[1] * 10 <= kicks[0], "{kicks:?}");
}

/// Where softirqs are threads, the one that balances would be load to be moved away.
#[test]
fn threaded_softirqs_move_no_lone_task() {
    let (host, guest) = guest_that(3, true, &["threadirqs"]);
    let line = "for i in 1 2; do while :; do :; done & all=\"$all $!\"; done; sleep 0.3; \
        moved() { cat $(for p in $all; do echo /proc/$p/sched; done) | \
        awk '/nr_migrations/ { sum += $3 } END { print sum }'; }; \
        before=$(moved); sleep 0.5; echo $(($(moved) - before)); kill $all";
    let moved: u64 = said(&guest, line).parse().unwrap();
    println!("moved {moved} times");
    assert!(moved < 10, "{moved}");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// Not later than with a kick.
#[test]
fn load_that_can_be_balanced_is() {
    compile(SPREAD_C, SPREAD);
    let means = [false, true].map(|balances| {
        let (_host, guest) = guest_that(3, balances, &[]);
        let result = guest.exec(sh(&format!("{SPREAD} 35"))).unwrap();
        assert_eq!(result.code, 0);
        let out = text(&result.stdout);
        let mut times: Vec<u64> = out.lines().map(|ns| ns.parse().unwrap()).collect();
        times.sort_unstable();
        println!("busy CPUs balance: {balances}; {times:?}");
        let who = if balances { "the busy CPU" } else { "an idle one, by an IPI" };
        let ms = |at: usize| json!(times[at] as f64 / 1e6);
        let most = times.len() - 1;
        let cells = [("half within, ms", ms(times.len() / 2)), ("all within, ms", ms(most))];
        row_of("balanced-after", &[&[("who balances", json!(who))], &cells[..]].concat());
        guest.shutdown().unwrap();
        let number = times.len() as f64;
        let mean = times.iter().sum::<u64>() as f64 / number;
        let squares = times.iter().map(|&ns| (ns as f64 - mean).powi(2)).sum::<f64>();
        (mean, squares / (number - 1.0) / number)
    });
    // One in seven to one in two takes five to ten times as long as the others, with either: two
    // standard errors of the difference are chance.
    let [(kicked, of_kicked), (balanced, of_balanced)] = means;
    let chance = 2.0 * (of_kicked + of_balanced).sqrt();
    println!("mean: {kicked:.0} ns kicked, {balanced:.0} ns balanced; by chance {chance:.0} ns");
    assert!(balanced <= kicked + TICK_NS as f64 + chance);
}
