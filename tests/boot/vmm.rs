// SPDX-License-Identifier: GPL-2.0-only
//! Guests that are reset, saved and migrated: by a QEMU that knows the features, and by one that
//! does not.

pub mod guest;
mod names;
mod qemus;

use crate::support::slowness;
use guest::{in_section, Beat};
use qemus::{Cpu, Qemus};

fn slow() -> u64 {
    slowness().into()
}

/// Virtual ticks and own ones of the busy CPU, in each of these intervals: 25 in 100 ms are right.
fn has_its_tick(beats: &[Beat], from_ms: u64) {
    let judged = beats.windows(2).filter(|pair| pair[0].ms >= beats[0].ms + from_ms);
    let mut count = 0;
    for pair in judged {
        let (ms, ticks) = (pair[1].ms - pair[0].ms, pair[1].all_ticks() - pair[0].all_ticks());
        assert!(ticks * 5 * slow() >= ms, "{ticks} ticks in {ms} ms: {pair:?}");
        count += 1;
    }
    assert!(count >= 5, "too few to judge: {beats:?}");
}

/// Of the busy CPU, and only those that the host delivered.
fn has_virtual_ticks(beats: &[Beat]) -> bool {
    beats.windows(2).all(|pair| {
        let ticks = pair[1].virtual_ticks - pair[0].virtual_ticks;
        ticks * 5 * slow() >= pair[1].ms - pair[0].ms
    })
}

/// Neither CPU stalled, and no sleep ended late.
fn loses_no_timer(beats: &[Beat]) {
    // The guest's clock counts the time in which it was saved.
    assert!(beats[0].late_us < 3_000_000, "a sleep ended late: {:?}", beats[0]);
    for pair in beats.windows(2) {
        assert!(pair[1].ms - pair[0].ms < 150 * slow(), "a pause: {pair:?}");
        assert!(pair[1].slept * slow() > 50, "the sleeper has not slept: {pair:?}");
        assert!(pair[1].late_us < 50_000 * slow(), "a sleep ended late: {pair:?}");
    }
}

/// Ticks that the host delivered to a vCPU which had not asked for them since the last reset, and
/// how many times a vCPU asked.
fn unasked(trace: &str) -> (Vec<&str>, usize) {
    let mut asked = [false; 2];
    let mut times = 0;
    let mut unasked = Vec::new();
    for line in trace.lines() {
        let vcpu = usize::from(line.contains("CPU 1/KVM"));
        if line.contains(" at 0x402 ") {
            // The first thing that the firmware does: it tries a port for messages.
            asked = [false; 2];
        } else if let Some((_, value)) = line.split_once("msr_write 4b564d10 = ") {
            asked[vcpu] = value.trim() != "0x0";
            times += usize::from(asked[vcpu]);
        } else if line.contains("kvm_pv_tick: ") && !asked[vcpu] {
            // Else it was due, but not delivered.
            let delivered = [" delivered,", " timer,"];
            unasked.extend(delivered.iter().any(|what| line.contains(what)).then_some(line));
        }
    }
    (unasked, times)
}

/// Lets the host trace virtual ticks, guests' writes to the MSR, and the start of the firmware.
const TRACE: &str = "sh cd /sys/kernel/tracing && echo 16384 >buffer_size_kb
    echo 'ecx == 0x4b564d10 && write == 1' >events/kvm/kvm_msr/filter
    echo 'port == 0x402' >events/kvm/kvm_pio/filter
    for event in kvm_pv_tick kvm_msr kvm_pio; do echo 1 >events/kvm/$event/enable; done";
const SHOW_TRACE: &str = "sh echo; echo '== trace'; cat /sys/kernel/tracing/trace";
const ONLY_WRITES: &str = "sh echo 0 >/sys/kernel/tracing/events/kvm/kvm_pv_tick/enable";

/// By then a guest has run for two seconds.  A TSC that is restored within a second of what the
/// last reset's has come to is one more vCPU's for KVM, and set to that: the guest's would begin at
/// 0 again, and its deadlines be late by as much (`kvm_synchronize_tsc()`).
const OLD: &str = "wait a 20 late_us";

/// Guests' writes to the MSR, in the host's trace after the mark `begin`.
fn writes(said: &str) -> usize {
    let (_, trace) = said.split_once("\n== trace\n").unwrap();
    let (_, after) = trace.split_once(": == begin\n").unwrap();
    after.lines().filter(|line| line.contains("msr_write 4b564d10")).count()
}

#[test]
fn after_a_reset_nobody_gets_ticks_that_he_has_not_asked_for() {
    let qemus = Qemus::new();
    let said = qemus.run(&[
        TRACE,
        &qemus.start("a", Cpu::Stock, ""),
        "wait a 1 beat 5 ",
        "mark reset by sysrq",
        "type a b",
        "wait a 1 beat 5 ",
        "mark reset by QEMU",
        "monitor a system_reset",
        "wait a 1 beat 5 ",
        "mark reset by a panic",
        "type a c",
        "wait a 1 beat 5 ",
        SHOW_TRACE,
    ]);
    let (_, trace) = said.split_once("\n== trace\n").unwrap();
    for name in ["reset by sysrq", "reset by QEMU", "reset by a panic"] {
        let beats = in_section(&said, name);
        let last = &beats[beats.len() - 3..];
        assert!(has_virtual_ticks(last), "{last:?}");
    }
    let (unasked, asked) = unasked(trace);
    // Four boots, two vCPUs.
    assert!(asked >= 8, "asked {asked} times");
    assert!(unasked.is_empty(), "{} ticks: {}", unasked.len(), unasked.join("\n"));
}

