// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel series promises: who gets virtual ticks, how many, and when they end.

use crate::support::{
    base_kernel, busy_ticks, host_spec, kernel, pair, sh, text, workload, Measured,
};
use paratick_machine::{guest::Guest, host::Host};
use std::ops::RangeInclusive;

/// Where a guest says which of its CPUs have virtual ticks.
pub const STATE: &str = "/sys/devices/system/cpu/virtual_tick";
/// Of a guest with HZ=250, in one second.
pub const PROMISED: RangeInclusive<u64> = 243..=257;

pub fn said(guest: &Guest, line: &str) -> String {
    let result = guest.exec(sh(line)).unwrap();
    assert_eq!(result.code, 0, "{line}: {}", text(&result.stderr));
    text(&result.stdout).trim_end().to_string()
}

pub fn active(guest: &Guest) -> String {
    said(guest, &format!("cat {STATE}/active"))
}

/// A guest without virtual ticks, whoever's doing that is: all its ticks are its own.
pub fn has_only_its_own_ticks(host: &Host, guest: &Guest) -> Measured {
    let measured = busy_ticks(host, guest);
    assert_eq!(measured.report("virtual_ticks"), 0);
    assert_eq!(measured.ticks_delivered.unwrap_or(0), 0);
    // Each of them costs an exit to arm it.
    assert!(measured.deadlines >= *PROMISED.start(), "{measured:?}");
    measured
}

#[test]
fn only_a_patched_guest_on_a_patched_host_gets_virtual_ticks() {
    for host_kernel in [kernel(), base_kernel()] {
        let patched_host = host_kernel == kernel();
        let spec = host_spec(host_kernel, 1, &[]);
        let mut stock = None;
        for guest_kernel in [base_kernel(), kernel()] {
            let patched = guest_kernel == kernel();
            let (host, guest) = pair(spec.clone(), guest_kernel, 1, "paratick", &[]);
            assert_eq!(said(&guest, "uname -r").ends_with("-paratick"), patched);
            if patched && patched_host {
                let measured = busy_ticks(&host, &guest);
                assert_eq!(active(&guest), "0");
                assert!(PROMISED.contains(&measured.report("virtual_ticks")));
                // A tick on the way in or out of the window is in one count only.
                let delivered = measured.ticks_delivered.unwrap();
                assert!(delivered.abs_diff(measured.report("virtual_ticks")) <= 1);
                assert!(measured.deadlines < 50, "{measured:?}");
            } else {
                let measured = has_only_its_own_ticks(&host, &guest);
                assert_eq!(said(&guest, &format!("test -e {STATE} || echo none")), "none");
                assert_eq!(said(&guest, "grep VTK /proc/interrupts || echo none"), "none");
                // What is not used costs no exits.
                let exits = stock.replace(measured.exits).unwrap_or(measured.exits);
                assert!(measured.exits.abs_diff(exits) * 10 <= exits, "{measured:?}, {exits}");
            }
            guest.shutdown().unwrap();
        }
    }
}

#[test]
fn a_busy_vcpu_gets_its_ticks_and_its_times_are_those_of_tickless() {
    let spec = host_spec(kernel(), 1, &[]);
    let mut times = Vec::new();
    for mode in ["tickless", "paratick"] {
        let (host, guest) = pair(spec.clone(), kernel(), 1, mode, &[]);
        if mode == "paratick" {
            let alone = busy_ticks(&host, &guest);
            assert!(PROMISED.contains(&alone.report("virtual_ticks")), "{alone:?}");
            let timer = workload(&host, &guest, "itimer", &["--work", "250"]);
            let rate =
                timer.report("virtual_ticks") as f64 * 4e6 / timer.report("duration_ns") as f64;
            assert!((0.97..=1.03).contains(&rate), "{timer:?}");
        }
        let measured = [("cpu", "150"), ("sleep", "5000")]
            .map(|(name, work)| workload(&host, &guest, name, &["--work", work]));
        times.push(measured.map(|measured| measured.shares()));
        guest.shutdown().unwrap();
    }
    let [[busy, _], [busy_virtual, sleeping]] = times[..] else { panic!("{times:?}") };
    for (one, other) in busy.iter().zip(busy_virtual) {
        assert!((one - other).abs() <= 5.0, "{busy:?} {busy_virtual:?}");
    }
    // Here tickless itself is off: it takes all of the time for idle.
    let [ran, user, system, idle] = sleeping;
    assert!((user + system - ran).abs() <= 5.0, "{sleeping:?}");
    assert!((100.0 - idle - ran).abs() <= 5.0, "{sleeping:?}");
}

/// The vCPU's host CPU does not keep the host's jiffies, and ticks at other times than the one that
/// does.
#[test]
fn a_host_whose_cpus_tick_apart_delivers_all_ticks() {
    let (host, guest) =
        pair(host_spec(kernel(), 1, &["skew_tick=1"]), kernel(), 1, "paratick", &[]);
    let measured = busy_ticks(&host, &guest);
    assert!(PROMISED.contains(&measured.report("virtual_ticks")), "{measured:?}");
    assert!(PROMISED.contains(&measured.report("jiffies")), "{measured:?}");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}
