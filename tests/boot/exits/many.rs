// SPDX-License-Identifier: GPL-2.0-only
//! A host with very many small VMs.

use super::{counted, run, SOURCE, VMM};
use crate::support::{compile, parallel_spec, text, tools};
use paratick_core::size::Size;
use paratick_machine::snapshot;

const VMS: usize = 1500;
/// What the sensor's maps take of the kernel's memory (docs/exits.md), in KiB.
const MAPS_KIB: u64 = 48 * 1024;

/// Each VM makes two exits of one kind and two of another a second.
#[test]
fn a_table_of_1500_vms_names_each_in_little_memory_and_time() {
    compile(SOURCE, VMM);
    let mut spec = parallel_spec(2);
    spec.boot.memory = Size::mib(3072);
    let host = snapshot::host(spec, &tools(), &mut |_| {}).unwrap();
    let vms = format!(
        "for n in $(seq {VMS}); do $VMM 1 1000000 --id micro-$n 500000 >/dev/null 2>&1 & done; \
         until [ $(ls -d /proc/[0-9]*/fd/5 | wc -l) -ge {VMS} ]; do sleep 0.5; done"
    );
    let begun = run(&host, &vms);
    assert_eq!(begun.code, 0, "{}", text(&begun.stderr));
    let look = "at() { read T _ </proc/uptime; set -- $(cat /proc/$I/stat); \
                echo $T $((${14} + ${15})); }; sleep 3; at; sleep 8; at; \
                grep VmHWM /proc/$I/status";
    let (seen, said) = counted(&host, "", "--for 14s", look);
    println!("{said}");
    let numbers: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [from, before, to, after, kib] = numbers[..] else { panic!("{said}") };
    let cpu = (after - before) / 100.0 / (to - from);
    println!("{cpu} of a CPU, {kib} KiB, {} exits", seen.total().count);
    assert_eq!((seen.vms.len(), seen.lost, seen.earlier), (VMS, 0, 0));
    let mut names: Vec<_> = seen.vms.iter().map(|vm| vm.name.clone()).collect();
    let mut expected: Vec<_> = (1..=VMS).map(|n| format!("micro-{n}")).collect();
    names.sort();
    expected.sort();
    assert_eq!(names, expected);
    for vm in &seen.vms {
        let rate = vm.per_second(vm.all().count);
        assert!(vm.lost == 0 && (3.0..=5.0).contains(&rate), "{rate}: {vm:?}");
    }
    assert!(kib as u64 + MAPS_KIB <= 64 * 1024, "{kib} KiB");
    assert!(cpu <= 0.02, "{cpu}");
}
