// SPDX-License-Identifier: GPL-2.0-only
use super::{
    formats::Formats,
    gather::{Event, Gather},
    *,
};
use paratick_core::{cause::Cause, observed::Vm};
use std::io::Cursor;

/// Of perf on the lab's host: one vCPU made 20 CPUIDs and as many writes to ports.
const FILE: &[u8] = include_bytes!("../../../../tests/cli/recorded-exits-perf.data");

pub const EXIT_FORMAT: &str = "name: kvm_exit\nID: 300\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned int exit_reason;\toffset:8;\tsize:4;\tsigned:0;\n\
    \tfield:u32 isa;\toffset:12;\tsize:4;\tsigned:0;\n\
    \tfield:u64 info1;\toffset:16;\tsize:8;\tsigned:0;\n\
    \tfield:u64 info2;\toffset:24;\tsize:8;\tsigned:0;\n\
    \tfield:u32 intr_info;\toffset:32;\tsize:4;\tsigned:0;\n\
    \tfield:unsigned int vcpu_id;\toffset:36;\tsize:4;\tsigned:0;\n";
pub const ENTRY_FORMAT: &str = "name: kvm_entry\nID: 301\nformat:\n";
/// Elsewhere than on any kernel that was seen.
pub const MSR_FORMAT: &str = "name: kvm_msr\nID: 302\nformat:\n\
    \tfield:u64 data;\toffset:8;\tsize:8;\tsigned:0;\n\
    \tfield:u32 ecx;\toffset:16;\tsize:4;\tsigned:0;\n";

/// As perf writes it.
pub fn section(formats: &[&str]) -> Vec<u8> {
    let sized = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let mut section = b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0".to_vec();
    for name in ["header_page\0", "header_event\0"] {
        section.extend(name.bytes().chain(sized("some text")));
    }
    section.extend(1u32.to_le_bytes().into_iter().chain(sized("name: function\nID: 1\n")));
    section.extend(2u32.to_le_bytes());
    section.extend(b"sched\0".iter().copied().chain(1u32.to_le_bytes()));
    section.extend(sized("name: kvm_exit\nID: 7\n"));
    section.extend(b"kvm\0".iter().copied().chain((formats.len() as u32).to_le_bytes()));
    formats.iter().for_each(|text| section.extend(sized(text)));
    section
}

pub fn exit(reason: u32, info1: u64, vcpu: u32) -> Vec<u8> {
    let mut record = vec![0; 40];
    record[..2].copy_from_slice(&300u16.to_le_bytes());
    record[8..12].copy_from_slice(&reason.to_le_bytes());
    record[12..16].copy_from_slice(&2u32.to_le_bytes());
    record[16..24].copy_from_slice(&info1.to_le_bytes());
    record[36..].copy_from_slice(&vcpu.to_le_bytes());
    record
}

fn msr(register: u32, value: u64) -> Vec<u8> {
    let head = [46, 1, 0, 0, 0, 0, 0, 0];
    [&head[..], &value.to_le_bytes(), &register.to_le_bytes()].concat()
}

pub const ENTRY: [u8; 8] = [45, 1, 0, 0, 0, 0, 0, 0];

/// Records by time and thread, all of one process.
pub fn gathered(formats: &[&str], records: &[(u64, u32, &[u8])]) -> Option<Observed> {
    let formats = Formats::parse(&section(formats)).unwrap();
    let mut gather = Gather::of(&formats);
    for (at_ns, thread, data) in records {
        let (at_ns, thread) = (Some(*at_ns), Some(*thread));
        gather.take(&Event { at_ns, process: Some(7), thread, data });
    }
    let mut seen = gather.finish(None)?;
    say_untimed(&mut seen);
    Some(seen)
}

pub fn count(vm: &Vm, words: &str) -> u64 {
    let these = vm.exits.iter().filter(|one| one.kind.words() == words);
    these.map(|one| one.spent.count).sum()
}

