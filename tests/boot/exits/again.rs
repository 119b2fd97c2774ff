// SPDX-License-Identifier: GPL-2.0-only
//! Numbers of processes and threads that others had before.

use super::{counted, run, SOURCE, VMM};
use crate::support::{compile, host_spec, kernel, text, tools};
use paratick_core::observed::{Observed, Vm};
use paratick_machine::{host::Host, snapshot};

fn machine() -> Host {
    compile(SOURCE, VMM);
    snapshot::host(host_spec(kernel(), 2, &[]), &tools(), &mut |_| {}).unwrap()
}

fn named<'a>(seen: &'a Observed, name: &str) -> &'a Vm {
    seen.vms.iter().find(|vm| vm.name == name).unwrap_or_else(|| panic!("{name}: {seen:?}"))
}

/// The second VM begins when the first has ended, and runs while that one's counts are taken.
#[test]
fn a_process_with_the_number_of_one_that_has_ended_is_another_vm() {
    let host = machine();
    let vms = "export AS=20000; $VMM 1 100 --id first 4000; $VMM 1 200 --id second 30000";
    let (seen, printed) = counted(&host, "", "--for 9s", vms);
    let lines: Vec<Vec<&str>> =
        printed.lines().map(|line| line.split_whitespace().collect()).collect();
    println!("{lines:?}");
    assert_eq!((seen.vms.len(), seen.lost), (2, 0), "{seen:?}");
    for line in lines {
        let vm = named(&seen, line[0]);
        assert_eq!((vm.process, line[1]), (20_000, "20000"));
        assert_eq!((vm.all().count.to_string().as_str(), vm.lost), (line[2], 0), "{vm:?}");
    }
    host.shutdown().unwrap();
}

/// A thread that becomes another program is no vCPU's any more: its last exit is over.
#[test]
fn an_exec_of_a_vcpu_s_thread_ends_its_exits() {
    let host = machine();
    let vms = "THEN=5 $VMM 1 100 --id turned 4000 & THEN=5 $VMM 3 100 --id turned-three & sleep 4";
    let (seen, printed) = counted(&host, "", "--for 4s", vms);
    println!("{printed}");
    for vm in &seen.vms {
        assert!(!vm.ended, "{vm:?}");
        let open =
            vm.exits.iter().filter(|one| one.spent.lengths.iter().sum::<u64>() != one.spent.count);
        assert_eq!(open.count(), 0, "{vm:?}");
        assert!(vm.all().ns() < 2_000_000_000 * vm.vcpus() as u64, "{vm:?}");
    }
    assert_eq!(seen.vms.len(), 2, "{seen:?}");
    let left = run(&host, "pkill -x sleep; true");
    assert_eq!(left.code, 0, "{}", text(&left.stderr));
    host.shutdown().unwrap();
}
