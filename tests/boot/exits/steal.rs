// SPDX-License-Identifier: GPL-2.0-only
//! What a quota and a neighbour take from a VM.

use super::{counted, parts_are_the_whole, run};
use crate::support::{host_for, kernel, mode, sh, stock, text};
use paratick_build::kernel::DEFAULT_BASE;
use paratick_core::{observed::Vm, size::Size, wire::GuestConfig};
use paratick_machine::host::Host;
use std::thread;

/// How much of a CPU the threads of a process waited for, by the scheduler's own count, and the
/// VM as it was seen meanwhile, alone.
fn seen_and_waited(host: &Host, process: u32) -> (Vm, f64) {
    let waited = format!(
        "at() {{ read T _ </proc/uptime; echo $T; cat /proc/{process}/task/*/schedstat | \
         while read _ W _; do echo $W; done; }}; at; echo -; sleep 3; at"
    );
    let (mut seen, said) = counted(host, "", &format!("--vm {process} --for 5s"), &waited);
    assert_eq!(seen.vms.len(), 1, "{seen:?}");
    let sums = said.split("-\n").map(|at| {
        let mut numbers = at.lines().map(|line| line.parse::<f64>().unwrap());
        (numbers.next().unwrap(), numbers.sum::<f64>())
    });
    let [(from, before), (to, after)] = sums.collect::<Vec<_>>()[..] else { panic!("{said}") };
    (seen.vms.remove(0), (after - before) / 1e9 / (to - from))
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
         taskset -c 2 sh -c 'while :; do :; done' >/dev/null 2>&1 & echo $! >/tmp/neighbour"
    );
    let set = run(&host, &set);
    assert_eq!(set.code, 0, "{}", text(&set.stderr));
    thread::scope(|scope| {
        for guest in &guests {
            scope.spawn(|| guest.exec(sh("while [ ! -e /tmp/stop ]; do :; done")).unwrap());
        }
        run(&host, "sleep 1");
        for (process, expected) in [(held, 0.5), (beside, 0.5), (free, 0.0)] {
            let (vm, waited) = seen_and_waited(&host, process);
            let stolen = vm.share(vm.all().steal_ns);
            println!("{process}: {stolen} stolen, {waited} waited: {:?}", vm.causes());
            assert_eq!(vm.process, process);
            parts_are_the_whole(&vm);
            assert!((stolen - expected).abs() <= 0.1, "{stolen}");
            assert!((stolen - waited).abs() <= 0.03, "{stolen} {waited}");
        }
        run(&host, "kill $(cat /tmp/neighbour)");
        for guest in &guests {
            guest.exec(sh("touch /tmp/stop")).unwrap();
        }
    });
    for guest in guests {
        guest.shutdown().unwrap();
    }
    host.shutdown().unwrap();
}
