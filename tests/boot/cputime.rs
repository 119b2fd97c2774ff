// SPDX-License-Identifier: GPL-2.0-only
//! Does the scheduler tick see the CPU time that guests use?  It samples it, on hosts and guests
//! that sleep and wake at all times.
//!
//! Assumed of the kernel, whichever way it accounts for CPU time: that the tick samples who uses
//! the CPU, as it does on all CPUs but those of `nohz_full=`; and that interrupts take less of the
//! time than the margins here.  With `IRQ_TIME_ACCOUNTING` a thread's clock leaves them out.

use crate::support::{host_spec, kernel, pair, workload, Measured};

/// Busy and asleep, in us, and by how many percent the sleeps vary.
const MIXES: [(u32, u32, u32); 7] = [
    (1000, 3000, 0),
    (1000, 3000, 10),
    (2000, 2000, 0),
    (2000, 2000, 10),
    (3000, 1000, 0),
    (3000, 1000, 10),
    (10_000, 10_000, 10),
];

/// Ticks that came, in percent of those that the busy time is worth.
fn ticks_percent(measured: &Measured) -> f64 {
    let due = measured.report("ran_ns") as f64 * measured.report("hz") as f64 / 1e9;
    100.0 * measured.report("virtual_ticks") as f64 / due
}

/// All of /proc/stat, in percent of the wall clock, of one CPU.
fn accounted_percent(measured: &Measured) -> f64 {
    let all = ["user", "system", "idle", "steal"];
    let all: u64 = all.iter().map(|name| measured.report(&format!("cpu_{name}_ticks"))).sum();
    100.0 * all as f64 * 1e7 / measured.report("duration_ns") as f64
}

/// What /proc/stat takes for busy, and what the thread's clock says, in percent of the wall clock.
fn busy_percent(measured: &Measured) -> (f64, f64) {
    let wall = measured.report("duration_ns") as f64;
    let busy = measured.report("cpu_user_ticks") + measured.report("cpu_system_ticks");
    (100.0 * busy as f64 * 1e7 / wall, 100.0 * measured.report("ran_ns") as f64 / wall)
}

/// A mix of nearly the tick's own period meets the ticks in few phases: one run is off by up to a
/// fifth, the mean of all is not.
#[test]
fn a_guest_that_computes_and_sleeps_gets_the_ticks_that_its_time_is_worth() {
    let (host, guest) = pair(host_spec(kernel(), 1, &[]), kernel(), 1, "paratick", &[]);
    let mut sums = [0.0, 0.0];
    for (busy, sleep, jitter) in MIXES {
        let [busy, sleep, jitter] = [busy, sleep, jitter].map(|number| number.to_string());
        let options = ["--work", "8000", "--busy-us", &busy, "--sleep-us", &sleep];
        let options = [&options[..], &["--jitter", &jitter]].concat();
        let measured = workload(&host, &guest, "mix", &options);
        let (ticks, accounted) = (ticks_percent(&measured), accounted_percent(&measured));
        let (sampled, exact) = busy_percent(&measured);
        println!(
            "{options:?}: {ticks:.1} % of the ticks, {accounted:.1} % of the time, \
             {sampled:.1} % busy where it is {exact:.1} %"
        );
        assert!((70.0..=130.0).contains(&ticks), "{options:?}: {measured:?}");
        assert!((sampled - exact).abs() <= 12.0, "{options:?}: {measured:?}");
        sums[0] += ticks;
        sums[1] += accounted;
    }
    let [ticks, accounted] = sums.map(|sum| sum / MIXES.len() as f64);
    println!("in the mean {ticks:.1} % of the ticks, {accounted:.1} % of the time");
    assert!((92.0..=108.0).contains(&ticks), "{ticks}");
    assert!((97.0..=103.0).contains(&accounted), "{accounted}");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

#[test]
fn time_spent_polling_is_counted_once() {
    let (host, guest) = pair(host_spec(kernel(), 1, &[]), kernel(), 1, "paratick+poll", &[]);
    for sleep in ["150", "1000", "3000"] {
        // Without jitter, 250 µs go into a tick 16 times: it would always meet the same phase.
        let options = ["--work", "4000", "--busy-us", "100", "--sleep-us", sleep, "--jitter", "20"];
        let measured = workload(&host, &guest, "mix", &options);
        let accounted = accounted_percent(&measured);
        println!("{options:?}: {accounted:.1} % of the time");
        assert!((90.0..=110.0).contains(&accounted), "{options:?}: {measured:?}");
    }
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}