#[test]
fn exits_are_explained_by_what_came_after_them_and_end_with_the_entry() {
    let all = [EXIT_FORMAT, ENTRY_FORMAT, MSR_FORMAT];
    let (write, hlt) = (exit(0x7c, 1, 3), exit(0x78, 0, 4));
    let records: [(u64, u32, &[u8]); 8] = [
        (900, 71, &ENTRY),
        (1_000, 71, &write),
        (1_050, 72, &hlt),
        (1_100, 71, &msr(0x6e0, 5)),
        (1_150, 72, &msr(0x6e0, 5)),
        (1_200, 71, &ENTRY),
        (1_250, 71, &msr(0x10, 5)),
        (3_050, 72, &ENTRY),
    ];
    let seen = gathered(&all, &records).unwrap();
    assert_eq!((seen.ns, seen.vms.len(), seen.lacks.len()), (2_150, 1, 2), "{:?}", seen.lacks);
    let found: Vec<_> = seen.vms[0]
        .exits
        .iter()
        .map(|one| (one.vcpu, one.kind.cause, one.kind.words(), one.spent.unplaced_ns))
        .collect();
    assert_eq!(
        found,
        [(3, Cause::Arm, "TSC_DEADLINE", Some(200)), (4, Cause::Halt, "hlt", Some(2_000))]
    );
    let spent = &seen.vms[0].exits[1].spent;
    assert_eq!((spent.lengths.as_slice(), spent.cpu_ns()), (&[0, 0, 0, 0, 1][..], 0));
}

#[test]
fn surprises_are_rows_and_notes_and_end_nothing() {
    let (hlt, unknown) = (exit(0x78, 0, 3), exit(0x777, 0, 3));
    let records: [(u64, u32, &[u8]); 9] = [
        (1, 71, &hlt),
        // Its entry is missing; then a record that is too short, and one without a number.
        (2, 71, &hlt),
        (3, 71, &ENTRY),
        (4, 71, &hlt[..30]),
        (5, 71, &[]),
        (6, 71, &ENTRY),
        (7, 71, &unknown),
        (8, 71, &ENTRY),
        (9, 71, &hlt),
    ];
    let seen = gathered(&[EXIT_FORMAT, ENTRY_FORMAT], &records).unwrap();
    let vm = &seen.vms[0];
    let counts = ["hlt", "a record that cannot be read"].map(|words| count(vm, words));
    assert_eq!((counts, vm.all().count), ([3, 1], 5), "{vm:?}");
    assert_eq!(vm.all().lengths.iter().sum::<u64>(), 2);
    let said = seen.lacks.join("\n");
    assert!(said.contains("Without the entry after, and so a time: 2."), "{said}");
    assert!(said.contains("cannot be read, of no known VM: 1."), "{said}");
    assert!(said.contains("kvm_msr (which register"), "{said}");
    let without = gathered(&[EXIT_FORMAT], &[(1, 71, &hlt), (2, 71, &hlt)]).unwrap();
    assert!(without.lacks.iter().any(|lack| lack.contains("kvm_entry, so no exit has a time")));
    assert_eq!(gathered(&[EXIT_FORMAT], &[(1, 71, &ENTRY)]), None);
}

#[test]
fn formats_of_other_subsystems_are_not_kvm_s() {
    let formats = Formats::parse(&section(&[ENTRY_FORMAT])).unwrap();
    assert!(formats.of("kvm_exit").is_none() && formats.find(&[7, 0]).is_none());
    assert_eq!(formats.find(&ENTRY).unwrap().0, "kvm_entry");
    let whole = section(&[ENTRY_FORMAT, EXIT_FORMAT]);
    for end in 0..whole.len() {
        assert!(Formats::parse(&whole[..end]).is_none(), "{end}");
    }
}

