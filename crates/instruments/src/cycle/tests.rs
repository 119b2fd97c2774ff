// SPDX-License-Identifier: GPL-2.0-only

use super::{
    choose,
    choose::tests::made,
    story::{self, Gap, Window},
    trace::{self, BadTrace, Record, Seen},
    Traces,
};
use paratick_core::{
    cause::Cause,
    cycle::{Event, IdleCycle, Until, Waker, What},
};
use proptest::prelude::*;

/// Three cycles of a real trace.
const SLEEP: &str = include_str!("sleep.trace");

const EVERYTHING: Window =
    Window { open: 0, close: u64::MAX, ns_per_tick: 1.0, guest_offset: None };

/// A trace of lines `clock thread event: text`.
fn traced(lines: &[&str]) -> String {
    let count = lines.len();
    let mut text = format!("# entries-in-buffer/entries-written: {count}/{count}   #P:2\n");
    for line in lines {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().unwrap();
        let (clock, thread, event) = (word(), word(), word());
        text += &format!("       CPU 0/KVM-{thread}     [001] d.h1. {clock}: {event}\n");
    }
    text
}

fn exit(clock: u64, vcpu: u32, reason: &str) -> String {
    let info1 = u32::from(reason == "msr");
    let thread = 100 + vcpu;
    format!(
        "{clock} {thread} kvm_exit: vcpu {vcpu} reason {reason} rip 0xffffffff8100 \
         info1 0x{info1:016x} info2 0x0000000000000000 intr_info 0x00000000 error_code 0x00000000"
    )
}

fn told(lines: &[&str]) -> Result<Vec<Event>, Gap> {
    story::tell(&trace::parse(&traced(lines)).unwrap(), 0, EVERYTHING)
}

#[test]
fn a_clocks_rate_comes_from_the_marks_that_are_in_both_traces() {
    let trace = |from: &str, to: &str| {
        let mark = |clock: &str, idx| {
            format!(
                "       CPU 0/KVM-85      [001] d..1. {clock}: kvm_cpuid: func 50415241 idx {idx} \
             rax 0 rbx 0 rcx 0 rdx 0, cpuid entry not found\n"
            )
        };
        format!(
            "# tracer: nop\n#\n# entries-in-buffer/entries-written: 2/2   #P:3\n#\n{}{}",
            mark(from, "101"),
            mark(to, "102")
        )
    };
    let mut traces = Traces {
        events: trace("5000", "205000"),
        marks: trace("7.000100", "7.000200"),
        stats: "entries: 2\noverrun: 0\ncommit overrun: 0\ndropped events: 0\n".into(),
        guest_offset: None,
    };
    let (_, window) = traces.read().unwrap();
    assert_eq!((window.open, window.ns_per_tick), (5000, 0.5));
    traces.stats = traces.stats.replace("dropped events: 0", "dropped events: 7");
    assert!(traces.read().unwrap_err().to_string().contains("dropped events 7"));
}

/// The cause of an exit of vCPU 0 for `reason`, followed by `lines`.
fn cause_of(reason: &str, lines: &[&str]) -> Cause {
    let first = exit(10, 0, reason);
    let all: Vec<&str> = [first.as_str()].into_iter().chain(lines.iter().copied()).collect();
    told(&all).unwrap()[0].what.cause().unwrap()
}

