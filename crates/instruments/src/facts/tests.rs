// SPDX-License-Identifier: GPL-2.0-only
use super::{raw::*, *};
use paratick_core::cause::TIMERS;
use proptest::prelude::*;
use std::mem::size_of;

#[test]
fn timers_are_told_apart_by_their_functions_in_the_order_of_the_header() {
    let of = |which: u32| TIMERS[which as usize - 1][0];
    assert_eq!(of(TIMER_APIC), "apic_timer_fn");
    assert_eq!(of(TIMER_PV_TICK), "kvm_pv_tick_timer_fn");
    assert_eq!(of(TIMER_STIMER), "stimer_timer_callback");
    assert_eq!(of(TIMER_XEN), "xen_timer_callback");
    assert_eq!(of(TIMER_PIT), "pit_timer_fn");
    assert_eq!(of(TIMER_PREEMPTION), "vmx_preemption_timer_fn");
    assert_eq!(of(TIMER_HOST_TICK), "tick_sched_timer");
    assert_eq!(of(TIMER_HRTICK), "hrtick");
    assert_eq!(TIMERS.len(), TIMER_HRTICK as usize);
}

#[test]
fn the_layouts_are_those_of_the_c_header() {
    assert_eq!(size_of::<Thread>(), 56);
    assert_eq!(size_of::<Window>(), 32);
    assert_eq!(size_of::<Key>(), 24);
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
        (FACT_HYPERCALL, Facts::HYPERCALL),
        (FACT_HV_CALL, Facts::HV_CALL),
        (FACT_XEN_CALL, Facts::XEN_CALL),
        (FACT_PORT, Facts::PORT),
        (FACT_HOST_TICK, Facts::HOST_TICK),
        (FACT_HRTICK, Facts::HRTICK),
        (FACT_OTHER_TIMER, Facts::OTHER_TIMER),
        (FACT_NESTED, Facts::NESTED),
        (FACT_REFLECTED, Facts::REFLECTED),
        (FACT_VMGEXIT, Facts::VMGEXIT),
        (FACT_VALUE, Facts::VALUE),
        (FACT_MANY, Facts::MANY),
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
        detail: 7,
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
fn described(isa: u32, reason: u32, arguments: Arguments) -> (Facts, u64) {
    let thread = noted(isa, reason, arguments);
    (Facts(thread.facts), thread.detail)
}

#[test]
fn an_access_to_the_apic_s_page_names_its_register() {
    let apic = Facts::APIC_REGISTER;
    let fault = infos(0, 0xfee0_0380, 0);
    assert_eq!(described(ISA_SVM, 0x400, fault), (Facts::MMIO | apic, 0x380));
    assert_eq!(described(ISA_SVM, 0x402, infos(0x3b7, 0, 0)), (apic, 0x3b0));
    // Written, as each kind of exit tells it.
    let written = apic | Facts::WRITE;
    for reason in [44, 56] {
        assert_eq!(described(ISA_VMX, reason, infos(0x10b0, 0, 0)), (written, 0xb0));
    }
    assert_eq!(described(ISA_VMX, 44, infos(0x0b0, 0, 0)), (apic, 0xb0));
    assert_eq!(described(ISA_SVM, 0x400, infos(2, 0xfee0_0380, 0)), (Facts::MMIO | written, 0x380));
    assert_eq!(described(ISA_SVM, 0x402, infos(1 << 32 | 0x380, 0, 0)), (written, 0x380));
    // A page of another device, and one of memory.
    let none = Facts::default();
    assert_eq!(described(ISA_SVM, 0x400, infos(8, 0xfec0_0010, 0)), (Facts::MMIO, 0xfec0_0000));
    assert_eq!(described(ISA_SVM, 0x400, infos(4, 0x1000, 0)), (none, 0));
}

#[test]
fn a_device_s_page_will_do_but_each_register_of_a_timer_counts() {
    let screen = infos(0xa, 0x38_0000_1234, 0);
    assert_eq!(described(ISA_SVM, 0x400, screen), (Facts::MMIO | Facts::WRITE, 0x38_0000_1000));
    assert_eq!(described(ISA_SVM, 0x400, infos(8, 0xfed0_0108, 0)), (Facts::MMIO, 0xfed0_0108));
    // On VMX the address comes afterwards; so it does with the first access to a page on SVM.
    for (isa, reason) in [(ISA_VMX, 49), (ISA_VMX, 48), (ISA_SVM, 0x400)] {
        let mut thread = noted(isa, reason, infos(0, 0, 0));
        note_mmio(&mut thread, 0xfed0_0108, 1);
        note_mmio(&mut thread, 0xfed0_00f0, 0);
        assert_eq!((thread.facts, thread.detail), (FACT_MMIO | FACT_WRITE, 0xfed0_0108));
    }
    // An instruction that KVM emulates for another reason.
    let mut thread = noted(ISA_SVM, 0x60, infos(0, 0, 0));
    note_mmio(&mut thread, 0xfed0_0108, 1);
    assert_eq!((thread.facts, thread.detail), (0, 0));
}

#[test]
fn a_port_is_told_with_the_byte_that_says_what_it_is_about() {
    let port = |isa, port: u64, write: bool| {
        let (reason, read) = if isa == ISA_SVM { (0x7b, 1) } else { (30, 8) };
        infos(port << 16 | if write { 0 } else { read }, 0, 0).at(isa, reason)
    };
    for isa in [ISA_SVM, ISA_VMX] {
        let mut select = port(isa, 0x70, true);
        assert_eq!((select.facts, select.detail), (FACT_PORT | FACT_WRITE, 0x70));
        note_out(&mut select, 0x70, 0x8c);
        assert_eq!(select.detail, 0x70 | 0xc << 16);
        // The next exit knows which register was selected.
        let reason = if isa == ISA_SVM { 0x7b } else { 30 };
        note_exit(&mut select, reason, &infos(0x71 << 16 | 9, 0, 0));
        assert_eq!((select.facts, select.detail), (FACT_PORT, 0x71 | 0xc << 16));
        let mut command = port(isa, 0x43, true);
        note_out(&mut command, 0x43, 0x34);
        assert_eq!(command.detail, 0x43 | 0x34 << 16);
        let mut serial = port(isa, 0x3f8, true);
        note_out(&mut serial, 0x3f8, 0x41);
        assert_eq!(serial.detail, 0x3f8);
        assert_eq!(port(isa, 0x3f8, false).facts, FACT_PORT);
    }
}

impl Arguments {
    fn at(self, isa: u32, reason: u32) -> Thread {
        noted(isa, reason, self)
    }
}

#[test]
fn an_apic_register_s_value_is_that_of_the_first_access() {
    let mut thread = noted(ISA_SVM, 0x400, infos(2, 0xfee0_0380, 0));
    note_apic(&mut thread, 1, 0x380, 0);
    note_apic(&mut thread, 1, 0x380, 77);
    let page = FACT_MMIO | FACT_APIC_REG | FACT_WRITE;
    assert_eq!(thread.facts, page | FACT_VALUE);
    let mut thread = noted(ISA_VMX, 56, infos(0x380, 0, 0));
    note_apic(&mut thread, 1, 0x380, 77);
    assert_eq!(thread.facts, FACT_APIC_REG | FACT_WRITE | FACT_VALUE | FACT_NONZERO);
    // An MSR of x2APIC's has its value already.
    let mut thread = noted(ISA_SVM, 0x7c, infos(1, 0, 0));
    note_apic(&mut thread, 1, 0x380, 77);
    assert_eq!(thread.facts, FACT_WRITE);
}

#[test]
fn a_hidden_guest_s_own_words_replace_the_exit() {
    let mut thread = noted(ISA_SVM, 0x403, infos(0, 0, 0));
    note_vmgexit(&mut thread, 0x7c, 1, 0);
    assert!(awaits_msr(&thread));
    note_msr(&mut thread, 0x6e0, 5);
    let write = FACT_MSR | FACT_WRITE | FACT_NONZERO;
    assert_eq!((thread.reason, thread.facts), (0x7c, FACT_VMGEXIT | write));
    note_vmgexit(&mut thread, 0x8000_0002, 0xfed0_0108, 4);
    let mmio = FACT_VMGEXIT | FACT_MMIO | FACT_WRITE;
    assert_eq!((thread.facts, thread.detail), (mmio, 0xfed0_0108));
}

#[test]
fn a_third_kind_of_processor_is_not_taken_for_another() {
    for reason in [1, 0x60, 0x7c, 30, 31, 48, 49, 0x400] {
        let mut thread = noted(3, reason, infos(1, 0xfee0_0380, 1 << 31 | 0xf1));
        note_handler(&mut thread, FACT_TIMER);
        note_mmio(&mut thread, 0xfed0_0108, 1);
        assert_eq!((thread.facts, thread.detail, awaits_msr(&thread)), (0, 0, false));
    }
}

#[test]
fn flags_above_vmx_s_reason_hide_nothing() {
    let mut thread = noted(ISA_VMX, 1 << 27 | 32, infos(0, 0, 0));
    assert!(awaits_msr(&thread));
    note_msr(&mut thread, 0x6e0, 1);
    assert_eq!(thread.facts, FACT_MSR | FACT_WRITE | FACT_NONZERO);
}

fn interrupted() -> Thread {
    noted(ISA_SVM, 0x60, infos(0, 0, 0))
}

#[test]
fn whose_timer_expired_in_the_first_handler_is_told() {
    let expired = |timers: &[(u32, u64)]| {
        let mut thread = interrupted();
        note_handler(&mut thread, FACT_TIMER);
        for (which, function) in timers {
            note_timer(&mut thread, *which, *function);
        }
        (thread.facts & !FACT_TIMER, thread.detail)
    };
    let other = (TIMER_NONE, 0xffff_ffff_8100_0000);
    assert_eq!(expired(&[(TIMER_STIMER, 1)]), (FACT_VCPU_TIMER, TIMER_STIMER.into()));
    assert_eq!(expired(&[(TIMER_HOST_TICK, 1)]), (FACT_HOST_TICK, 0));
    assert_eq!(expired(&[(TIMER_HRTICK, 1)]), (FACT_HRTICK, 0));
    assert_eq!(expired(&[other, (TIMER_NONE, 9)]), (FACT_OTHER_TIMER, other.1));
    let both = FACT_OTHER_TIMER | FACT_VCPU_TIMER;
    assert_eq!(expired(&[other, (TIMER_PIT, 1)]), (both, TIMER_PIT.into()));
    assert_eq!(expired(&[(TIMER_PIT, 1), other]), (FACT_VCPU_TIMER, TIMER_PIT.into()));
    assert_eq!(expired(&[]), (0, 0));
}

#[test]
fn a_host_s_clock_may_be_a_device_or_have_no_tracepoint() {
    // Such as an HPET's handler, and Hyper-V's for hosts that are guests.
    let mut device = interrupted();
    note_handler(&mut device, FACT_DEVICE);
    note_timer(&mut device, TIMER_NONE, 7);
    assert_eq!(device.facts, FACT_DEVICE);
    note_timer(&mut device, TIMER_HOST_TICK, 1);
    assert_eq!(device.facts, FACT_TIMER | FACT_HOST_TICK);
    let mut silent = interrupted();
    note_timer(&mut silent, TIMER_NONE, 7);
    assert_eq!(silent.facts, 0);
    note_timer(&mut silent, TIMER_APIC, 1);
    assert_eq!(silent.facts, FACT_TIMER | FACT_VCPU_TIMER);
    // In the handler of another interrupt, later.
    let mut ipi = interrupted();
    note_handler(&mut ipi, FACT_IPI);
    note_timer(&mut ipi, TIMER_APIC, 1);
    assert_eq!(ipi.facts, FACT_IPI);
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
fn a_hypercall_is_whose_tracepoint_tells_of_it_first() {
    for (isa, reason) in [(ISA_SVM, 0x81), (ISA_VMX, 18)] {
        for fact in [FACT_HYPERCALL, FACT_HV_CALL, FACT_XEN_CALL] {
            let mut thread = noted(isa, reason, infos(0, 0, 0));
            // The number has 64 bits.
            note_hypercall(&mut thread, fact, 1 << 32 | 20, 1);
            note_hypercall(&mut thread, FACT_HYPERCALL, 20, 0);
            assert_eq!((thread.facts, thread.detail), (fact | FACT_NONZERO, 1 << 32 | 20));
        }
    }
    // Of another exit, such as the other processor's hypercall.
    for (isa, reason) in [(ISA_SVM, 18), (ISA_VMX, 0x81), (ISA_SVM, 0x78)] {
        let mut thread = noted(isa, reason, infos(0, 0, 0));
        note_hypercall(&mut thread, FACT_HYPERCALL, 20, 0);
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
        let bare = if isa == ISA_VMX { reason & 0xffff } else { reason };
        prop_assert_eq!(
            is_msr,
            matches!((isa, bare), (ISA_SVM, 0x7c) | (ISA_VMX, 31 | 32 | 84 | 85))
        );
        for (msr, value) in &accesses {
            if awaits_msr(&thread) {
                note_msr(&mut thread, *msr, *value);
            }
        }
        let facts = [FACT_TIMER, FACT_IPI, FACT_DEVICE];
        for handler in &handlers {
            note_handler(&mut thread, facts[*handler]);
            note_timer(&mut thread, TIMER_APIC, 1);
        }
        let mut due = first.facts;
        if let (true, Some((msr, value))) = (is_msr, accesses.first()) {
            prop_assert_eq!(thread.detail, u64::from(*msr));
            let nonzero = first.facts & FACT_WRITE != 0 && *value != 0;
            due |= FACT_MSR | if nonzero { FACT_NONZERO } else { 0 };
        } else {
            let expired = first.wait == 1 && matches!(handlers.first(), Some(0 | 2));
            let detail = if expired { TIMER_APIC.into() } else { first.detail };
            prop_assert_eq!(thread.detail, detail);
        }
        if let (1, Some(handler)) = (first.wait, handlers.first()) {
            // A device whose handler has a vCPU's timer in it is a clock.
            due |= if *handler == 1 { FACT_IPI } else { FACT_TIMER | FACT_VCPU_TIMER };
        }
        prop_assert_eq!(thread.facts, due);
    }
}
