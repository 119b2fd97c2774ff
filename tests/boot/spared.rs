// SPDX-License-Identifier: GPL-2.0-only
//! IPIs that a guest does not send to CPUs that are going idle: what that saves, and that nobody
//! waits for ever.

use crate::support::{kernel, pair, parallel_spec, sh, text, tools, workload};

const SWITCH: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_learn";

/// How long the rounds of the second test may take, in seconds of the guest's time.
const MOST_S: f64 = 20.0;

#[test]
fn tasks_that_wait_for_each_other_take_a_twentieth_of_the_exits() {
    let spec = parallel_spec(2);
    let hand_offs = ["pingpong", "barrier"];
    let [stock, learned] = ["tickless", "paratick"].map(|mode| {
        let (host, guest) = pair(spec.clone(), kernel(), 2, mode, &[]);
        let measured = hand_offs.map(|name| workload(&host, &guest, name, &["--work", "1000"]));
        guest.shutdown().unwrap();
        measured
    });
    for (name, (stock, learned)) in hand_offs.iter().zip(stock.iter().zip(&learned)) {
        let exits = (stock.exits, learned.exits);
        assert!(exits.0 > 1000 && 20 * exits.1 <= exits.0, "{name}: {exits:?}");
        // A wake-up that is not found waits for a timer: that takes a thousand times as long.
        let times = [stock, learned].map(|one| one.report("duration_ns"));
        assert!(times[1] <= times[0], "{name}: {times:?}");
    }
}

#[test]
fn no_wake_up_is_lost_while_ipis_are_spared_and_not_in_turns() {
    let (host, guest) = pair(parallel_spec(4), kernel(), 4, "paratick", &[]);
    let agent = tools().agent.display().to_string();
    // Sooner or later a timer finds what was lost, so nobody waits for ever: the time tells.
    let script = format!(
        "set -e; cpu=/sys/devices/system/cpu/cpu3/online; read -r begun _ </proc/uptime\n\
         for i in $(seq 20); do\n\
         {agent} workload barrier --work 2000 >/dev/null & b=$!\n\
         {agent} workload pingpong --work 1000 >/dev/null & p=$!\n\
         for j in $(seq 5); do echo N >{SWITCH}; echo Y >{SWITCH}; done\n\
         [ $((i % 10)) != 0 ] || {{ echo 0 >$cpu; echo 1 >$cpu; }}\n\
         wait $b; wait $p\n\
         done; ! dmesg | grep -E 'detected stall|soft lockup|WARNING:|BUG:'\n\
         read -r ended _ </proc/uptime; echo $begun $ended"
    );
    let done = guest.exec(sh(&script)).unwrap();
    let said = text(&done.stdout);
    assert_eq!(done.code, 0, "{said}{}", text(&done.stderr));
    let [begun, ended] = [0, 1].map(|nth| said.split_whitespace().nth(nth).unwrap());
    let [begun, ended]: [f64; 2] = [begun, ended].map(|seconds| seconds.parse().unwrap());
    println!("{:.2} s", ended - begun);
    assert!(ended - begun < MOST_S, "{said}");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}
