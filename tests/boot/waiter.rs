// SPDX-License-Identifier: GPL-2.0-only
//! A program that waits, where a kernel has no timerlat: does it find the same?

use crate::{
    support::{kernel, sh, stock, text, PATIENCE},
    timerlat::{explained, pair_of, recorded, share},
};
use assert_cmd::Command;
use paratick_bench::latency::{Recorded, StepRecorder, TimerlatRecorder, WaiterRecorder};
use paratick_build::kernel::DEFAULT_BASE;
use paratick_core::latency::{GuestLatency, Parts, Sampler, Split, Summary};
use paratick_machine::{exec::Exec, guest::Guest, host::Host};
use tempfile::TempDir;

/// A host with the series, and a guest with Debian's kernel.
fn stock_pair(series: &str) -> (Host, Guest) {
    let (host, guest) = pair_of([kernel(), stock(series).bzimage], "tickless", &[]);
    let tracers = guest.exec(sh("cat /sys/kernel/tracing/available_tracers")).unwrap();
    assert!(!text(&tracers.stdout).contains("timerlat"), "nothing is shown");
    (host, guest)
}

fn latency_has_a_name(series: &str) {
    let (host, guest) = stock_pair(series);
    for (command, is_busy) in [(&[][..], false), (&["sh", "-c", "while :; do :; done"], true)] {
        let command: Vec<String> = command.iter().map(|word| word.to_string()).collect();
        let recorded = recorded(&host, &guest, None, &command);
        assert_eq!(recorded.guest.sampler, Sampler::User);
        let (all, _) = explained(&recorded);
        let woken = share(&all, |one| one.parts.wake > 0);
        println!("{series} {command:?}: {woken} were woken");
        assert!(if is_busy { woken < 0.05 } else { woken > 0.8 }, "{woken}");
    }
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

#[test]
fn on_a_stock_kernel_latency_has_a_name_for_every_nanosecond() {
    latency_has_a_name(DEFAULT_BASE);
}

#[test]
#[ignore = "2 minutes"]
fn on_older_and_newer_stock_kernels_latency_has_a_name() {
    latency_has_a_name("6.1");
    latency_has_a_name("7.3");
}

fn medians(sums: &Summary) -> [u64; 2] {
    [sums.irq, sums.thread].map(|spread| spread.unwrap().median_ns)
}

/// Their first deadlines are at least so far from each other, in ns: none is on the other's way.
const APART: u64 = 150_000;

/// Both in one guest, with their own deadlines.
fn at_once(host: &Host, guest: &Guest) -> [Recorded; 2] {
    host.start::<StepRecorder>().unwrap();
    guest.start::<TimerlatRecorder>().unwrap();
    for _ in 0..8 {
        guest.start::<WaiterRecorder>().unwrap();
        let slept = guest.exec(sh("sleep 1.6").timeout(PATIENCE)).unwrap();
        assert_eq!(slept.code, 0);
        let program = guest.read::<WaiterRecorder>().unwrap();
        let tracer = guest.read::<TimerlatRecorder>().unwrap();
        let last = |latency: &GuestLatency| latency.activations.last().unwrap().deadline_ns;
        let apart = last(&program).abs_diff(last(&tracer)) % 1_000_000;
        println!("{apart} ns apart");
        if !(APART..=1_000_000 - APART).contains(&apart) {
            guest.start::<TimerlatRecorder>().unwrap();
            continue;
        }
        let seen = host.read::<StepRecorder>().unwrap();
        let (begin, end) = (program.begin_ns + 500_000_000, program.begin_ns + 1_500_000_000);
        return [tracer, program].map(|latency| {
            let guest_s = latency.begin_ns;
            Recorded {
                host: Some(seen.clone()),
                guest: latency.cut(begin - guest_s, end - begin),
                process: Some(guest.pid()),
            }
        });
    }
    panic!("their deadlines are always near each other");
}

/// Prints each part of both; the medians of their two numbers.
fn compared(of: &str, [tracer, program]: [&(Vec<Split>, Summary); 2]) -> [[u64; 2]; 2] {
    for (at, name) in Parts::NAMES.iter().enumerate() {
        let [one, other] = [tracer, program].map(|both| both.1.parts[at].1.unwrap());
        println!(
            "{of}: {name}: medians {} and {}, sums {} and {}",
            one.median_ns, other.median_ns, one.sum_ns, other.sum_ns
        );
    }
    let both = [medians(&tracer.1), medians(&program.1)];
    println!("{of}: IRQ and thread, of timerlat and of the program: {both:?}");
    both
}

fn means(sums: &Summary) -> impl Iterator<Item = u64> + '_ {
    let parts = sums.parts.iter().map(|(_, spread)| *spread);
    let both = parts.chain([sums.irq, sums.thread]);
    both.map(|spread| spread.unwrap().sum_ns / sums.activations as u64)
}