#[test]
fn a_qemu_that_knows_the_msr_saves_and_migrates_it() {
    let qemus = Qemus::new();
    let said = qemus.run(&[
        TRACE,
        ONLY_WRITES,
        &qemus.start("a", Cpu::Named, ""),
        OLD,
        "mark begin",
        "monitor a savevm one",
        "mark saved",
        "wait a 9 late_us",
        "monitor a loadvm one",
        "mark loaded",
        "wait a 9 late_us",
        &qemus.start("b", Cpu::Named, "-incoming unix:/tmp/b.in"),
        "monitor a migrate unix:/tmp/b.in",
        "end a",
        "mark migrated",
        "wait b 9 late_us",
        SHOW_TRACE,
    ]);
    for name in ["saved", "loaded", "migrated"] {
        let beats = in_section(&said, name);
        println!("{name}: {beats:?}");
        loses_no_timer(&beats);
        assert!(has_virtual_ticks(&beats), "{name}: {beats:?}");
    }
    assert_eq!(writes(&said), 0, "the guest had to ask again");
}

#[test]
fn a_guest_whose_new_host_has_no_virtual_ticks_has_its_own_within_50_periods() {
    let qemus = Qemus::new();
    let said = qemus.run(&[
        &qemus.start("a", Cpu::Named, ""),
        OLD,
        &qemus.start("b", Cpu::NO_TICKS, "-incoming unix:/tmp/b.in"),
        "monitor a migrate unix:/tmp/b.in",
        "end a",
        "mark without",
        "wait b 9 late_us",
        &qemus.start("c", Cpu::Named, "-incoming unix:/tmp/c.in"),
        "monitor b migrate unix:/tmp/c.in",
        "end b",
        "mark back",
        "wait c 9 late_us",
    ]);
    for name in ["without", "back"] {
        let beats = in_section(&said, name);
        println!("{name}: {beats:?}");
        loses_no_timer(&beats);
        has_its_tick(&beats, 200);
    }
    // It has its own tick now, and no other.
    let back = in_section(&said, "back");
    assert_eq!(back[0].virtual_ticks, back[back.len() - 1].virtual_ticks, "{back:?}");
}

/// Lets the host trace halts with a deadline, and the hypercalls that ask for one.
const TRACE_HALTS: &str = "sh cd /sys/kernel/tracing && echo 16384 >buffer_size_kb
    echo 'nr == 20' >events/kvm/kvm_hypercall/filter
    for event in kvm_halt_until kvm_hypercall; do echo 1 >events/kvm/$event/enable; done";

/// How many of them there were between two marks.
fn halts(said: &str, from: &str, to: &str) -> (usize, usize) {
    let (_, trace) = said.split_once("\n== trace\n").unwrap();
    let (_, after) = trace.split_once(&format!(": == {from}\n")).unwrap();
    let (between, _) = after.split_once(&format!(": == {to}\n")).unwrap();
    let count = |name: &str| between.lines().filter(|line| line.contains(name)).count();
    (count("kvm_halt_until: "), count("kvm_hypercall: "))
}

#[test]
fn a_guest_that_is_refused_to_halt_with_a_deadline_loses_no_timer() {
    let qemus = Qemus::new();
    let said = qemus.run(&[
        TRACE_HALTS,
        &qemus.start("a", Cpu::Named, ""),
        OLD,
        "mark begin",
        "monitor a savevm one",
        "mark saved",
        "wait a 5 late_us",
        "monitor a loadvm one",
        "mark loaded",
        "wait a 5 late_us",
        &qemus.start("b", Cpu::NO_HALTS, "-incoming unix:/tmp/b.in"),
        "monitor a migrate unix:/tmp/b.in",
        "end a",
        "mark refused",
        "wait b 9 late_us",
        &qemus.start("c", Cpu::Named, "-incoming unix:/tmp/c.in"),
        "monitor b migrate unix:/tmp/c.in",
        "end b",
        "mark back",
        "wait c 7 late_us",
        "mark end",
        SHOW_TRACE,
    ]);
    for name in ["saved", "loaded", "refused", "back"] {
        let beats = in_section(&said, name);
        println!("{name}: {beats:?}");
        loses_no_timer(&beats);
        assert!(has_virtual_ticks(&beats), "{name}: {beats:?}");
    }
    let (halted, asked) = halts(&said, "saved", "loaded");
    assert!(halted > 100 && halted == asked, "{halted} of {asked} halts");
    // Each CPU asks its new host once, which may be before the old one has ended, and never again.
    let (halted, asked) = halts(&said, "loaded", "back");
    assert!(halted > 100 && (1..=2).contains(&(asked - halted)), "{halted} of {asked} halts");
    assert_eq!(halts(&said, "refused", "back").0, 0);
    assert_eq!(halts(&said, "back", "end"), (0, 0));
}

#[test]
fn a_guest_whose_msr_is_lost_has_a_tick_again_within_50_periods() {
    let qemus = Qemus::new();
    let said = qemus.run(&[
        TRACE,
        ONLY_WRITES,
        &qemus.start("a", Cpu::Stock, ""),
        OLD,
        &qemus.start("b", Cpu::Stock, "-incoming unix:/tmp/b.in"),
        "mark begin",
        "monitor a migrate unix:/tmp/b.in",
        "end a",
        "mark lost",
        "wait b 9 late_us",
        SHOW_TRACE,
    ]);
    let beats = in_section(&said, "lost");
    println!("{beats:?}");
    loses_no_timer(&beats);
    has_its_tick(&beats, 200);
    assert!(writes(&said) >= 1, "it did not have to ask: nothing was lost");
}
