// SPDX-License-Identifier: GPL-2.0-only
use super::{raw::*, *};
use proptest::prelude::*;
use std::mem::size_of;

#[test]
fn the_layouts_are_those_of_the_c_header() {
    assert_eq!(size_of::<Thread>(), 40);
    assert_eq!(size_of::<Window>(), 32);
    assert_eq!(size_of::<Key>(), 20);
    assert_eq!((MAX_WINDOWS, STATE_WINDOWS, STATE_LOST), (4096, 0, 2));
}

#[test]
fn the_facts_are_those_of_the_c_header() {
    let facts = [
        (FACT_MSR, Facts::MSR),
        (FACT_WRITE, Facts::WRITE),
        (FACT_NONZERO, Facts::NONZERO),
        (FACT_MMIO, Facts::MMIO),
        (FACT_APIC_REG, Facts::APIC_REGISTER),
        (FACT_TIMER, Facts::TIMER),
        (FACT_VCPU_TIMER, Facts::VCPU_TIMER),
        (FACT_IPI, Facts::IPI),
        (FACT_DEVICE, Facts::DEVICE),
        (FACT_HALT, Facts::HALT),
        (FACT_TICK, Facts::TICK),
    ];
    for (bit, fact) in facts {
        assert_eq!(bit, fact.0);
    }
    let header = include_str!("../../../../bpf/exits.h");
    assert_eq!(header.matches("#define FACT_").count(), facts.len());
}

fn noted(isa: u32, reason: u32, arguments: Arguments) -> Thread {
    // What the exit before left must not matter.
    let mut thread = Thread {
        isa,
        window: 1,
        msr: 7,
        facts: u32::MAX,
        wait: 1,
        in_timer: 1,
        ..Default::default()
    };
    note_exit(&mut thread, reason, &arguments);
    thread
}

fn infos(info1: u64, info2: u64, intr_info: u64) -> Arguments {
    Arguments { info1, info2, intr_info }
}

/// The facts and the register of an exit as it happens.
fn described(isa: u32, reason: u32, arguments: Arguments) -> (Facts, u32) {
    let thread = noted(isa, reason, arguments);
    (Facts(thread.facts), thread.msr)
}

#[test]
fn an_access_to_the_apic_s_page_names_its_register() {
    let apic = Facts::APIC_REGISTER;
    let fault = infos(0, 0xfee0_0380, 0);
    assert_eq!(described(ISA_SVM, 0x400, fault), (Facts::MMIO | apic, 0x380));
    assert_eq!(described(ISA_SVM, 0x402, infos(0x3b7, 0, 0)), (apic, 0x3b0));
    for reason in [44, 56] {
        assert_eq!(described(ISA_VMX, reason, infos(0x10b0, 0, 0)), (apic, 0xb0));
    }
    // A page of another device, and one of memory.
    let none = Facts::default();
    assert_eq!(described(ISA_SVM, 0x400, infos(8, 0xfec0_0000, 0)), (Facts::MMIO, 0));
    assert_eq!(described(ISA_SVM, 0x400, infos(4, 0x1000, 0)), (none, 0));
}

#[test]
fn a_posted_interrupt_is_an_ipi_and_awaits_no_handler() {
    for vector in 0xf0..=0xf2 {
        let mut thread = noted(ISA_VMX, 1, infos(0, 0, 1 << 31 | vector));
        note_handler(&mut thread, FACT_TIMER);
        assert_eq!(thread.facts, FACT_IPI);
    }
    // Another vector, and one that is not valid.
    for intr_info in [1 << 31 | 0xec, 0xf2] {
        let mut thread = noted(ISA_VMX, 1, infos(0, 0, intr_info));
        note_handler(&mut thread, FACT_DEVICE);
        assert_eq!(thread.facts, FACT_DEVICE);
    }
}

#[test]
fn a_hypercall_halts_by_its_number_and_nothing_else_does() {
    for (isa, reason) in [(ISA_SVM, 0x81), (ISA_VMX, 18)] {
        for number in [HC_HALT_UNTIL - 1, HC_HALT_UNTIL, HC_HALT_UNTIL + 1] {
            let mut thread = noted(isa, reason, infos(0, 0, 0));
            note_hypercall(&mut thread, number.into());
            let halts = number == HC_HALT_UNTIL;
            assert_eq!(thread.facts, if halts { FACT_HALT } else { 0 });
        }
        // The number has 64 bits.
        let mut thread = noted(isa, reason, infos(0, 0, 0));
        note_hypercall(&mut thread, 1 << 32 | u64::from(HC_HALT_UNTIL));
        assert_eq!(thread.facts, 0);
    }
    // Of another exit, such as the other processor's hypercall.
    for (isa, reason) in [(ISA_SVM, 18), (ISA_VMX, 0x81), (ISA_SVM, 0x78)] {
        let mut thread = noted(isa, reason, infos(0, 0, 0));
        note_hypercall(&mut thread, HC_HALT_UNTIL.into());
        assert_eq!(thread.facts, 0);
    }
}

proptest! {
    /// Of any exit: only its own MSR access counts, only an exit by an interrupt has a handler,
    /// and KVM's timer of the vCPU only counts in the timer's.
    #[test]
    fn what_follows_an_exit_is_noted_where_it_belongs(
        isa in ISA_VMX..=ISA_SVM,
        reason in prop_oneof![0u32..0x80, 0x400u32..0x404, any::<u32>()],
        arguments in (0u64..16, any::<u64>(), 0u64..1 << 32),
        handlers in prop::collection::vec(0usize..3, 0..3),
        accesses in prop::collection::vec((any::<u32>(), 0u64..2), 0..3),
    ) {
        let mut thread = noted(isa, reason, infos(arguments.0, arguments.1, arguments.2));
        let first = thread;
        let is_msr = awaits_msr(&thread);
        prop_assert_eq!(is_msr, matches!((isa, reason), (ISA_SVM, 0x7c) | (ISA_VMX, 31 | 32)));
        for (msr, value) in &accesses {
            if awaits_msr(&thread) {
                note_msr(&mut thread, *msr, *value);
            }
        }
        let facts = [FACT_TIMER, FACT_IPI, FACT_DEVICE];
        for handler in &handlers {
            note_handler(&mut thread, facts[*handler]);
            note_vcpu_timer(&mut thread);
        }
        let mut due = first.facts;
        if let (true, Some((msr, value))) = (is_msr, accesses.first()) {
            prop_assert_eq!(thread.msr, *msr);
            let nonzero = first.facts & FACT_WRITE != 0 && *value != 0;
            due |= FACT_MSR | if nonzero { FACT_NONZERO } else { 0 };
        } else {
            prop_assert_eq!(thread.msr, first.msr);
        }
        if let (1, Some(handler)) = (first.wait, handlers.first()) {
            due |= facts[*handler] | if *handler == 0 { FACT_VCPU_TIMER } else { 0 };
        }
        prop_assert_eq!(thread.facts, due);
    }
}
