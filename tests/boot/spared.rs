// SPDX-License-Identifier: GPL-2.0-only
//! IPIs that a guest does not send to CPUs that are going idle: what that saves, and that nobody
//! waits for ever.

use crate::support::{guest_on, kernel, sh, text, tools, workload};
use paratick_core::size::Size;
use paratick_machine::{backend::EMULATED, host::Host, spec::HostSpec};

const LEARN: [&str; 2] = ["cpuidle_haltpoll.force=1", "haltpoll.guest_halt_poll_learn=1"];
const SWITCH: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_learn";

/// A host whose CPUs run in parallel: a wake-up may come while a CPU goes idle.
fn host(vcpus: u32) -> Host {
    let mut spec = HostSpec::for_guests(EMULATED, kernel(), vcpus, Size::mib(1024));
    spec.emulation.parallel_clock = true;
    let host = Host::boot(spec, &tools(), &mut |_| {}).unwrap();
    host.counting_start().unwrap();
    host
}

#[test]
fn tasks_that_wait_for_each_other_take_a_twentieth_of_the_exits() {
    let host = host(2);
    let hand_offs = ["pingpong", "barrier"];
    let [stock, learned] = [("tickless", &[][..]), ("paratick", &LEARN)].map(|(mode, append)| {
        let guest = guest_on(&host, kernel(), 2, mode, append);
        let exits = hand_offs.map(|name| workload(&host, &guest, name, &["--work", "1000"]).exits);
        guest.shutdown().unwrap();
        exits
    });
    for (name, (stock, learned)) in hand_offs.iter().zip(stock.into_iter().zip(learned)) {
        assert!(stock > 1000 && 20 * learned <= stock, "{name}: {learned} of {stock}");
    }
    host.shutdown().unwrap();
}

#[test]
fn no_wake_up_is_lost_while_ipis_are_spared_and_not_in_turns() {
    let host = host(4);
    let guest = guest_on(&host, kernel(), 4, "paratick", &LEARN);
    let agent = tools().agent.display().to_string();
    // Whoever waits for ever is stopped by the limit of time.
    let script = format!(
        "set -e; cpu=/sys/devices/system/cpu/cpu3/online\n\
         for i in $(seq 20); do\n\
         {agent} workload barrier --work 2000 >/dev/null & b=$!\n\
         {agent} workload pingpong --work 1000 >/dev/null & p=$!\n\
         for j in $(seq 5); do echo N >{SWITCH}; echo Y >{SWITCH}; done\n\
         [ $((i % 10)) != 0 ] || {{ echo 0 >$cpu; echo 1 >$cpu; }}\n\
         wait $b; wait $p\n\
         done; dmesg | grep -E 'detected stall|soft lockup|WARNING:|BUG:' || echo clean"
    );
    let done = guest.exec(sh(&script)).unwrap();
    assert_eq!((done.code, text(&done.stdout).trim()), (0, "clean"), "{}", text(&done.stderr));
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}