/// In one guest, at once and one after the other.  Seen: timerlat's medians are longer by 0.8 to
/// 1.3 us for the interrupt and by 0.9 to 1.3 us for the thread.  Of these, 0.8 to 1.0 us are in
/// the guest's IRQ: timerlat reads the clock behind the BPF program that tells of the expiry.
#[test]
fn a_program_that_waits_measures_what_timerlat_measures() {
    const BOUND: u64 = 2_000;
    let (host, guest) = pair_of([kernel(), kernel()], "tickless", &[]);
    let [tracer, program] = at_once(&host, &guest).map(|recorded| explained(&recorded));
    let together = compared("at once", [&tracer, &program]);
    // Each part, and both numbers.
    for (of_tracer, of_program) in means(&tracer.1).zip(means(&program.1)) {
        assert!(of_program.abs_diff(of_tracer) < BOUND, "{of_program} {of_tracer}");
    }
    let samplers = [Sampler::Timerlat, Sampler::User];
    let [tracer, program] = samplers.map(|sampler| {
        let recorded = recorded(&host, &guest, Some(sampler), &[]);
        assert_eq!(recorded.guest.sampler, sampler);
        explained(&recorded)
    });
    // Of these, ticks are in a different number.
    let apart = compared("one after the other", [&tracer, &program]);
    for [tracer, program] in [together, apart] {
        for (of_tracer, of_program) in tracer.into_iter().zip(program) {
            assert!(of_program.abs_diff(of_tracer) < BOUND, "{program:?} {tracer:?}");
        }
    }
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

fn paratick(args: &[&str]) -> String {
    let mut paratick = Command::cargo_bin("paratick").unwrap();
    let output = paratick.args(args).timeout(PATIENCE).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Host and guest with Debian's kernel.
#[test]
fn a_recording_of_a_stock_kernel_is_read_again_as_it_was_shown() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("latency.json").display().to_string();
    let series = format!("debian:{DEFAULT_BASE}");
    let shown =
        paratick(&["lab", "timerlat", "--kernel", &series, "--mode", "tickless", "--save", &file]);
    println!("{shown}");
    assert!(shown.contains("of a program that sleeps"), "{shown}");
    assert_eq!(paratick(&["timerlat", "--recording", &file]), shown);
    let report = paratick(&["timerlat", "--recording", &file, "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["sampler"], &report["with_host"]), (&"user".into(), &true.into()));
}

/// A tenant has no host to ask.
#[test]
fn a_vm_with_a_stock_kernel_measures_itself() {
    let (host, guest) = stock_pair(DEFAULT_BASE);
    let program = assert_cmd::cargo::cargo_bin("paratick").display().to_string();
    let words = "timerlat --for 1s --format json";
    let argv = ["env", "HOME=/tmp", &program].into_iter().chain(words.split(' '));
    let result = guest.exec(Exec::new(argv).timeout(PATIENCE)).unwrap();
    assert_eq!(result.code, 0, "{}", text(&result.stderr));
    let report: serde_json::Value = serde_json::from_slice(&result.stdout).unwrap();
    assert_eq!((&report["sampler"], &report["with_host"]), (&"user".into(), &false.into()));
    let all = report["activations"].as_array().unwrap();
    assert!((998..=1_001).contains(&all.len()), "{}", all.len());
    for one in all {
        let parts = one["parts"].as_object().unwrap();
        let sum: u64 = parts.values().map(|part| part.as_u64().unwrap()).sum();
        assert_eq!(one["thread_ns"], sum, "{one}");
        assert_eq!(one["via"], "local-timer", "{one}");
    }
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}
