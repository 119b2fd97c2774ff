// SPDX-License-Identifier: GPL-2.0-only
use super::{
    made::{Made, Rate, BPF, CLOCK, SOFTWARE, TRACEPOINT},
    tests::{count, exit, gathered, refusal, ENTRY, ENTRY_FORMAT, EXIT_FORMAT, MSR_FORMAT},
    *,
};
use std::io::Cursor;

#[test]
fn samples_of_exits_are_refused_and_of_other_events_not_taken() {
    let with = |exits, entries, msrs| {
        let made = Made::default().event(TRACEPOINT, 300, exits).event(TRACEPOINT, 301, entries);
        let made = made.event(TRACEPOINT, 302, msrs);
        made.sample(0, 1_000, [7, 71], &exit(0x78, 0, 3)).sample(1, 1_300, [7, 71], &ENTRY)
    };
    let all = [EXIT_FORMAT, ENTRY_FORMAT, MSR_FORMAT];
    for (made, name) in [
        (with(Rate::OneOf(100), Rate::OneOf(100), Rate::Each), "kvm_exit"),
        (with(Rate::Hz(99), Rate::Hz(99), Rate::Hz(99)), "kvm_exit"),
        (with(Rate::Each, Rate::OneOf(0), Rate::Each), "kvm_entry"),
    ] {
        let error = refusal(&made.file(&all));
        let why = format!("perf recorded samples of {name}, not each\nhint: record without -F");
        assert!(error.contains(&why), "{error}");
    }
    let lacks_msrs = |msrs| {
        let seen = read(Cursor::new(with(Rate::Each, Rate::Each, msrs).file(&all))).unwrap();
        assert_eq!((count(&seen.vms[0], "hlt"), seen.vms[0].all().ns()), (1, 300));
        seen.lacks.iter().any(|lack| lack.contains("kvm_msr"))
    };
    assert_eq!([Rate::Each, Rate::OneOf(100)].map(lacks_msrs), [false, true]);
}

/// Exits with their entries, by threads of process 7.
fn made() -> Made {
    let events = Made::default().event(TRACEPOINT, 300, Rate::Each);
    events.event(TRACEPOINT, 301, Rate::Each)
}

fn seen(made: &Made) -> Observed {
    let mut seen = read(Cursor::new(made.file(&[EXIT_FORMAT, ENTRY_FORMAT]))).unwrap();
    say_untimed(&mut seen);
    seen
}

#[test]
fn what_other_events_wrote_is_no_exit() {
    let (who, hlt) = ([7, 71], exit(0x78, 0, 3));
    let others = made().event(SOFTWARE, CLOCK, Rate::Hz(99)).event(SOFTWARE, BPF, Rate::Each);
    let made = others.sample(0, 1_000, who, &hlt).sample(1, 1_300, who, &ENTRY);
    // A clock writes nothing; a BPF program whatever it likes, and other PMUs, too.
    let made = made.sample(2, 1_400, who, &[]).sample(3, 1_500, who, &hlt);
    let told = seen(&made);
    let said = told.lacks.join("\n");
    assert_eq!((count(&told.vms[0], "hlt"), told.vms[0].all().count), (1, 1), "{told:?}");
    assert!(!said.contains("cannot be read"), "{said}");
    // Of an event that the file does not name, and of one that wrote another's record.
    let strange = seen(&made.sample(9, 1_600, who, &hlt).sample(1, 1_700, who, &hlt));
    let said = strange.lacks.join("\n");
    assert_eq!(strange.vms[0].all().count, 1, "{strange:?}");
    assert!(said.contains("cannot be read, of no known VM: 2."), "{said}");
}

#[test]
fn an_exit_that_two_attributes_recorded_is_one() {
    let (who, hlt) = ([7, 71], exit(0x78, 0, 3));
    let twice = made().event(TRACEPOINT, 300, Rate::Each);
    let made = twice.sample(0, 1_000, who, &hlt).sample(2, 1_010, who, &hlt);
    let all = seen(&made.sample(1, 1_300, who, &ENTRY)).vms[0].all();
    assert_eq!((all.count, all.ns()), (1, 300));
}

