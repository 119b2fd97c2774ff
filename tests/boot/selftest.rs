// SPDX-License-Identifier: GPL-2.0-only
//! The series' KVM selftests, on hosts of the lab: a guest of their own that asks for anything.

use crate::support::{base_kernel, host_for, host_spec, kernel, sh, text, tools};
use paratick_build::kernel as kernels;
use paratick_machine::{exec::ExecResult, host::Host, spec::Stall};
use std::time::Duration;

/// For 60 runs in turn.
const PATIENCE: Duration = Duration::from_secs(2600);

/// kselftest's exit code for a test that cannot run here.
const SKIPPED: i32 = 4;

/// Runs one on a host of two CPUs with these kernel parameters.
fn selftest(name: &str, append: &[&str], options: &str) -> ExecResult {
    println!("{append:?}");
    selftest_on(host_for(kernel(), 1, append), "", name, options)
}

fn selftest_on(host: Host, with: &str, name: &str, options: &str) -> ExecResult {
    let name = format!("x86_64/{name}");
    let program = kernels::selftest(kernels::DEFAULT_BASE, &name, &mut |_| {});
    let program = program.expect("the selftest, built").display().to_string();
    // In memory: no page of it comes over 9p in the middle.
    let line = format!("cp {program} /tmp/selftest && {with} /tmp/selftest {options}");
    let result = host.exec(sh(&line).timeout(PATIENCE)).unwrap();
    let (said, error) = (text(&result.stdout), text(&result.stderr));
    println!("{name} {options}\n{said}{error}");
    host.shutdown().unwrap();
    result
}

fn passes(name: &str, append: &[&str], options: &str) {
    let result = selftest(name, append, options);
    assert_eq!(result.code, 0, "{}{}", text(&result.stdout), text(&result.stderr));
    assert!(text(&result.stdout).contains(" fail:0 "));
}

#[test]
fn a_guest_gets_the_rate_it_asks_for_whatever_the_host_s() {
    passes("pv_tick_test", &[], "");
}

/// For kernels with `NO_HZ_FULL`; without it the parameter means nothing.
#[test]
fn a_guest_on_a_nohz_full_cpu_gets_the_rate_it_asks_for() {
    passes("pv_tick_test", &["nohz_full=1", "isolcpus=1"], "-c 1");
}

#[test]
fn a_host_told_not_to_offers_no_virtual_ticks() {
    assert_eq!(selftest("pv_tick_test", &["kvm.pv_tick=0"], "").code, SKIPPED);
}

#[test]
fn a_guest_halts_until_its_deadline_and_no_longer() {
    passes("halt_until_test", &[], "");
}

/// A CPU is taken away for 30 us, 10 000 times a second, as by an SMI.
#[test]
fn no_deadline_is_early_where_cpus_are_taken_away() {
    for (image, kept) in [(kernel(), true), (base_kernel(), false)] {
        let mut spec = host_spec(image, 1, &[]);
        spec.emulation.parallel_clock = true;
        spec.emulation.stall = Some(Stall { cpu: 1, ns: 30_000, every_ns: 100_000 });
        let host = Host::boot(spec, &tools(), &mut |_| {}).unwrap();
        let result = selftest_on(host, "taskset -c 1", "tsc_deadline_test", "-n 60000");
        let (said, error) = (text(&result.stdout), text(&result.stderr));
        assert!(said.contains(" of 60000 timers were early"), "{said}{error}");
        assert_eq!(result.code == 0, kept, "{said}{error}");
    }
}

/// Before KVM read the guest's TSC and its own clock in that order, 9 of 60 runs had an interrupt
/// that was early.
#[test]
#[ignore = "10 minutes"]
fn a_deadline_that_is_kept_through_60_races_is_neither_lost_nor_early() {
    passes(
        "halt_until_test",
        &[],
        "-t races_keep && for i in $(seq 59); do \
        /tmp/selftest -t races_keep >/tmp/out || { cat /tmp/out; exit 1; }; done",
    );
}

#[test]
fn a_host_told_not_to_offers_no_halt_with_a_deadline() {
    assert_eq!(selftest("halt_until_test", &["kvm.halt_until=0"], "").code, SKIPPED);
}

/// Windows are tested as what they then are: refused.
#[test]
fn a_host_told_not_to_offers_no_windows_for_halts() {
    passes("halt_until_test", &["kvm.halt_window=0"], "-t window_refused");
}

#[test]
fn a_guest_s_record_has_each_exit_and_all_of_the_time() {
    passes("exit_record_test", &[], "");
}

/// What a guest, its VMM and the host's administrator may do, at random; the seed is printed.
#[test]
fn nothing_breaks_in_twenty_seconds_of_random_requests() {
    passes("pv_fuzz_test", &[], "-t 20");
}

#[test]
#[ignore = "10 minutes"]
fn nothing_breaks_in_ten_minutes_of_random_requests() {
    passes("pv_fuzz_test", &[], "-t 600");
}

#[test]
fn a_host_told_not_to_offers_no_exit_records() {
    assert_eq!(selftest("exit_record_test", &["kvm.exit_record=0"], "").code, SKIPPED);
}
