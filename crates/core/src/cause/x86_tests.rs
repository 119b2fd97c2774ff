// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use proptest::prelude::*;

const READ: Facts = Facts::MSR;
const ZERO: Facts = Facts(Facts::MSR.0 | Facts::WRITE.0);
const WRITE: Facts = Facts(ZERO.0 | Facts::NONZERO.0);

fn svm(code: u32, detail: u64, facts: Facts) -> Cause {
    Noted { isa: Isa::Svm, code, detail, facts }.cause()
}

fn vmx(code: u32, detail: u64, facts: Facts) -> Cause {
    Noted { isa: Isa::Vmx, code, detail, facts }.cause()
}

/// An MSR exit on both kinds of processor; on VMX by both kinds of instruction.
fn msr(msr: u64, facts: Facts) -> Cause {
    let code = if facts.has(Facts::WRITE) { 32 } else { 31 };
    let all = [svm(0x7c, msr, facts), vmx(code, msr, facts), vmx(code + 53, msr, facts)];
    assert!(all.iter().all(|cause| *cause == all[0]), "{all:?}");
    all[0]
}

fn port(port: u64, value: u64, write: bool) -> Cause {
    let facts = if write { Facts::PORT | Facts::WRITE } else { Facts::PORT };
    assert_eq!(svm(0x7b, port | value << 16, facts), vmx(30, port | value << 16, facts));
    svm(0x7b, port | value << 16, facts)
}

fn about(code: u32, detail: u64, facts: Facts) -> String {
    let noted = Noted { isa: Isa::Svm, code, detail, facts };
    let text = match noted.about() {
        Some(About::Text(text)) => text,
        other => format!("{other:?}"),
    };
    format!("{} ({text})", noted.cause())
}

#[test]
fn a_deadline_arms_and_a_deadline_of_zero_stops() {
    assert_eq!([WRITE, ZERO, READ].map(|f| msr(0x6e0, f)), [Cause::Arm, Cause::Stop, Cause::Other]);
    assert_eq!([WRITE, ZERO].map(|f| msr(0x838, f)), [Cause::Arm, Cause::Stop]);
    // The MSR was not told.
    assert_eq!(svm(0x7c, 0, Facts::WRITE), Cause::Other);
}

#[test]
fn hyper_v_s_timers_arm_and_stop_as_linux_and_windows_use_them() {
    for count in (0x4000_00b1..0x4000_00b8).step_by(2) {
        assert_eq!([WRITE, ZERO].map(|f| msr(count, f)), [Cause::Arm, Cause::Stop]);
    }
    assert_eq!(msr(0x4000_0070, ZERO), Cause::Eoi);
    assert_eq!(msr(0x4000_0084, ZERO), Cause::Eoi);
    assert_eq!(msr(0x4000_0071, WRITE), Cause::Ipi);
    assert_eq!(msr(0x4000_00f0, READ), Cause::Halt);
    assert_eq!(msr(0x4000_0020, READ), Cause::Clock);
    assert_eq!(about(0x7c, 0x4000_00b1, WRITE), "arm (HV_STIMER0_COUNT)");
    assert_eq!(about(0x7c, 0x4000_00f7, WRITE), "other (MSR 0x400000f7)");
}

#[test]
fn the_xapic_s_registers_are_those_of_the_x2apic() {
    let page = Facts::MMIO | Facts::APIC_REGISTER;
    let told = page | Facts::VALUE | Facts::WRITE;
    for (code, cause) in [(0x380, Cause::Arm), (0x0b0, Cause::Eoi), (0x300, Cause::Ipi)] {
        assert_eq!(svm(0x400, code, told | Facts::NONZERO), cause);
        assert_eq!(vmx(56, code, told | Facts::NONZERO), cause);
    }
    assert_eq!(svm(0x400, 0x380, told), Cause::Stop);
    assert_eq!(svm(0x400, 0x390, page), Cause::Clock);
    assert_eq!(svm(0x402, 0x380, Facts::APIC_REGISTER | Facts::WRITE), Cause::Arm);
    assert_eq!(svm(0x400, 0x320, told), Cause::Io);
    assert_eq!(about(0x400, 0x380, told), "stop (APIC, TMICT)");
}

