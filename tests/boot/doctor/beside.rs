// SPDX-License-Identifier: GPL-2.0-only
//! What costs beside exits: polls, quotas, and a fast tick.

use super::{costs, end, is_first, is_gone, of, on, per_second, vm, PLAIN, SLEEPS};
use crate::support::{endless, guest_on, host_for, kernel, stock};
use paratick_build::kernel::DEFAULT_BASE;
use serde_json::Value;

pub fn share(cost: &Value) -> f64 {
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
    let held = costs(&host, &guest, &endless("cpu"));
    is_first(&held, "quota", 4.0, "echo max >");
    // Of each 100 ms it has 20; what it does beside its vCPU counts, too.
    assert!(share(&held[0]) > 0.5, "{}", held[0]);
    on(&host, held[0]["mend"].as_str().unwrap());
    is_gone(&costs(&host, &guest, &endless("cpu")), "quota");
    end(host, guest);
}

/// Ubuntu's kernels have such a tick, and others of distributions.
#[test]
#[ignore = "builds a kernel with another tick rate, 10 minutes"]
fn a_tick_of_1000_hz_is_named_first_and_not_one_of_250() {
    let [fast, usual] = [1000, 250].map(|hz| {
        let host = host_for(crate::hz::kernel_at(hz), 1, &[]);
        let guest = guest_on(&host, kernel(), 1, "tickless", &["nohz_full=0"]);
        let costs = costs(&host, &guest, &endless("cpu"));
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
