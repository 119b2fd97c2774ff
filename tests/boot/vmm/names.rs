// SPDX-License-Identifier: GPL-2.0-only
//! Each feature has a name, is there unasked, can be left out, and has no state after a reset; what
//! a guest uses goes with it.

use super::{
    guest::in_section,
    has_its_tick, has_virtual_ticks, loses_no_timer,
    qemus::{Cpu, Qemus},
    writes, OLD, ONLY_WRITES, SHOW_TRACE, TRACE,
};
use crate::support::{host_spec, kernel, mode, resumed};
use paratick_bench::verify::check_mode;
use paratick_core::{size::Size, wire::GuestConfig};

/// In `/tmp/saved`: the subsections for KVM's MSRs in what QEMU sends of a VM, and one name that
/// is always there.
const SAVE: &str = "migrate \"exec:tail -c 1000000 | LC_ALL=C grep -aoE \
                    'cpu/[a-z_]*_msr|cpu_common' | sort -u | xargs >/tmp/saved\"";
/// The same as it is, for another QEMU.
const KEEP: &str = "migrate \"exec:cat >/tmp/kept\"";
const SHOW_SAVED: &str = "sh echo; echo \"saved: $(cat /tmp/saved)\"";

/// How often a guest moves.
const TIMES: usize = 20;

/// Whether the MSRs of ticks and of exit records were in what QEMU sent after that mark.
fn saved(said: &str, mark: &str) -> [bool; 2] {
    let (_, after) = said.split_once(&format!("\n== {mark}\n")).expect("a mark");
    let line = after.lines().find_map(|line| line.strip_prefix("saved: ")).expect("saved");
    println!("{mark}: {line}");
    assert!(line.contains("cpu_common"), "{line}");
    ["cpu/pv_tick_msr", "cpu/exit_record_msr"].map(|name| line.contains(name))
}

/// What a guest says that it has of its host, after that mark.
fn has<'a>(said: &'a str, mark: &str) -> &'a str {
    let (_, after) = said.split_once(&format!("\n== {mark}\n")).expect("a mark");
    after.lines().find_map(|line| line.strip_prefix("has ")).expect("it says")
}

#[test]
fn a_migratable_cpu_host_has_each_feature_and_each_can_be_left_out() {
    const ROWS: [(&str, Cpu, &str); 7] = [
        ("all", Cpu::Named, "f ticks 0-1 until 0-1 window off record on"),
        ("ticks", Cpu::But(",kvm-pv-tick=off"), "e ticks - until - window - record on"),
        ("until", Cpu::But(",kvm-halt-until=off"), "d ticks 0-1 until - window - record on"),
        ("window", Cpu::But(",kvm-halt-window=off"), "7 ticks 0-1 until 0-1 window - record on"),
        ("record", Cpu::But(",kvm-exit-record=off"), "b ticks 0-1 until 0-1 window off record -"),
        ("nothing", Cpu::NOTHING, "0 ticks - until - window - record -"),
        ("Debian's", Cpu::Plain, "0 ticks - until - window - record -"),
    ];
    let qemus = Qemus::new();
    let mut steps = Vec::new();
    for (name, cpu, _) in ROWS {
        steps.push(format!("mark {name}"));
        steps.push(format!("start a {}", qemus.line("a", cpu, "record", "")));
        steps.extend(["wait a 1 has .*", "wait a 3 late_us", "end a"].map(String::from));
    }
    let said = qemus.run(&steps.iter().map(String::as_str).collect::<Vec<_>>());
    for (name, _, expected) in ROWS {
        assert_eq!(has(&said, name), expected, "{name}");
    }
}

#[test]
fn a_lab_s_guest_under_a_migratable_cpu_host_is_in_the_default_mode() {
    for name in ["paratick", "paratick+coalesce"] {
        let mode = mode(name);
        let mut config = GuestConfig::new(kernel(), 2, Size::mib(512), mode);
        // The last word counts.
        config.cpu = "migratable=on".into();
        let (host, guest) = resumed(host_spec(kernel(), 2, &[]), config);
        check_mode(&guest, mode, 2).unwrap();
        guest.shutdown().unwrap();
        host.shutdown().unwrap();
    }
}

#[test]
fn each_msr_is_zero_after_a_reset() {
    let qemus = Qemus::new();
    let save = format!("monitor a {SAVE}");
    let start = format!("start a {}", qemus.line("a", Cpu::Named, "record", ""));
    let said = qemus.run(&[
        &start,
        OLD,
        "monitor a stop",
        &save,
        "mark used",
        SHOW_SAVED,
        // Or QEMU refuses to save it again.
        "monitor a cont",
        "monitor a stop",
        "monitor a system_reset",
        &save,
        "mark reset",
        SHOW_SAVED,
        "mark booted",
        "monitor a cont",
        "wait a 1 has .*",
        "wait a 5 late_us",
    ]);
    assert_eq!(saved(&said, "used"), [true, true]);
    assert_eq!(saved(&said, "reset"), [false, false]);
    // And may be used again.
    assert_eq!(has(&said, "booted"), "f ticks 0-1 until 0-1 window off record on");
}