#[test]
fn each_port_of_a_pc_s_timers_has_its_cause() {
    assert_eq!(port(0x40, 0, true), Cause::Arm);
    assert_eq!(port(0x40, 0, false), Cause::Clock);
    // Mode 0 for the first channel; then a latch, a read-back, and the third channel.
    assert_eq!(port(0x43, 0x30, true), Cause::Arm);
    for command in [0x00, 0xc2, 0xb0] {
        assert_eq!(port(0x43, command, true), Cause::Clock);
    }
    // The RTC's alarm and interrupts, their acknowledgement, the time, and what a PC keeps there.
    assert_eq!([0xa, 0xb, 5].map(|index| port(0x71, index, true)), [Cause::Arm; 3]);
    assert_eq!([port(0x70, 0xc, true), port(0x71, 0xc, false)], [Cause::Eoi; 2]);
    assert_eq!([port(0x70, 0, true), port(0x71, 0, false)], [Cause::Clock; 2]);
    assert_eq!([port(0x71, 0x32, false), port(0x71, 0x34, false)], [Cause::Clock, Cause::Io]);
    assert_eq!(
        [port(0x20, 0, true), port(0xa0, 0, true), port(0x20, 0, false)],
        [Cause::Eoi, Cause::Eoi, Cause::Io]
    );
    assert_eq!([port(0x608, 0, false), port(0xb008, 0, false)], [Cause::Clock; 2]);
    assert_eq!([port(0x604, 0, true), port(0x3f8, 0, true)], [Cause::Io; 2]);
    assert_eq!(about(0x7b, 0x40, Facts::PORT | Facts::WRITE), "arm (PIT, port 0x40)");
    assert_eq!(about(0x7b, 0x1234, Facts::PORT), "io (port 0x1234)");
}

#[test]
fn the_hpet_s_comparators_arm_and_its_counter_is_a_clock() {
    let (read, write) = (Facts::MMIO, Facts::MMIO | Facts::WRITE);
    let svm = [0x400, 0x8000_0002].map(|code| (code, Isa::Svm));
    for (code, isa) in [48, 49].map(|code| (code, Isa::Vmx)).into_iter().chain(svm) {
        let cause = |detail, facts| Noted { isa, code, detail, facts }.cause();
        assert_eq!(cause(0xfed0_0108, write), Cause::Arm);
        assert_eq!(cause(0xfed0_00f0, read), Cause::Clock);
        assert_eq!(cause(0xfed0_0020, write), Cause::Eoi);
        assert_eq!(cause(0xfeb0_0000, write), Cause::Io);
    }
    // A page fault of memory's.
    assert_eq!(vmx(48, 0, Facts::default()), Cause::Other);
    assert_eq!(about(0x400, 0xfed0_0108, write), "arm (HPET, 0xfed00108)");
    assert_eq!(about(0x400, 0xfec0_0000, write), "io (I/O APIC, 0xfec00000)");
}

#[test]
fn an_interrupt_exit_is_named_by_its_first_handler_and_what_expired_in_it() {
    let timer = |more| Facts::TIMER | more;
    assert_eq!(svm(0x60, 1, timer(Facts::VCPU_TIMER)), Cause::Expiry);
    assert_eq!(svm(0x60, 1, timer(Facts::VCPU_TIMER | Facts::HOST_TICK)), Cause::Expiry);
    assert_eq!(svm(0x60, 0, timer(Facts::HOST_TICK | Facts::HRTICK)), Cause::HostTick);
    assert_eq!(svm(0x60, 0, timer(Facts::HRTICK)), Cause::HostTimer);
    assert_eq!(svm(0x60, 0, Facts::TIMER), Cause::HostTimer);
    assert_eq!(svm(0x60, 0, Facts::IPI), Cause::Ipi);
    assert_eq!(svm(0x60, 0, Facts::DEVICE), Cause::Io);
    assert_eq!(svm(0x60, 0, Facts::default()), Cause::Other);
    assert_eq!(about(0x60, 3, timer(Facts::VCPU_TIMER)), "expiry (stimer_timer_callback)");
    assert_eq!(about(0x60, 0, timer(Facts::HRTICK)), "host-timer (hrtick)");
    let other = about(0x60, 7, timer(Facts::OTHER_TIMER));
    assert_eq!(other, "host-timer (Some(Function(7)))");
}

