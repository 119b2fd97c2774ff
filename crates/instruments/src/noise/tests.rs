// SPDX-License-Identifier: GPL-2.0-only

use super::{gather::gather, raw::ABSENCE_HEAVY, *};
use paratick_core::{cause::Cause, noise::Class};

/// An interrupt exit under SVM; KVM's timer of the vCPU was in it.
fn exit() -> Absence {
    Absence {
        began_ns: 1_000,
        ended_ns: 6_000,
        kvm_ns: 2_000,
        interrupted_ns: 3_000,
        tgid: 7,
        vcpu: 1,
        isa: 2,
        reason: 0x60,
        facts: 0b110_0000,
        exit_cpu: 2,
        entry_cpu: 3,
        ..Absence::default()
    }
}

#[test]
fn an_exit_has_the_cause_that_it_is_counted_under() {
    let absence = gather(&exit());
    assert_eq!((absence.cause, absence.class, absence.ns), (Cause::Expiry, Class::Light, 5_000));
    assert_eq!((absence.exit_cpu, absence.entry_cpu, absence.taker), (2, 3, None));
    let halt = gather(&Absence { reason: 0x78, flags: ABSENCE_HEAVY, ..exit() });
    assert_eq!((halt.cause, halt.class), (Cause::Halt, Class::Halt));
    let port = Absence { reason: 0x7b, facts: 0, flags: ABSENCE_HEAVY, ..exit() };
    let port = gather(&port);
    assert_eq!((port.cause, port.class), (Cause::Io, Class::Heavy));
    let pvm = gather(&Absence { isa: 3, reason: 7, ..exit() });
    assert_eq!((pvm.cause, pvm.reason.as_str()), (Cause::Other, "isa 3: 0x7"));
}

#[test]
fn who_ran_instead_has_a_name() {
    let taker_low = u64::from_ne_bytes(*b"rcu_sche");
    let taker_high = u64::from_ne_bytes(*b"d\0junk!!");
    let taken = Absence { taker: 15, taker_low, taker_high, ..exit() };
    assert_eq!(gather(&taken).taker.as_deref(), Some("rcu_sched"));
}
