// SPDX-License-Identifier: GPL-2.0-only
//! VMs whose QEMU a test starts by hand: with iothreads, or with several processors.

use super::{beside::share, doctor, is_first, is_gone, of, on, per_second};
use crate::{
    support::{compile, host_spec, kernel, tools},
    vmm::guest::pack_init,
};
use paratick_machine::{host::Host, snapshot};
use serde_json::Value;

const READS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/doctor/reads.c");

pub fn host() -> Host {
    snapshot::host(host_spec(kernel(), 1, &[]), &tools(), &mut |_| {}).unwrap()
}

/// A VM that reads its disk each millisecond.  `name` is a test's own, and of a pipe in /tmp that
/// leads to its monitor, too.
pub fn start(host: &Host, name: &str, cpu: &str, more: &str) {
    let init = format!("{}/{name}", env!("CARGO_TARGET_TMPDIR"));
    let archive = format!("{init}.cpio");
    compile(READS, &init);
    pack_init(init.as_ref(), archive.as_ref());
    let tools = tools();
    let firmware: String =
        tools.firmware.iter().map(|folder| format!(" -L {}", folder.display())).collect();
    let line = format!(
        "cd /tmp; mkfifo {name}.in {name}.out; cat {name}.out >/dev/null & \
         sleep 100000 >{name}.in & {}{firmware} -nodefaults -no-user-config -display none \
         -name {name},debug-threads=on -accel kvm -m 128M -cpu host,migratable=off,-xsave{cpu} \
         -machine q35,sata=off,smbus=off,i8042=off,hpet=off -kernel {} -initrd {archive} \
         -append 'console=ttyS0 panic=1 reboot=t pci=lastbus=0 quiet' -serial file:{name} \
         -chardev pipe,id=monitor,path={name} -mon monitor \
         -blockdev null-co,node-name=disk,size=1048576,read-zeroes=on {more} \
         </dev/null >{name}.qemu 2>&1 & Q=$!; echo $Q >{name}.pid; \
         until grep -q reads {name}; do kill -0 $Q || {{ cat {name} {name}.qemu >&2; exit 1; }}; \
         sleep 0.1; done",
        tools.qemu.display(),
        kernel().display()
    );
    on(host, &line);
}

pub fn costs(report: &Value) -> Vec<Value> {
    report["costs"].as_array().unwrap().clone()
}

#[test]
fn an_iothread_that_polls_is_named_first_and_stops_at_once() {
    let host = host();
    let more = "-smp 1 -object iothread,id=io0,poll-max-ns=2000000 \
                -device virtio-blk-pci,drive=disk,iothread=io0";
    start(&host, "disk", "", more);
    let polls = costs(&doctor(&host, "disk"));
    assert_eq!((&polls[0]["what"], &polls[0]["state"]), (&"iothread".into(), &"costs".into()));
    let mend = polls[0]["mend"].as_str().unwrap();
    assert!(mend.contains("poll-max-ns=0"), "{mend}");
    on(&host, &format!("echo '{}' >/tmp/disk.in; sleep 1", mend.rsplit_once(": ").unwrap().1));
    let after = doctor(&host, "disk");
    let (before, now) = (share(&polls[0]), share(of(&costs(&after), "iothread")));
    assert!(before > 0.1 && now * 4.0 < before, "{before} {now}");
    // Of each read it is told, and of vCPUs there is nothing here.
    let threads = after["threads"].as_array().unwrap();
    let its = threads.iter().find(|one| one["name"] == "IO io0").unwrap();
    assert!(its["wakeups_per_second"].as_f64().unwrap() > 100.0, "{its}");
    assert!(!threads.iter().any(|one| one["name"] == "CPU 0/KVM"), "{threads:?}");
    host.shutdown().unwrap();
}

/// Two processors of AMD's are not believed to have the same TSC, unless it is invariant.
#[test]
fn a_clock_that_exits_is_named_first_and_not_needed_beside_an_invariant_tsc() {
    let host = host();
    let more = "-smp 2,sockets=2 -device virtio-blk-pci,drive=disk";
    start(&host, "variant", ",kvm=off,-invtsc", more);
    let none = costs(&doctor(&host, "variant"));
    is_first(&none, "clock", 1000.0, "+invtsc");
    let eoi = of(&none, "paravirtual EOI");
    assert!(per_second(eoi) > 500.0 && eoi["mend"] == "QEMU: -cpu … without kvm=off", "{eoi}");
    on(&host, "kill $(cat /tmp/variant.pid)");
    // The emulated processor's own TSC does not say that it is.
    start(&host, "invariant", ",kvm=off,+invtsc,x-force-features=on", more);
    let given = costs(&doctor(&host, "invariant"));
    is_gone(&given, "clock");
    assert!(per_second(of(&given, "paravirtual EOI")) > 500.0);
    host.shutdown().unwrap();
}