/// perf's filters are not in its attributes.
#[test]
fn two_attributes_with_filters_have_exits_of_their_own() {
    let hlt = exit(0x78, 0, 3);
    let made = made().event(TRACEPOINT, 300, Rate::Each);
    let made = made.sample(0, 1_000, [7, 71], &hlt).sample(2, 1_100, [7, 72], &hlt);
    let made = made.sample(1, 1_300, [7, 71], &ENTRY).sample(1, 1_400, [7, 72], &ENTRY);
    let all = seen(&made).vms[0].all();
    assert_eq!((all.count, all.ns()), (2, 600));
}

const LOST: u32 = 2;

#[test]
fn an_exit_before_a_loss_has_no_time() {
    let (who, hlt) = ([7, 71], exit(0x78, 0, 3));
    let made = made().sample(0, 1_000, who, &hlt).sample(1, 1_300, who, &ENTRY);
    let made = made.sample(0, 1_400, who, &hlt).other(LOST, &[0, 500], 0, 1_500);
    let made = made.sample(1, 9_000, who, &ENTRY).sample(0, 9_100, who, &hlt);
    let seen = seen(&made.sample(1, 9_300, who, &ENTRY));
    let all = seen.vms[0].all();
    assert_eq!((all.count, all.ns(), all.lengths.iter().sum()), (3, 500, 2_u64));
    let said = seen.lacks.join("\n");
    assert!(said.contains("Without the entry after, and so a time: 1."), "{said}");
    assert!(said.contains("perf lost 500 events"), "{said}");
}

#[test]
fn a_loss_is_counted_once_and_that_of_the_end_too() {
    const LOST_SAMPLES: u32 = 13;
    let told = |made: Made| {
        let made = made.event(SOFTWARE, CLOCK, Rate::Hz(99));
        let seen = seen(&made.sample(0, 1_000, [7, 71], &exit(0x78, 0, 3)));
        let lost = |lack: &String| lack.strip_prefix("perf lost ")?.split(' ').next()?.parse().ok();
        seen.lacks.iter().find_map(lost)
    };
    let lost = |made: Made| made.other(LOST, &[0, 500], 0, 1_500);
    let at_the_end = |made: Made, events, of| made.other(LOST_SAMPLES, &[events], of, 0);
    assert_eq!(told(made()), None);
    for (made, events) in [
        (lost(made()), 500),
        (at_the_end(made(), 300, 1), 300),
        (at_the_end(at_the_end(lost(made()), 400, 0), 300, 1), 700),
        // Of another event, which the buffer's have in them.
        (at_the_end(at_the_end(lost(made()), 100, 2), 400, 0), 500),
    ] {
        assert_eq!(told(made), Some(events));
    }
}

#[test]
fn an_exit_ends_with_an_entry_of_its_own_process_and_vcpu() {
    let hlt = exit(0x78, 0, 3);
    // The thread's number is given to another process.
    let made = made().sample(0, 1_000, [7, 71], &hlt).sample(1, 2_000, [8, 71], &ENTRY);
    let reused = seen(&made.sample(0, 3_000, [8, 71], &hlt).sample(1, 3_100, [8, 71], &ENTRY));
    let times: Vec<_> = reused.vms.iter().map(|vm| (vm.process, vm.all().ns())).collect();
    assert_eq!(times, [(7, 0), (8, 100)]);
    // One thread runs two vCPUs in turn; then one of them twice.
    let entry_format = format!("{ENTRY_FORMAT}\tfield:u32 vcpu_id;\toffset:8;\tsize:4;\n");
    let entry = |vcpu: u32| [&ENTRY[..], &vcpu.to_le_bytes()].concat();
    let (io, third, fourth) = (exit(0x7b, 0, 4), entry(3), entry(4));
    let records: [(u64, u32, &[u8]); 6] = [
        (1_000, 71, &hlt),
        (2_000, 71, &fourth),
        (2_100, 71, &io),
        (3_000, 71, &third),
        (3_100, 71, &hlt),
        (3_150, 71, &third),
    ];
    let seen = gathered(&[EXIT_FORMAT, &entry_format], &records).unwrap();
    let of = |vcpu| {
        let spent: Vec<_> = seen.vms[0].exits.iter().filter(|one| one.vcpu == vcpu).collect();
        (spent[0].spent.count, spent[0].spent.ns())
    };
    assert_eq!((seen.vms[0].exits.len(), of(3), of(4)), (2, (2, 50), (1, 0)), "{seen:?}");
}