#[test]
fn a_real_trace_gives_its_cycle_of_median_length() {
    let records = trace::parse(SLEEP).unwrap();
    let (open, close) = trace::marks(&records).unwrap();
    let window = Window { open, close, ns_per_tick: 1.0, guest_offset: None };
    let chosen = choose::choose(&story::tell(&records, 0, window).unwrap()).unwrap().chosen;
    assert_eq!((chosen.cycles, chosen.alike, chosen.exits()), (3, 3, 3));
    // The three take 173486, 174565 and 173912.
    assert_eq!(chosen.length_ns(), 173_912);
    assert_eq!(chosen.exits_by_cause[&Cause::Arm], 2.0);
    let arm = |moved_ns| What::Exit {
        reason: "msr_write".into(),
        cause: Cause::Arm,
        msr: Some("TSC_DEADLINE".into()),
        moved_ns: Some(moved_ns),
        until: None,
        why: None,
    };
    let halt = What::Exit {
        reason: "hlt".into(),
        cause: Cause::Halt,
        msr: None,
        moved_ns: None,
        until: None,
        why: None,
    };
    let expected = [
        (0, halt),
        (4_375, What::Sleep),
        (143_147, What::Wake { by: Waker::Timer }),
        (146_719, What::Entry),
        (149_538, arm(0x6729_1a03 - 0x5ae2_1e84)),
        (153_810, What::Entry),
        (167_169, arm(0x5ae4_c600 - 0x6729_1a03)),
        (171_073, What::Entry),
        (173_912, What::End),
    ];
    let found: Vec<_> = chosen.events.into_iter().map(|event| (event.t_ns, event.what)).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_clock_is_turned_into_nanoseconds() {
    let records = trace::parse(SLEEP).unwrap();
    let (open, close) = trace::marks(&records).unwrap();
    let window = Window { open, close, ns_per_tick: 0.5, guest_offset: None };
    let chosen = choose::choose(&story::tell(&records, 0, window).unwrap()).unwrap().chosen;
    assert!(chosen.length_ns().abs_diff(173_912 / 2) <= 1);
}

#[test]
fn a_trace_that_was_cut_short_anywhere_is_refused() {
    let body = SLEEP.find("       CPU").unwrap();
    for end in body..SLEEP.len() {
        assert!(trace::parse(&SLEEP[..end]).is_err(), "cut at {end}");
    }
    assert_eq!(trace::parse(""), Err(BadTrace::NoCount));
    assert_eq!(trace::parse(&SLEEP[body..]), Err(BadTrace::NoCount));
}

#[test]
fn a_trace_that_lost_events_is_refused() {
    let mut lines: Vec<&str> = SLEEP.lines().collect();
    lines.insert(20, "CPU:1 [LOST 17 EVENTS]");
    let error = trace::parse(&lines.join("\n")).unwrap_err().to_string();
    assert!(error.contains("LOST 17"), "{error}");

    let counts = SLEEP.lines().find(|line| line.contains("entries-in")).unwrap();
    let overwritten = SLEEP.replace(counts, "# entries-in-buffer/entries-written: 53/99   #P:3");
    assert!(matches!(trace::parse(&overwritten), Err(BadTrace::Lost { .. })));

    let one_less = SLEEP.lines().filter(|line| !line.contains("171086036310"));
    let one_less: Vec<_> = one_less.collect();
    assert!(matches!(
        trace::parse(&(one_less.join("\n") + "\n")),
        Err(BadTrace::Incomplete { .. })
    ));
}

#[test]
fn an_event_that_ends_while_the_trace_is_read_is_in_it() {
    let all = trace::parse(SLEEP).unwrap();
    let (kept, fewer) = (all.len(), all.len() - 1);
    let counted = |count| format!("written: {count}/{count} ");
    let one_more = SLEEP.replace(&counted(kept), &counted(fewer));
    assert_ne!(one_more, SLEEP);
    assert_eq!(trace::parse(&one_more).unwrap(), all);
}

#[test]
fn statistics_that_are_missing_or_not_zero_are_refused() {
    let good = "entries: 9\noverrun: 0\ncommit overrun: 0\ndropped events: 0\nread events: 5\n";
    assert_eq!(trace::check_stats(good), Ok(()));
    for name in ["overrun", "commit overrun", "dropped events"] {
        let bad = good.replace(&format!("{name}: 0"), &format!("{name}: 3"));
        assert!(matches!(trace::check_stats(&bad), Err(BadTrace::Lost { .. })));
    }
    assert_eq!(trace::check_stats(""), Err(BadTrace::NoCount));
}

#[test]
fn a_window_has_one_begin_and_one_end() {
    let open =
        "5 100 kvm_cpuid: func 50415241 idx 101 rax 0 rbx 0 rcx 0 rdx 0, cpuid entry not found";
    let close =
        "9 100 kvm_cpuid: func 50415241 idx 102 rax 0 rbx 0 rcx 0 rdx 0, cpuid entry not found";
    let other = "7 100 kvm_cpuid: func 1 idx 2 rax 0 rbx 0 rcx 0 rdx 0, cpuid entry found";
    let marks = |lines: &[&str]| trace::marks(&trace::parse(&traced(lines)).unwrap());
    assert_eq!(marks(&[open, other, close]), Ok((5, 9)));
    for lines in [&[open][..], &[close], &[other], &[open, open, close]] {
        assert!(matches!(marks(lines), Err(BadTrace::NoWindow(_))), "{lines:?}");
    }
}

#[test]
fn interrupts_are_named_by_their_first_handler() {
    let timer = "11 100 local_timer_entry: vector=236";
    let expires = "12 100 hrtimer_expire_entry: hrtimer=0 function=apic_timer_fn now=1";
    let tick = "12 100 hrtimer_expire_entry: hrtimer=0 function=tick_nohz_handler now=1";
    let ipi = "11 100 reschedule_entry: vector=253";
    let device = "11 100 irq_handler_entry: irq=27 name=virtio0-requests";
    assert_eq!(cause_of("interrupt", &[timer, expires]), Cause::Expiry);
    assert_eq!(cause_of("interrupt", &[timer, tick]), Cause::HostTick);
    assert_eq!(cause_of("interrupt", &[ipi, timer, expires]), Cause::Ipi);
    assert_eq!(cause_of("interrupt", &[device]), Cause::Io);
    assert_eq!(cause_of("interrupt", &[]), Cause::Other);
    // Another thread's handlers say nothing of it.
    assert_eq!(cause_of("interrupt", &["11 77 local_timer_entry: vector=236"]), Cause::Other);
    assert_eq!(cause_of("hlt", &[timer, expires]), Cause::Halt);
    assert_eq!(cause_of("EXTERNAL_INTERRUPT", &[timer, expires]), Cause::Expiry);
}

#[test]
fn only_the_first_msr_access_of_an_msr_exit_is_its_own() {
    let stop = "11 100 kvm_msr: msr_write 6e0 = 0x0";
    let arm = "12 100 kvm_msr: msr_write 6e0 = 0x123456";
    assert_eq!(cause_of("msr", &[stop, arm]), Cause::Stop);
    assert_eq!(cause_of("msr", &[arm, stop]), Cause::Arm);
    assert_eq!(cause_of("msr", &["11 77 kvm_msr: msr_write 6e0 = 0x1"]), Cause::Other);
    assert_eq!(cause_of("hlt", &[arm]), Cause::Halt);
    assert_eq!(cause_of("a new one", &[arm]), Cause::Other);
}

/// A hypercall of vCPU 0 with this number, deadline and flags, at 10, and the halt's sleep.
fn halted(reason: &str, [number, deadline, flags]: [u64; 3], window: Window) -> Vec<Event> {
    let first = exit(10, 0, reason);
    let call = format!(
        "11 100 kvm_hypercall: nr {number:#x} a0 {deadline:#x} a1 0x0 a2 {flags:#x} a3 0x0"
    );
    let sleep = "12 100 sched_switch: prev_comm=CPU 0/KVM prev_pid=100 ==> next_pid=0";
    let records = trace::parse(&traced(&[&first, &call, sleep])).unwrap();
    story::tell(&records, 0, window).unwrap()
}

#[test]
fn a_halt_by_hypercall_is_one_event_with_its_deadline() {
    let known = Window { guest_offset: Some(-4), ns_per_tick: 0.5, ..EVERYTHING };
    let until = |call, window| {
        let events = halted("hypercall", call, window);
        assert!(events[0].what.is_halt() && events[1].what == What::Sleep, "{events:?}");
        match events[0].what {
            What::Exit { until, .. } => until,
            _ => None,
        }
    };
    let due = |deadline, keep, due_ns| Some(Until { deadline, keep, due_ns });
    // The guest's clock is at 6.
    assert_eq!(until([20, 106, 0], known), due(true, false, Some(50)));
    assert_eq!(until([20, 4, 1], known), due(true, true, Some(-1)));
    assert_eq!(until([20, 0, 0], known), due(false, false, None));
    assert_eq!(until([20, 106, 1], EVERYTHING), due(true, true, None));
}

#[test]
fn another_hypercall_is_no_halt() {
    for (reason, number) in [("hypercall", 11), ("VMCALL", 9), ("hlt", 20)] {
        let events = halted(reason, [number, 106, 0], EVERYTHING);
        assert_eq!(events[0].what.is_halt(), reason == "hlt");
        assert!(matches!(events[0].what, What::Exit { until: None, .. }), "{events:?}");
    }
    assert!(halted("VMCALL", [20, 106, 0], EVERYTHING)[0].what.is_halt());
}

#[test]
fn other_vcpus_and_other_threads_do_not_disturb() {
    let (own, other) = (exit(10, 0, "hlt"), exit(15, 1, "hlt"));
    let events = told(&[
        &own,
        &other,
        "16 101 kvm_msr: msr_write 6e0 = 0x1",
        "17 101 kvm_apic_accept_irq: apicid 1 vec 236 (Fixed|edge)",
        "18 101 kvm_vcpu_wakeup: wait time 9 ns, polling valid",
        "19 101 kvm_entry: vcpu 1, rip 0x1",
        "20 55 kvm_apic_accept_irq: apicid 0 vec 253 (Fixed|edge)",
        "21 100 kvm_vcpu_wakeup: wait time 9 ns, polling valid",
        "22 100 kvm_entry: vcpu 0, rip 0x1[immediate exit]",
    ])
    .unwrap();
    let found: Vec<_> = events.iter().map(|event| event.what.clone()).collect();
    assert!(found[0].is_halt());
    assert_eq!(found[1..], [What::Wake { by: Waker::Ipi }, What::Entry]);
}

#[test]
fn a_tick_that_is_not_raised_is_told_apart() {
    let own = exit(10, 0, "hlt");
    let events = told(&[
        &own,
        "11 100 kvm_pv_tick: vcpu 0 absorbed, -417446 ns after it was due",
        "12 101 kvm_pv_tick: vcpu 1 delivered, 5 ns after it was due",
        "13 100 kvm_pv_tick: vcpu 0 delivered, 5 ns after it was due",
    ])
    .unwrap();
    let what = |what: &str| what.to_string();
    let expected =
        [What::NoTick { what: what("absorbed") }, What::Tick { what: what("delivered") }];
    let found: Vec<_> = events[1..].iter().map(|event| event.what.clone()).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_story_with_a_hole_is_refused() {
    let (first, second) = (exit(10, 0, "hlt"), exit(20, 0, "hlt"));
    let twice = told(&[&first, &second]);
    assert!(matches!(twice, Err(Gap::Twice { what: "exits", .. })), "{twice:?}");
    let entry = "30 100 kvm_entry: vcpu 0, rip 0x1";
    let twice = told(&[&first, entry, entry]);
    assert!(matches!(twice, Err(Gap::Twice { what: "entries", .. })), "{twice:?}");
    assert_eq!(told(&[&exit(10, 1, "hlt")]), Err(Gap::NoVcpu { vcpu: 0 }));
    let moved = second.replace(" 100 ", " 107 ");
    assert!(matches!(told(&[&first, entry, &moved]), Err(Gap::Threads { .. })));
}

#[test]
fn a_cycle_reads_back_as_it_is_written() {
    let mut events = made(0, 70, Waker::Device, 1);
    events.extend(made(70, 70, Waker::Device, 1));
    events.insert(1, Event { t_ns: 1, what: What::Tick { what: "late".into() } });
    let line = IdleCycle {
        vcpu: 0,
        chosen: choose::choose(&events).unwrap().chosen,
        traced_ns: 2,
        untraced_ns: 1,
        deadline_writes: None,
    };
    let json = serde_json::to_value(&line).unwrap();
    assert_eq!(json["events"][0]["kind"], "exit");
    assert_eq!(json["events"][0]["cause"], "halt");
    assert_eq!(json["events"][1]["what"], "late");
    assert_eq!(json["events"][2]["by"], "device");
    assert_eq!(json["cycles"], 1);
    assert!(json["exits_per_cycle"]["median"].is_number());
    assert_eq!(serde_json::from_value::<IdleCycle>(json).unwrap(), line);
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "(?s).{0,200}") {
        let _ = trace::parse(&text);
        let _ = trace::parse(&traced(&[&format!("1 2 kvm_exit: {}", text.replace('\n', " "))]));
    }

    #[test]
    fn clocks_with_and_without_a_point_are_read_exactly(clock in 0u64..1_000_000_000_000) {
        let woken = "kvm_vcpu_wakeup: wait time 1 ns, polling valid";
        let line = |clock: &str| traced(&[&format!("{clock} 3 {woken}")]);
        let read = |clock: &str| trace::parse(&line(clock)).unwrap().remove(0);
        let plain = Record { thread: 3, clock, what: Seen::Woken };
        prop_assert_eq!(read(&clock.to_string()), plain);
        let micros = format!("{}.{:06}", clock / 1_000_000, clock % 1_000_000);
        prop_assert_eq!(read(&micros).clock, clock * 1000);
    }
}
