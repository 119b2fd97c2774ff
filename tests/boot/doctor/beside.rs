// SPDX-License-Identifier: GPL-2.0-only
//! What costs beside exits: polls, quotas, iothreads, and a fast tick.

use super::{costs, doctor, end, is_first, is_gone, of, on, per_second, vm, PLAIN, SLEEPS};
use crate::{
    support::{compile, guest_on, host_for, host_spec, kernel, stock, tools},
    vmm::guest::pack_init,
};
use paratick_build::kernel::DEFAULT_BASE;
use paratick_machine::snapshot;
use serde_json::Value;

const BUSY: &str = "sh -c 'while :; do :; done'";

fn share(cost: &Value) -> f64 {
    cost["share"].as_f64().unwrap()
}

#[test]
fn polls_in_vain_are_named_first_and_end_at_once() {
    let (host, guest) = vm(PLAIN, "").boot();
    // The guest sleeps for 100 µs, and a window stays half as long.
    for (name, value) in [("", 200_000), ("_grow", 1), ("_grow_start", 50_000)] {
        on(&host, &format!("echo {value} >/sys/module/kvm/parameters/halt_poll_ns{name}"));
    }
    let polls = costs(&host, &guest, SLEEPS);
    assert_eq!(
        (&polls[0]["what"], &polls[0]["state"]),
        (&"polling in vain".into(), &"costs".into())
    );
    on(&host, polls[0]["mend"].as_str().unwrap().split_once(',').unwrap().0);
    let none = costs(&host, &guest, SLEEPS);
    is_gone(&none, "polling in vain");
    assert!(share(&polls[0]) > 0.1 && share(of(&none, "polling in vain")) == 0.0);
    end(host, guest);
}

/// The lab's own kernels have no cgroups of the scheduler's.
#[test]
fn a_quota_is_named_first_and_its_own_line_mends_it() {
    let host = host_for(stock(DEFAULT_BASE).bzimage, 1, &[]);
    let guest = guest_on(&host, kernel(), 1, "tickless", &[]);
    on(&host, "cd /sys/fs/cgroup && echo +cpu >cgroup.subtree_control && mkdir vm");
    on(&host, "echo 20000 100000 >/sys/fs/cgroup/vm/cpu.max");
    on(&host, &format!("echo {} >/sys/fs/cgroup/vm/cgroup.procs", guest.pid()));
    let held = costs(&host, &guest, BUSY);
    is_first(&held, "quota", 4.0, "echo max >");
    // Of each 100 ms it has 20; what it does beside its vCPU counts, too.
    assert!(share(&held[0]) > 0.5, "{}", held[0]);
    on(&host, held[0]["mend"].as_str().unwrap());
    is_gone(&costs(&host, &guest, BUSY), "quota");
    end(host, guest);
}

#[test]
fn an_iothread_that_polls_is_named_first_and_stops_at_once() {
    const INIT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/reads");
    let archive = format!("{INIT}.cpio");
    compile(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/doctor/reads.c"), INIT);
    pack_init(INIT.as_ref(), archive.as_ref());
    let host = snapshot::host(host_spec(kernel(), 1, &[]), &tools(), &mut |_| {}).unwrap();
    let tools = tools();
    let firmware: String =
        tools.firmware.iter().map(|folder| format!(" -L {}", folder.display())).collect();
    // Its monitor reads what is written to the pipe.
    let start = format!(
        "mkfifo /tmp/monitor.in /tmp/monitor.out; cat /tmp/monitor.out >/dev/null & \
         sleep 100000 >/tmp/monitor.in & {}{firmware} -nodefaults -no-user-config -display none \
         -name disk,debug-threads=on -accel kvm -smp 1 -m 128M -cpu host,migratable=off,-xsave \
         -machine q35,sata=off,smbus=off,i8042=off,hpet=off -kernel {} -initrd {archive} \
         -append 'console=ttyS0 panic=1 reboot=t pci=lastbus=0 quiet' -serial file:/tmp/console \
         -chardev pipe,id=monitor,path=/tmp/monitor -mon monitor \
         -object iothread,id=io0,poll-max-ns=2000000 \
         -blockdev null-co,node-name=disk,size=1048576,read-zeroes=on \
         -device virtio-blk-pci,drive=disk,iothread=io0 </dev/null >/tmp/qemu 2>&1 & \
         Q=$!; until grep -q reads /tmp/console; do kill -0 $Q || exec cat /tmp/qemu >&2; \
         sleep 0.1; done",
        tools.qemu.display(),
        kernel().display()
    );
    on(&host, &start);
    let polls = doctor(&host, "disk")["costs"].as_array().unwrap().clone();
    assert_eq!((&polls[0]["what"], &polls[0]["state"]), (&"iothread".into(), &"costs".into()));
    let mend = polls[0]["mend"].as_str().unwrap();
    assert!(mend.contains("poll-max-ns=0"), "{mend}");
    on(&host, &format!("echo '{}' >/tmp/monitor.in; sleep 1", mend.rsplit_once(": ").unwrap().1));
    let after = doctor(&host, "disk");
    let none = after["costs"].as_array().unwrap().clone();
    // Of each read it is told, and of vCPUs there is nothing here.
    let threads = after["threads"].as_array().unwrap();
    let its = threads.iter().find(|one| one["name"] == "IO io0").unwrap();
    assert!(its["wakeups_per_second"].as_f64().unwrap() > 100.0, "{its}");
    assert!(!threads.iter().any(|one| one["name"] == "CPU 0/KVM"), "{threads:?}");
    let (before, after) = (share(&polls[0]), share(of(&none, "iothread")));
    assert!(before > 0.1 && after * 4.0 < before, "{before} {after}");
    host.shutdown().unwrap();
}

/// Ubuntu's kernels have such a tick, and others of distributions.
#[test]
#[ignore = "builds a kernel with another tick rate, 10 minutes"]
fn a_tick_of_1000_hz_is_named_first_and_not_one_of_250() {
    let [fast, usual] = [1000, 250].map(|hz| {
        let host = host_for(crate::hz::kernel_at(hz), 1, &[]);
        let guest = guest_on(&host, kernel(), 1, "tickless", &["nohz_full=0"]);
        let costs = costs(&host, &guest, BUSY);
        end(host, guest);
        costs
    });
    is_first(&fast, "host's tick", 900.0, "CONFIG_HZ=250");
    is_gone_of_tick(&usual);
}

fn is_gone_of_tick(costs: &[Value]) {
    let tick = of(costs, "host's tick");
    assert!(tick["state"] == "free" && tick["found"] == "it has 250 Hz", "{tick}");
    assert!(per_second(tick) < 300.0, "{tick}");
}