#[test]
fn a_halt_is_a_halt_whatever_follows() {
    for facts in [Facts::default(), Facts::TIMER | Facts::VCPU_TIMER, Facts::IPI] {
        // HLT, and what KVM 7.3 intercepts instead of it.
        assert_eq!([0x78, 0xa6].map(|code| svm(code, 0, facts)), [Cause::Halt; 2]);
        assert_eq!(vmx(12, 0, facts), Cause::Halt);
    }
    for (isa, code) in [(Isa::Svm, 0x81), (Isa::Vmx, 18)] {
        let call = |number, facts| Noted { isa, code, detail: number, facts }.cause();
        assert_eq!(call(20, Facts::HYPERCALL | Facts::IPI), Cause::Halt);
        assert_eq!(call(20, Facts::IPI), Cause::Other);
        assert_eq!(call(10, Facts::HYPERCALL), Cause::Ipi);
        assert_eq!(call(0x0b, Facts::HV_CALL), Cause::Ipi);
    }
    assert_eq!(svm(0x72, 20, Facts::HYPERCALL), Cause::Other);
}

#[test]
fn xen_s_timers_are_hypercalls() {
    let xen = |number: u64, command: u64, facts| {
        svm(0x81, number | command << 32, Facts::XEN_CALL | facts)
    };
    assert_eq!(xen(15, 0x10, Facts::NONZERO), Cause::Arm);
    assert_eq!(xen(15, 0, Facts::default()), Cause::Stop);
    assert_eq!([xen(24, 8, Facts::NONZERO), xen(24, 9, Facts::NONZERO)], [Cause::Arm, Cause::Stop]);
    assert_eq!(xen(29, 1, Facts::NONZERO), Cause::Halt);
    assert_eq!(about(0x81, 15, Facts::XEN_CALL | Facts::NONZERO), "arm (Xen's set_timer_op)");
}

#[test]
fn what_a_hidden_guest_tells_is_its_exit() {
    let noted = Noted { isa: Isa::Svm, code: 0x7c, detail: 0x6e0, facts: WRITE | Facts::VMGEXIT };
    assert_eq!((noted.cause(), noted.reason().as_str()), (Cause::Arm, "vmgexit: msr_write"));
    assert!(reason::is_msr_write(&noted.reason()));
    assert_eq!(svm(0x8000_0004, 0, Facts::VMGEXIT), Cause::Halt);
}

#[test]
fn an_exit_for_a_guest_s_own_hypervisor_is_nobody_else_s() {
    let reflected = Facts::NESTED | Facts::REFLECTED;
    assert_eq!(svm(0x78, 0, reflected), Cause::Nested);
    assert_eq!(svm(0x7c, 0x6e0, WRITE | reflected), Cause::Nested);
    // KVM has no interrupt handled by others; it makes an exit for the hypervisor of what comes.
    let expired = Facts::TIMER | Facts::VCPU_TIMER | reflected;
    assert_eq!([svm(0x60, 1, expired), vmx(1, 1, expired)], [Cause::Expiry; 2]);
    assert_eq!(svm(0x60, 0, Facts::IPI | reflected), Cause::Ipi);
    // The host dealt with this one itself.
    assert_eq!(svm(0x78, 0, Facts::NESTED), Cause::Halt);
}

#[test]
fn what_nobody_knows_has_a_row_of_its_own() {
    let pvm = Noted { isa: Isa::Other(3), code: 0x78, detail: 0, facts: Facts::default() };
    assert_eq!((pvm.cause(), pvm.reason().as_str()), (Cause::Other, "isa 3: 0x78"));
    let new = Noted { isa: Isa::Svm, code: 0x3ff, detail: 0, facts: Facts::default() };
    assert_eq!((new.cause(), new.reason().as_str()), (Cause::Other, "0x3ff"));
}

#[test]
fn flags_above_the_reason_hide_nothing() {
    assert_eq!(vmx(0x8000_0000 | 12, 0, Facts::default()), Cause::Halt);
    assert_eq!(vmx(1 << 27 | 32, 0x6e0, WRITE), Cause::Arm);
}

proptest! {
    #[test]
    fn only_interrupts_and_the_timers_registers_are_timer_causes(
        code in prop_oneof![0u32..0x410, any::<u32>()], detail: u64, facts: u32,
    ) {
        let facts = Facts(facts & !Facts::APIC_REGISTER.0);
        let cause = svm(code, detail, facts);
        if cause.is_timer() {
            let may = [0x60, 0x7b, 0x7c, 0x81, 0x400, 0x8000_0001, 0x8000_0002];
            prop_assert!(may.contains(&code));
        }
    }
}
