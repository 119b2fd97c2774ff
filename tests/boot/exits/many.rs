// SPDX-License-Identifier: GPL-2.0-only
//! A host with very many small VMs.

use super::{counted, run, SOURCE, VMM};
use crate::support::{compile, parallel_spec, text, tools};
use paratick_core::size::Size;
use paratick_machine::snapshot;

const VMS: usize = 1500;

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
    // Until it ends; the table is made last.
    let look = "awk '/^memlock/ { n += $2 } END { print n / 1024 }' /proc/$I/fdinfo/*; \
                while H=$(grep VmHWM /proc/$I/status); do read T _ </proc/uptime; \
                set -- $(cat /proc/$I/stat) $H; echo $T $((${14} + ${15})) ${54}; sleep 0.2; done";
    let (seen, said) = counted(&host, "", "--for 14s", look);
    let (maps_kib, said) = said.split_once('\n').unwrap();
    let maps_kib: f64 = maps_kib.parse().unwrap();
    let lines = said.lines().map(|line| -> Vec<f64> {
        line.split(' ').map(|number| number.parse().expect(line)).collect()
    });
    let lines: Vec<_> = lines.collect();
    let (first, last) = (&lines[0], lines.last().unwrap());
    // The last table takes some seconds, and memory for all at once.
    let counting = lines.iter().rev().find(|line| line[0] <= first[0] + 11.0).unwrap();
    println!("{first:?} {counting:?} {last:?}");
    let cpu = (counting[1] - first[1]) / 100.0 / (counting[0] - first[0]);
    let kib = counting[2];
    let kinds: usize = seen.vms.iter().map(|vm| vm.exits.len()).sum();
    println!(
        "{cpu} of a CPU, {kib} KiB and {maps_kib} of maps, {} exits of {kinds} kinds",
        seen.total().count
    );
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
    assert!(cpu <= 0.02, "{cpu}");
    assert!(maps_kib > 30_000.0 && last[2] + maps_kib <= 64.0 * 1024.0, "{maps_kib} {last:?}");
    host.shutdown().unwrap();
}