#[test]
fn a_qemu_without_the_names_takes_only_a_guest_that_does_not_use_them() {
    let qemus = Qemus::new();
    let taken = qemus.line("b", Cpu::Plain, "", "-incoming 'exec:cat /tmp/kept'");
    let refused = format!("sh echo; timeout 60 {taken} -serial null -monitor none 2>&1; echo $?");
    let keep = format!("monitor a {KEEP}");
    let said = qemus.run(&[
        &qemus.start("a", Cpu::Named, ""),
        OLD,
        &keep,
        "mark used",
        &refused,
        "end a",
        &qemus.start("a", Cpu::NOTHING, ""),
        OLD,
        &qemus.start("b", Cpu::Plain, "-incoming unix:/tmp/b.in"),
        "monitor a migrate unix:/tmp/b.in",
        "end a",
        "mark there",
        "wait b 9 late_us",
        &qemus.start("c", Cpu::NOTHING, "-incoming unix:/tmp/c.in"),
        "monitor b migrate unix:/tmp/c.in",
        "end b",
        "mark back",
        "wait c 9 late_us",
    ]);
    let (_, after) = said.split_once("\n== used\n").unwrap();
    assert!(after.contains("error while loading state"), "{after}");
    for name in ["there", "back"] {
        let beats = in_section(&said, name);
        println!("{name}: {beats:?}");
        loses_no_timer(&beats);
        has_its_tick(&beats, 200);
        assert_eq!(beats[beats.len() - 1].virtual_ticks, 0);
    }
}

/// Steps that move a guest as often, from `a` to `b` and back, each time to a QEMU of this kind.
fn moves(qemus: &Qemus, argument: &str, to: impl Fn(usize) -> Cpu) -> Vec<String> {
    let names = ["a", "b"];
    let mut steps = Vec::new();
    for time in 0..TIMES {
        let (from, next) = (names[time % 2], names[(time + 1) % 2]);
        let incoming = format!("-incoming unix:/tmp/{next}.in");
        steps.push(format!("start {next} {}", qemus.line(next, to(time), argument, &incoming)));
        steps.push(format!("monitor {from} migrate unix:/tmp/{next}.in"));
        steps.push(format!("end {from}"));
        steps.push(format!("mark {time}"));
        steps.push(format!("wait {next} 9 late_us"));
    }
    steps
}

#[test]
#[ignore = "3 minutes"]
fn a_guest_that_moves_20_times_loses_no_timer_and_keeps_what_it_uses() {
    let qemus = Qemus::new();
    let mut steps: Vec<String> = [TRACE, ONLY_WRITES].map(String::from).into();
    steps.push(format!("start a {}", qemus.line("a", Cpu::Named, "record", "")));
    steps.extend([OLD, "mark begin"].map(String::from));
    steps.extend(moves(&qemus, "record", |_| Cpu::Named));
    steps.extend(["monitor a stop".into(), format!("monitor a {SAVE}"), "mark end".into()]);
    steps.extend([SHOW_SAVED, SHOW_TRACE].map(String::from));
    let said = qemus.run(&steps.iter().map(String::as_str).collect::<Vec<_>>());
    for time in 0..TIMES {
        let beats = in_section(&said, &time.to_string());
        println!("{time}: {beats:?}");
        loses_no_timer(&beats);
        assert!(has_virtual_ticks(&beats), "{time}: {beats:?}");
    }
    assert_eq!(writes(&said), 0, "the guest had to ask again");
    assert_eq!(saved(&said, "end"), [true, true]);
}

#[test]
#[ignore = "3 minutes"]
fn a_guest_that_moves_20_times_to_hosts_without_ticks_and_back_loses_no_timer() {
    let qemus = Qemus::new();
    let mut steps = vec![qemus.start("a", Cpu::Named, ""), OLD.into()];
    let to = |time: usize| if time.is_multiple_of(2) { Cpu::NO_TICKS } else { Cpu::Named };
    steps.extend(moves(&qemus, "", to));
    let said = qemus.run(&steps.iter().map(String::as_str).collect::<Vec<_>>());
    for time in 0..TIMES {
        let beats = in_section(&said, &time.to_string());
        println!("{time}: {beats:?}");
        loses_no_timer(&beats);
        has_its_tick(&beats, 200);
    }
}
