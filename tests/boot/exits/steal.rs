// SPDX-License-Identifier: GPL-2.0-only
//! What a quota and a neighbour take from a VM.

use super::{counted, parts_are_the_whole, run};
use crate::support::{endless, host_for, kernel, mode, sh, stock, text, STOP};
use paratick_build::kernel::DEFAULT_BASE;
use paratick_core::{observed::Vm, size::Size, wire::GuestConfig};
use paratick_machine::host::Host;
use std::{collections::BTreeMap, thread};

/// For how much of a CPU's time the vCPU's thread waited for one, by the scheduler's own count, and
/// the VM as it was seen meanwhile, alone.
fn seen_and_waited(host: &Host, process: u32) -> (Vm, f64) {
    let waited = format!(
        "at() {{ read T _ </proc/uptime; echo $T; for D in /proc/{process}/task/*; do \
         read _ W _ <$D/schedstat && echo ${{D##*/}} $W; done; }}; at; echo -; sleep 3; at"
    );
    let (mut seen, said) = counted(host, "", &format!("--vm {process} --for 3s"), &waited);
    assert_eq!(seen.vms.len(), 1, "{seen:?}");
    let at = |lines: &str| -> (f64, BTreeMap<String, f64>) {
        let (at, threads) = lines.split_once('\n').unwrap();
        let of = |line: &str| {
            let (thread, ns) = line.split_once(' ').unwrap();
            (thread.to_string(), ns.parse().unwrap())
        };
        (at.parse().unwrap(), threads.lines().map(of).collect())
    };
    let (before, after) = said.split_once("-\n").unwrap();
    let ((from, before), (to, after)) = (at(before), at(after));
    // Others of the VMM's hardly run.
    let waited = after.iter().map(|(thread, ns)| ns - before.get(thread).unwrap_or(ns));
    (seen.vms.remove(0), waited.fold(0.0, f64::max) / 1e9 / (to - from))
}

/// Of two guests that compute, one may run for half of the time, and one shares its pCPU.
#[test]
fn a_quota_and_a_neighbour_are_steal_of_their_own_vm() {
    // The lab's own kernels have no cgroups of the scheduler's.
    let host = host_for(stock(DEFAULT_BASE).bzimage, 3, &[]);
    let guests = [1, 2, 3].map(|cpu| {
        let mut config = GuestConfig::new(kernel(), 1, Size::mib(256), mode("tickless"));
        config.pins = vec![cpu];
        host.start_guest(config).unwrap()
    });
    let [held, beside, free] = [0, 1, 2].map(|n| guests[n].pid());
    let set = format!(
        "cd /sys/fs/cgroup && echo +cpu >cgroup.subtree_control && mkdir vm && \
         echo 50000 100000 >vm/cpu.max && echo {held} >vm/cgroup.procs; \
         taskset -c 2 {} >/dev/null 2>&1 & echo $! >/tmp/neighbour",
        endless("cpu")
    );
    let set = run(&host, &set);
    assert_eq!(set.code, 0, "{}", text(&set.stderr));
    let seen = thread::scope(|scope| {
        for guest in &guests {
            scope.spawn(|| guest.exec(sh(&endless("cpu"))).unwrap());
        }
        run(&host, "sleep 1");
        let seen = [held, beside, free].map(|process| seen_and_waited(&host, process));
        run(&host, "kill $(cat /tmp/neighbour)");
        for guest in &guests {
            guest.exec(sh(STOP)).unwrap();
        }
        seen
    });
    for ((vm, waited), expected) in seen.into_iter().zip([0.5, 0.5, 0.0]) {
        let stolen = vm.share(vm.all().steal_ns);
        println!("{}: {stolen} stolen, {waited} waited", vm.process);
        parts_are_the_whole(&vm);
        assert!((stolen - expected).abs() <= 0.1, "{stolen}");
        assert!((stolen - waited).abs() <= 0.03, "{stolen} {waited}");
    }
    for guest in guests {
        guest.shutdown().unwrap();
    }
    host.shutdown().unwrap();
}