#[test]
fn a_real_file_has_the_exits_that_the_vm_made() {
    let seen = read(Cursor::new(FILE)).unwrap();
    assert_eq!(seen.vms.len(), 1);
    let vm = &seen.vms[0];
    let of = |reason: &str| {
        let these = vm.exits.iter().filter(|one| &*one.kind.reason == reason);
        these.map(|one| one.spent.count).sum::<u64>()
    };
    assert_eq!((of("cpuid"), of("io"), of("hlt")), (20, 20, 1), "{vm:?}");
}

pub fn refusal(file: &[u8]) -> String {
    format!("{:#}", read(Cursor::new(file)).unwrap_err())
}

#[test]
fn what_is_no_whole_file_of_perf_s_is_refused_with_what_to_do() {
    let with = |at: usize, bytes: &[u8]| {
        let mut file = FILE.to_vec();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    for (file, why) in [
        (vec![], "it is empty"),
        (b"a text".to_vec(), "it is no perf.data"),
        (b"{}".to_vec(), "no perf.data\nhint: what `paratick exits --save FILE` wrote is for"),
        (b"\x17\x08\x44tracing6\0".to_vec(), "trace-cmd's files cannot be read"),
        (with(0, b"2ELIFREP"), "big-endian"),
        (with(8, &[16]), "written to a pipe"),
        (FILE[..50].to_vec(), "it ends within its head"),
        (FILE[..FILE.len() - 1].to_vec(), "it is only a part"),
        // The data's size; and where it is.
        (with(48, &[0; 8]), "perf was killed"),
        (with(40, &[255; 8]), "it is only a part"),
        // Without the descriptions of its events.
        (with(73, &[FILE[73] & !0x10]), "it does not tell which of its events"),
    ] {
        let error = refusal(&file);
        assert!(error.contains(why), "{error}");
    }
    // The first of these words behind the first of those.
    let text = |behind: &[u8], from: &[u8], to: &[u8]| {
        let find = |file: &[u8], text: &[u8]| {
            file.windows(text.len()).position(|bytes| bytes == text).unwrap()
        };
        let begin = find(FILE, behind);
        with(begin + find(&FILE[begin..], from), to)
    };
    for (file, why) in [
        (text(b"PERFILE2", b"x86_64\0", b"riscv6\0"), "it was recorded on riscv6"),
        (text(b"PERFILE2", b"name: kvm_exit", b"name: kvm_exlt"), "it has no tracepoint kvm_exit"),
        (text(b"name: kvm_exit", b" vcpu_id;", b" vcpu_xx;"), "no field vcpu_id"),
    ] {
        let error = refusal(&file);
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn what_is_no_file_is_refused_before_it_is_opened() {
    for (file, why) in [
        ("/dev/null", "it must be a file: it is not read in order\nhint: copy it to a file first"),
        ("/", "it is a folder, as perf writes with --threads\nhint: record without --threads"),
        ("/nonexistent", "No such file or directory (os error 2)\nhint: record with `perf record"),
    ] {
        let error = recorded(Path::new(file)).unwrap_err().to_string();
        assert!(error.contains(why) && error.matches("hint: ").count() == 1, "{error}");
    }
}

/// Whatever is in it, reading ends: with counts, or with an error that has a hint.
#[test]
fn damage_never_ends_in_a_panic() {
    let check = |file: &[u8]| match read(Cursor::new(file)) {
        Ok(seen) => assert!(seen.vms.iter().all(|vm| vm.all().count > 0)),
        Err(error) => assert!(!error.to_string().is_empty()),
    };
    let mut random = 1_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % below
    };
    for _ in 0..3_000 {
        let mut file = FILE.to_vec();
        for _ in 0..=next(4) {
            // The head and the tables after the data matter most.
            let at = if next(2) == 0 { next(512) } else { next(file.len()) };
            file[at] = next(256) as u8;
        }
        check(&file);
    }
    for end in (0..FILE.len()).step_by(97) {
        check(&FILE[..end]);
    }
}
