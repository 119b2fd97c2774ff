// SPDX-License-Identifier: GPL-2.0-only
//! What perf records is what the sensor counts.

use super::{counted, run, SOURCE, VMM};
use crate::support::{compile, host_spec, kernel, text, tools};
use paratick_core::observed::{Observed, Vm};
use paratick_machine::snapshot;
use std::collections::BTreeMap;

/// Exits by vCPU and what `of` says of each.
fn by(vm: &Vm, of: impl Fn(&paratick_core::observed::Kind) -> String) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for one in vm.exits.iter().filter(|one| one.spent.count > 0) {
        *counts.entry(format!("{} {}", one.vcpu, of(&one.kind))).or_default() += one.spent.count;
    }
    counts
}

#[test]
fn a_recording_of_perf_s_has_the_sensor_s_counts() {
    compile(SOURCE, VMM);
    let host = snapshot::host(host_spec(kernel(), 3, &[]), &tools(), &mut |_| {}).unwrap();
    let vms =
        "cd /tmp; perf kvm -o stat.data stat record -a -- perf record -q -a -m 1024 -e 'kvm:*' \
               -o all.data -- sh -c \"$VMM 2 150 --id two 2000; $VMM 1 250 --id one 2000\" >&2";
    let (seen, _) = counted(&host, "", "--for 60s", vms);
    assert_eq!((seen.vms.len(), seen.lost), (2, 0), "{seen:?}");
    for (file, is_all) in [("all", true), ("stat", false)] {
        let result = run(&host, &format!("$P exits --recording /tmp/{file}.data --format json"));
        let recorded: Observed = serde_json::from_slice(&result.stdout).unwrap();
        println!("{:?}", recorded.lacks);
        assert_eq!(recorded.vms.len(), 2, "{recorded:?}");
        assert_eq!(recorded.lacks.iter().any(|lack| lack.contains("kvm_apic")), !is_all);
        assert!(!recorded.lacks.iter().any(|lack| lack.contains("lost")), "{:?}", recorded.lacks);
        for vm in &recorded.vms {
            let live = seen.vms.iter().find(|live| live.process == vm.process).unwrap();
            let reason = |kind: &paratick_core::observed::Kind| kind.reason.to_string();
            assert_eq!(by(vm, reason), by(live, reason), "{file}");
            // Causes, too, and what it was about; but for what only the host's handlers tell.
            let all = |kind: &paratick_core::observed::Kind| match &*kind.reason {
                "interrupt" => "interrupt".to_string(),
                _ => format!("{kind:?}"),
            };
            assert!(!is_all || by(vm, all) == by(live, all), "{vm:?}\n{live:?}");
            let spent = vm.all();
            let ended: u64 = spent.lengths.iter().sum();
            // The last exit of each vCPU is its last.
            assert_eq!(ended + vm.vcpus() as u64, spent.count, "{vm:?}");
            assert!(spent.unplaced_ns > Some(0) && spent.cpu_ns() == 0, "{vm:?}");
        }
    }
    let compressed = "cd /tmp; perf record -z -q -a -e kvm:kvm_exit -o z.data -- \
                      $VMM 1 200 --id zipped >&2; $P exits --recording z.data";
    let refused = run(&host, compressed);
    let error = text(&refused.stderr);
    assert!(refused.code == 2 && error.contains("it is compressed"), "{error}");
    // One VM of it, for people.
    let process = seen.vms[0].process;
    let shown = run(&host, &format!("$P exits --recording /tmp/stat.data --vm {process}"));
    let shown = text(&shown.stdout);
    println!("{shown}");
    assert!(shown.contains("Process") && shown.contains("Not recorded: kvm_"), "{shown}");
    host.shutdown().unwrap();
}