const FORK: u32 = 7;
const EXITED: u32 = 4;

#[test]
fn a_vm_s_time_is_that_in_which_it_was_there() {
    let hlt = exit(0x78, 0, 3);
    let of = |kind, process: u64, thread: u64, at_ns: u64| {
        move |made: Made| made.other(kind, &[process | 1 << 32, thread | 1 << 32, at_ns], 0, at_ns)
    };
    let exits = |process, from: u64| {
        let hlt = hlt.clone();
        move |made: Made| {
            let made = made.sample(0, from, [process, process + 1], &hlt);
            made.sample(1, from + 10, [process, process + 1], &ENTRY)
        }
    };
    let mut made = made();
    // Of one that was there before, without a time; of a thread; and of one that came and went.
    made = of(FORK, 7, 7, 0)(made);
    made = exits(7, 1_000)(made);
    made = of(FORK, 7, 9, 2_000)(made);
    made = of(FORK, 8, 8, 5_000)(made);
    made = exits(8, 5_100)(made);
    made = of(EXITED, 7, 9, 5_500)(made);
    made = of(EXITED, 8, 8, 6_000)(made);
    // Its last exit came while it ended; and its number is given to another one.
    made = exits(8, 6_090)(made);
    made = exits(7, 10_900)(made);
    made = of(EXITED, 7, 7, 11_000)(made);
    let told = seen(&made);
    let times = |seen: &Observed| {
        let time = |vm: &paratick_core::observed::Vm| (vm.process, vm.ns, vm.ended);
        seen.vms.iter().map(time).collect::<Vec<_>>()
    };
    assert_eq!((told.ns, times(&told)), (10_000, vec![(7, 10_000, true), (8, 1_090, true)]));
    let again = seen(&exits(8, 10_995)(of(FORK, 8, 8, 10_990)(made)));
    assert_eq!(times(&again), [(7, 10_000, true), (8, 1_090 + 15, false)]);
}

#[test]
fn what_perf_tells_before_it_records_is_not_of_the_time() {
    let of = |made: Made, kind, process: u64, at_ns: u64| {
        made.other(kind, &[process | 1 << 32, process | 1 << 32, at_ns], 0, at_ns)
    };
    // While perf looks who is there: another one comes and goes, and the VM comes.
    let made = of(of(of(made(), FORK, 9, 1_000), EXITED, 9, 2_000), FORK, 7, 3_000);
    let made = made.sample(0, 100_000, [7, 71], &exit(0x78, 0, 3));
    let told = seen(&of(made.sample(1, 100_300, [7, 71], &ENTRY), EXITED, 7, 101_000));
    assert_eq!((told.ns, told.vms[0].ns), (1_000, 1_000));
}

#[test]
fn exits_without_a_time_are_those_of_the_vms_that_were_chosen() {
    let hlt = exit(0x78, 0, 3);
    let made = made().sample(0, 1_000, [7, 71], &hlt).sample(1, 1_300, [7, 71], &ENTRY);
    let made = made.sample(0, 1_000, [8, 81], &hlt).sample(0, 2_000, [8, 81], &hlt);
    let untimed = |process| {
        let mut seen = read(Cursor::new(made.file(&[EXIT_FORMAT, ENTRY_FORMAT]))).unwrap();
        seen.vms.retain(|vm| vm.process == process);
        say_untimed(&mut seen);
        let lack = |lack: &String| Some(lack.strip_prefix("Without the entry after")?.to_string());
        seen.lacks.iter().find_map(lack)
    };
    assert_eq!([7, 8].map(untimed), [None, Some(", and so a time: 2.".into())]);
}
