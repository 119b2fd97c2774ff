// SPDX-License-Identifier: GPL-2.0-only

use super::{
    gather::gather,
    overruns,
    raw::{Expiry, VIA_TICK, VIA_TIMER},
};
use paratick_core::latency::Via;

const TRACE: &str = "\
# tracer: timerlat
#
#           TASK-PID      CPU# |||||   TIMESTAMP     ID            CONTEXT                LATENCY
          <idle>-0       [000] d.h1.     4.000932: #7     context    irq timer_latency       932 ns
      timerlat/0-93      [000] .....     4.002700: #7     context thread timer_latency      2700 ns
      a: [1] b-12        [001] d.h..     4.000800: #9     context    irq timer_latency       800 ns
";

fn expiry(cpu: u32, number: u64) -> Expiry {
    Expiry {
        deadline_ns: 4_000_000_000,
        irq_ns: 4_000_000_100,
        expire_ns: 4_000_000_700,
        thread_ns: 0,
        cpu,
        via: VIA_TIMER,
        number,
    }
}

#[test]
fn an_activation_has_timerlat_s_own_numbers() {
    // That of CPU 1 has not ended yet, and of the last nothing was told.
    let found = gather(&[expiry(0, 7), expiry(1, 9), expiry(0, 8)], TRACE).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].cpu, found[0].number, found[0].irq_ns), (0, 7, 932));
    assert_eq!((found[0].thread_ns, found[0].via), (2_700, Via::LocalTimer));
    let tick = gather(&[Expiry { via: VIA_TICK, ..expiry(0, 7) }], TRACE).unwrap();
    assert_eq!(tick[0].via, Via::VirtualTick);
}

#[test]
fn numbers_that_belong_to_another_expiry_are_refused() {
    for expire_ns in [4_000_000_933, 4_000_000_932 - 1_000_000, 0] {
        let error = gather(&[Expiry { expire_ns, ..expiry(0, 7) }], TRACE).unwrap_err();
        assert!(error.to_string().contains("does not belong"), "{error}");
    }
}

#[test]
fn a_trace_that_is_not_understood_or_began_anew_is_refused() {
    assert!(gather(&[], "CPU:0 [LOST 3 EVENTS]\n").unwrap_err().to_string().contains("LOST"));
    let again = TRACE.to_string() + TRACE;
    assert!(gather(&[], &again).unwrap_err().to_string().contains("hint:"));
}

#[test]
fn what_was_written_over_is_counted() {
    let stats = "entries: 5\noverrun: 2\ncommit overrun: 0\nentries: 9\noverrun: 3\n";
    assert_eq!(overruns(stats), 5);
}
