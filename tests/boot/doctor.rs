// SPDX-License-Identifier: GPL-2.0-only
//! `paratick doctor --vm NAME` on the lab's host: what costs a VM is named first, and no longer once the
//! advice was followed.

use crate::support::{guest_on, host_for, kernel, mode, sh, stock, text};
use paratick_build::kernel::DEFAULT_BASE;
use paratick_core::{clock_device::ClockDevice, size::Size, wire::GuestConfig};
use paratick_machine::{guest::Guest, host::Host};
use serde_json::Value;
use std::thread;

fn on(host: &Host, line: &str) -> String {
    let done = host.exec(sh(line)).unwrap();
    assert_eq!(done.code, 0, "{line}: {}", text(&done.stderr));
    text(&done.stdout)
}

/// What costs the only VM of the host while this runs in it until `/tmp/stop` is there.
fn costs(host: &Host, guest: &Guest, load: &str) -> Vec<Value> {
    let load = format!("rm -f /tmp/stop; while [ ! -e /tmp/stop ]; do {load}; done");
    let said = thread::scope(|scope| {
        let loaded = scope.spawn(|| guest.exec(sh(&load)).unwrap());
        let program = assert_cmd::cargo::cargo_bin("paratick");
        let line = "doctor --vm paratick-guest --for 3s --format json";
        let said = host.exec(sh(&format!("sleep 1; env HOME=/tmp {} {line}", program.display())));
        guest.exec(sh("touch /tmp/stop")).unwrap();
        loaded.join().unwrap();
        said.unwrap()
    });
    assert_eq!(said.code, 0, "{}", text(&said.stderr));
    let report: Value = serde_json::from_str(&text(&said.stdout)).unwrap();
    println!("{report:#}");
    assert_eq!(
        (&report["vm"], report["process"].as_u64()),
        (&"paratick-guest".into(), Some(guest.pid().into()))
    );
    report["costs"].as_array().unwrap().clone()
}

fn of<'a>(costs: &'a [Value], what: &str) -> &'a Value {
    costs.iter().find(|cost| cost["what"] == what).unwrap()
}

fn per_second(cost: &Value) -> f64 {
    cost["per_second"].as_f64().unwrap()
}

/// As the guest's clock device the advice is followed at once.
fn is_named_first_and_mended(clock: ClockDevice, what: &str, advice: &str) {
    let host = host_for(kernel(), 1, &[]);
    let [bad, good] = [clock, ClockDevice::TscDeadline].map(|clock| {
        let mut config = GuestConfig::new(kernel(), 1, Size::mib(512), mode("tickless"));
        (config.clock, config.pins) = (clock, vec![1]);
        let guest = host.start_guest(config).unwrap();
        let costs = costs(&host, &guest, "sleep 0.01");
        guest.shutdown().unwrap();
        costs
    });
    assert_eq!((&bad[0]["what"], &bad[0]["state"]), (&what.into(), &"costs".into()));
    assert!(per_second(&bad[0]) > 20.0 && bad[0]["share"].as_f64().unwrap() > 0.0);
    assert!(bad[0]["mend"].as_str().unwrap().contains(advice), "{}", bad[0]);
    let now = of(&good, what);
    assert!(now["state"] == "free" && per_second(now) < 1.0, "{now}");
    assert_eq!(of(&good, "HPET")["found"], "the machine has none, by its command line");
    host.shutdown().unwrap();
}

#[test]
fn an_hpet_in_use_is_named_first_and_costs_nothing_once_it_is_off() {
    is_named_first_and_mended(ClockDevice::Hpet, "HPET", "hpet=off");
}

#[test]
fn a_pit_in_use_is_named_first_and_costs_nothing_once_the_apic_s_timer_is() {
    is_named_first_and_mended(ClockDevice::Pit, "PIT", "APIC timer");
}

/// The lab's own kernels have no cgroups of the scheduler's.
#[test]
fn a_quota_is_named_first_and_its_own_line_mends_it() {
    const BUSY: &str = "i=0; while [ $i -lt 1000 ]; do i=$((i + 1)); done";
    let stock = stock(DEFAULT_BASE);
    let host = host_for(stock.bzimage, 1, &[]);
    let guest = guest_on(&host, kernel(), 1, "tickless", &[]);
    on(&host, "cd /sys/fs/cgroup && echo +cpu >cgroup.subtree_control && mkdir vm");
    on(&host, "echo 20000 100000 >/sys/fs/cgroup/vm/cpu.max");
    on(&host, &format!("echo {} >/sys/fs/cgroup/vm/cgroup.procs", guest.pid()));
    let held = costs(&host, &guest, BUSY);
    assert_eq!((&held[0]["what"], &held[0]["state"]), (&"quota".into(), &"costs".into()));
    // Of each 100 ms it has 20; what it does beside its vCPU counts, too.
    let share = held[0]["share"].as_f64().unwrap();
    assert!(share > 0.5 && per_second(&held[0]) > 4.0, "{}", held[0]);
    on(&host, held[0]["mend"].as_str().unwrap());
    let free = costs(&host, &guest, BUSY);
    let quota = of(&free, "quota");
    assert_eq!((&quota["state"], quota["share"].as_f64()), (&"free".into(), Some(0.0)));
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}
