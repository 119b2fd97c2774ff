// SPDX-License-Identifier: GPL-2.0-only
//! The series' KVM selftest, on hosts of the lab: a guest of its own that asks for any rate.

use crate::support::{host_for, kernel, sh, text};
use paratick_build::kernel as kernels;
use paratick_machine::exec::ExecResult;

/// kselftest's exit code for a test that cannot run here.
const SKIPPED: i32 = 4;

/// Runs it on a host of two CPUs with these kernel parameters.
fn selftest(append: &[&str], options: &str) -> ExecResult {
    let program = kernels::selftest(kernels::DEFAULT_BASE, "x86_64/pv_tick_test", &mut |_| {});
    let program = program.expect("the selftest, built").display().to_string();
    let host = host_for(kernel(), 1, append);
    // In memory: a page of it that came over 9p in the middle would let the host's clock leap.
    let line = format!("cp {program} /tmp/pv_tick_test && /tmp/pv_tick_test {options}");
    let result = host.exec(sh(&line)).unwrap();
    println!("{append:?} {options}\n{}", text(&result.stdout));
    host.shutdown().unwrap();
    result
}

fn passes(append: &[&str], options: &str) {
    let result = selftest(append, options);
    assert_eq!(result.code, 0, "{}", text(&result.stdout));
    assert!(text(&result.stdout).contains(" fail:0 "));
}

#[test]
fn a_guest_gets_the_rate_it_asks_for_whatever_the_host_s() {
    passes(&[], "");
}

#[test]
fn a_guest_on_a_nohz_full_cpu_gets_the_rate_it_asks_for() {
    passes(&["nohz_full=1", "isolcpus=1"], "-c 1");
}

#[test]
fn a_host_told_not_to_offers_no_virtual_ticks() {
    assert_eq!(selftest(&["kvm.pv_tick=0"], "").code, SKIPPED);
}
