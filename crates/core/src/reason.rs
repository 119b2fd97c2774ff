// SPDX-License-Identifier: GPL-2.0-only
//! Names of exit reasons and MSRs, spelled as KVM's tracepoints print them.
//!
//! One exception: SVM has a single code for MSR exits, which KVM prints as `msr`; here it is
//! `msr_read` or `msr_write`, since the two mean different things in timer terms.

/// Which hardware virtualization an exit code belongs to; the tracepoint's `isa` field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    Vmx,
    Svm,
    /// Of KVM's own, such as PVM's: the names of its reasons are not known.
    Other(u32),
}

impl Isa {
    pub fn of(number: u32) -> Isa {
        match number {
            1 => Isa::Vmx,
            2 => Isa::Svm,
            other => Isa::Other(other),
        }
    }

    pub fn number(self) -> u32 {
        match self {
            Isa::Vmx => 1,
            Isa::Svm => 2,
            Isa::Other(number) => number,
        }
    }
}

/// The reason alone: above it, VMX has flags (a failed entry, an enclave).
pub fn bare(isa: Isa, code: u32) -> u32 {
    match isa {
        Isa::Vmx => code & 0xffff,
        Isa::Svm | Isa::Other(_) => code,
    }
}

/// VMX could not enter the guest: KVM prints it behind the reason.
const FAILED_ENTRY: u32 = 1 << 31;
const FAILED: &str = " FAILED_VMENTRY";
const SVM_MSR: u32 = 0x7c;
const SVM_MSR_IN_TRACE: &str = "msr";
const MSR_READ: &str = "msr_read";
const MSR_WRITE: &str = "msr_write";
const VMX_MSR_WRITES: [&str; 2] = ["MSR_WRITE", "MSR_WRITE_IMM"];

/// The name of an exit code; `write` tells the direction of an MSR exit.
pub fn name(isa: Isa, code: u32, write: bool) -> String {
    let table = match isa {
        Isa::Svm if code == SVM_MSR => {
            return if write { MSR_WRITE } else { MSR_READ }.to_string();
        }
        Isa::Svm => SVM,
        Isa::Vmx => VMX,
        Isa::Other(number) => return format!("isa {number}: {code:#x}"),
    };
    let bare = bare(isa, code);
    let has_failed = isa == Isa::Vmx && code & FAILED_ENTRY != 0;
    let failed = if has_failed { FAILED } else { "" };
    match table.iter().find(|(number, _)| *number == bare) {
        Some((_, name)) => format!("{name}{failed}"),
        None => format!("{bare:#x}{failed}"),
    }
}

/// The processor and the code of a reason, from its name as KVM's tracepoint prints it.
pub fn find(name: &str) -> Option<(Isa, u32)> {
    if name == SVM_MSR_IN_TRACE {
        return Some((Isa::Svm, SVM_MSR));
    }
    let name = name.trim_end_matches(FAILED);
    let code = |table: &[(u32, &str)]| {
        let mut rows = table.iter();
        rows.find(|(_, other)| *other == name).map(|(code, _)| *code)
    };
    let vmx = || code(VMX).map(|code| (Isa::Vmx, code));
    code(SVM).map(|code| (Isa::Svm, code)).or_else(vmx)
}

/// Of an MSR, read or written.
pub fn is_msr(reason: &str) -> bool {
    reason.to_ascii_lowercase().contains("msr_")
}

pub fn is_msr_write(reason: &str) -> bool {
    reason.trim_start_matches("vmgexit: ") == MSR_WRITE || VMX_MSR_WRITES.contains(&reason)
}

/// The name of an MSR, or its number in hexadecimal.
pub fn msr_name(index: u32) -> String {
    match MSRS.iter().find(|(number, _)| *number == index) {
        Some((_, name)) => (*name).to_string(),
        None => format!("MSR {index:#x}"),
    }
}

/// The MSRs that Linux guests touch often enough to want a name.
#[rustfmt::skip]
const MSRS: &[(u32, &str)] = &[
    (0x010, "TSC"), (0x01b, "APIC_BASE"), (0x03b, "TSC_ADJUST"), (0x048, "SPEC_CTRL"),
    (0x049, "PRED_CMD"), (0x08b, "UCODE_REV"), (0x174, "SYSENTER_CS"), (0x1a0, "MISC_ENABLE"),
    (0x1d9, "DEBUGCTL"), (0x277, "PAT"), (0x6e0, "TSC_DEADLINE"), (0x802, "X2APIC_ID"),
    (0x808, "X2APIC_TPR"), (0x80b, "X2APIC_EOI"), (0x80d, "X2APIC_LDR"), (0x80f, "X2APIC_SPIV"),
    (0x828, "X2APIC_ESR"), (0x830, "X2APIC_ICR"), (0x832, "X2APIC_LVTT"), (0x834, "X2APIC_LVTPC"),
    (0x835, "X2APIC_LVT0"), (0x836, "X2APIC_LVT1"), (0x837, "X2APIC_LVTERR"),
    (0x838, "X2APIC_TMICT"), (0x839, "X2APIC_TMCCT"), (0x83e, "X2APIC_TDCR"),
    (0x83f, "X2APIC_SELF_IPI"), (0xda0, "XSS"), (0x011, "KVM_WALL_CLOCK"),
    (0x012, "KVM_SYSTEM_TIME"), (0x4000_0000, "HV_GUEST_OS_ID"), (0x4000_0001, "HV_HYPERCALL"),
    (0x4000_0002, "HV_VP_INDEX"), (0x4000_0003, "HV_RESET"), (0x4000_0010, "HV_VP_RUNTIME"),
    (0x4000_0020, "HV_TIME_REF_COUNT"), (0x4000_0021, "HV_REFERENCE_TSC"),
    (0x4000_0022, "HV_TSC_FREQUENCY"), (0x4000_0023, "HV_APIC_FREQUENCY"),
    (0x4000_0070, "HV_EOI"), (0x4000_0071, "HV_ICR"), (0x4000_0072, "HV_TPR"),
    (0x4000_0073, "HV_VP_ASSIST_PAGE"), (0x4000_0080, "HV_SCONTROL"),
    (0x4000_0082, "HV_SIEFP"), (0x4000_0083, "HV_SIMP"), (0x4000_0084, "HV_EOM"),
    (0x4000_00b0, "HV_STIMER0_CONFIG"), (0x4000_00b1, "HV_STIMER0_COUNT"),
    (0x4000_00b2, "HV_STIMER1_CONFIG"), (0x4000_00b3, "HV_STIMER1_COUNT"),
    (0x4000_00b4, "HV_STIMER2_CONFIG"), (0x4000_00b5, "HV_STIMER2_COUNT"),
    (0x4000_00b6, "HV_STIMER3_CONFIG"), (0x4000_00b7, "HV_STIMER3_COUNT"),
    (0x4000_00f0, "HV_GUEST_IDLE"), (0x4000_0106, "HV_REENLIGHTENMENT_CONTROL"),
    (0x4000_0107, "HV_TSC_EMULATION_CONTROL"), (0x4000_0108, "HV_TSC_EMULATION_STATUS"),
    (0x4000_0118, "HV_TSC_INVARIANT_CONTROL"), (0x4b56_4d00, "KVM_WALL_CLOCK_NEW"),
    (0x4b56_4d01, "KVM_SYSTEM_TIME_NEW"), (0x4b56_4d02, "KVM_ASYNC_PF_EN"),
    (0x4b56_4d03, "KVM_STEAL_TIME"), (0x4b56_4d04, "KVM_PV_EOI_EN"),
    (0x4b56_4d05, "KVM_POLL_CONTROL"), (0x4b56_4d06, "KVM_ASYNC_PF_INT"),
    (0x4b56_4d07, "KVM_ASYNC_PF_ACK"), (0x4b56_4d08, "KVM_MIGRATION_CONTROL"),
    (0x4b56_4d10, "KVM_PV_TICK"), (0xc000_0080, "EFER"), (0xc000_0100, "FS_BASE"),
    (0xc000_0101, "GS_BASE"), (0xc000_0102, "KERNEL_GS_BASE"), (0xc000_0103, "TSC_AUX"),
];

#[rustfmt::skip]
const SVM: &[(u32, &str)] = &[
    (0x000, "read_cr0"), (0x002, "read_cr2"), (0x003, "read_cr3"), (0x004, "read_cr4"),
    (0x008, "read_cr8"), (0x010, "write_cr0"), (0x012, "write_cr2"), (0x013, "write_cr3"),
    (0x014, "write_cr4"), (0x018, "write_cr8"), (0x020, "read_dr0"), (0x021, "read_dr1"),
    (0x022, "read_dr2"), (0x023, "read_dr3"), (0x024, "read_dr4"), (0x025, "read_dr5"),
    (0x026, "read_dr6"), (0x027, "read_dr7"), (0x030, "write_dr0"), (0x031, "write_dr1"),
    (0x032, "write_dr2"), (0x033, "write_dr3"), (0x034, "write_dr4"), (0x035, "write_dr5"),
    (0x036, "write_dr6"), (0x037, "write_dr7"), (0x040, "DE excp"), (0x041, "DB excp"),
    (0x043, "BP excp"), (0x044, "OF excp"), (0x045, "BR excp"), (0x046, "UD excp"),
    (0x047, "NM excp"), (0x048, "DF excp"), (0x04a, "TS excp"), (0x04b, "NP excp"),
    (0x04c, "SS excp"), (0x04d, "GP excp"), (0x04e, "PF excp"), (0x050, "MF excp"),
    (0x051, "AC excp"), (0x052, "MC excp"), (0x053, "XF excp"), (0x060, "interrupt"),
    (0x061, "nmi"), (0x062, "smi"), (0x063, "init"), (0x064, "vintr"), (0x065, "cr0_sel_write"),
    (0x066, "read_idtr"), (0x067, "read_gdtr"), (0x068, "read_ldtr"), (0x069, "read_rt"),
    (0x06a, "write_idtr"), (0x06b, "write_gdtr"), (0x06c, "write_ldtr"), (0x06d, "write_rt"),
    (0x06e, "rdtsc"), (0x06f, "rdpmc"), (0x070, "pushf"), (0x071, "popf"), (0x072, "cpuid"),
    (0x073, "rsm"), (0x074, "iret"), (0x075, "swint"), (0x076, "invd"), (0x077, "pause"),
    (0x078, "hlt"), (0x079, "invlpg"), (0x07a, "invlpga"), (0x07b, "io"), (0x07d, "task_switch"),
    (0x07e, "ferr_freeze"), (0x07f, "shutdown"), (0x080, "vmrun"), (0x081, "hypercall"),
    (0x082, "vmload"), (0x083, "vmsave"), (0x084, "stgi"), (0x085, "clgi"), (0x086, "skinit"),
    (0x087, "rdtscp"), (0x088, "icebp"), (0x089, "wbinvd"), (0x08a, "monitor"), (0x08b, "mwait"),
    (0x08c, "mwait_cond"), (0x08d, "xsetbv"), (0x08e, "rdpru"), (0x091, "write_cr1_trap"),
    (0x092, "write_cr2_trap"), (0x093, "write_cr3_trap"), (0x095, "write_cr5_trap"),
    (0x096, "write_cr6_trap"), (0x097, "write_cr7_trap"), (0x099, "write_cr9_trap"),
    (0x09a, "write_cr10_trap"), (0x09b, "write_cr11_trap"), (0x09c, "write_cr12_trap"),
    (0x09d, "write_cr13_trap"), (0x09e, "write_cr14_trap"), (0x09f, "write_cr15_trap"),
    (0x08f, "write_efer_trap"), (0x090, "write_cr0_trap"),
    (0x094, "write_cr4_trap"), (0x098, "write_cr8_trap"), (0x0a2, "invpcid"), (0x0a3, "mcommit"),
    (0x0a4, "tlbsync"), (0x0a5, "buslock"), (0x0a6, "idle-halt"), (0x400, "npf"),
    (0x401, "avic_incomplete_ipi"), (0x402, "avic_unaccelerated_access"), (0x403, "vmgexit"),
    (0x80000001, "mmio_read"), (0x80000002, "mmio_write"), (0x80000003, "nmi_complete"),
    (0x80000004, "ap_reset_hold"), (0x80000005, "ap_jump_table"), (0x80000010, "psc"),
    (0x80000011, "guest_request"), (0x80000012, "ext_guest_request"), (0x80000013, "ap_creation"),
    (0x80000018, "snp_run_vmpl"),
    (0x8000fffd, "hv_features"), (0x8000fffe, "term_request"), (0x8000ffff, "unsupported_event"),
    (0xffffffff, "invalid_guest_state"),
];

#[rustfmt::skip]
const VMX: &[(u32, &str)] = &[
    (0, "EXCEPTION_NMI"), (1, "EXTERNAL_INTERRUPT"), (2, "TRIPLE_FAULT"), (3, "INIT_SIGNAL"),
    (4, "SIPI_SIGNAL"), (6, "OTHER_SMI"), (7, "INTERRUPT_WINDOW"), (8, "NMI_WINDOW"),
    (9, "TASK_SWITCH"), (10, "CPUID"), (12, "HLT"), (13, "INVD"), (14, "INVLPG"), (15, "RDPMC"),
    (16, "RDTSC"),
    (18, "VMCALL"), (19, "VMCLEAR"), (20, "VMLAUNCH"), (21, "VMPTRLD"), (22, "VMPTRST"),
    (23, "VMREAD"), (24, "VMRESUME"), (25, "VMWRITE"), (26, "VMOFF"), (27, "VMON"),
    (28, "CR_ACCESS"), (29, "DR_ACCESS"), (30, "IO_INSTRUCTION"), (31, "MSR_READ"),
    (32, "MSR_WRITE"), (33, "INVALID_STATE"), (34, "MSR_LOAD_FAIL"), (36, "MWAIT_INSTRUCTION"),
    (37, "MONITOR_TRAP_FLAG"), (39, "MONITOR_INSTRUCTION"), (40, "PAUSE_INSTRUCTION"),
    (41, "MCE_DURING_VMENTRY"), (43, "TPR_BELOW_THRESHOLD"), (44, "APIC_ACCESS"),
    (45, "EOI_INDUCED"), (46, "GDTR_IDTR"), (47, "LDTR_TR"), (48, "EPT_VIOLATION"),
    (49, "EPT_MISCONFIG"), (50, "INVEPT"), (51, "RDTSCP"), (52, "PREEMPTION_TIMER"),
    (53, "INVVPID"), (54, "WBINVD"), (55, "XSETBV"), (56, "APIC_WRITE"), (57, "RDRAND"),
    (58, "INVPCID"), (59, "VMFUNC"), (60, "ENCLS"), (61, "RDSEED"), (62, "PML_FULL"),
    (63, "XSAVES"), (64, "XRSTORS"), (67, "UMWAIT"), (68, "TPAUSE"), (74, "BUS_LOCK"),
    (75, "NOTIFY"), (76, "SEAMCALL"), (77, "TDCALL"), (84, "MSR_READ_IMM"),
    (85, "MSR_WRITE_IMM"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn reasons_are_spelled_as_kvm_prints_them() {
        assert_eq!(name(Isa::Svm, 0x78, false), "hlt");
        assert_eq!(name(Isa::Svm, 0x400, false), "npf");
        assert_eq!(name(Isa::Svm, u32::MAX, false), "invalid_guest_state");
        assert_eq!(name(Isa::Vmx, 52, false), "PREEMPTION_TIMER");
        assert_eq!(name(Isa::Vmx, 0x8000_0000 | 33, false), "INVALID_STATE FAILED_VMENTRY");
        assert_eq!(find("INVALID_STATE FAILED_VMENTRY"), Some((Isa::Vmx, 33)));
        assert_eq!(name(Isa::Vmx, 0x0800_0000 | 12, false), "HLT");
        // As of Linux 6.15 and 6.16.
        assert_eq!([0xa5, 0xa6].map(|code| name(Isa::Svm, code, false)), ["buslock", "idle-halt"]);
        assert_eq!(name(Isa::Svm, 0x3ff, false), "0x3ff");
    }

    #[test]
    fn an_msr_exit_says_its_direction() {
        assert_eq!(name(Isa::Svm, SVM_MSR, false), "msr_read");
        assert!(is_msr_write(&name(Isa::Svm, SVM_MSR, true)));
        assert!(is_msr_write(&name(Isa::Vmx, 32, true)));
        assert!(!is_msr_write(&name(Isa::Vmx, 31, false)));
    }

    #[test]
    fn every_reason_is_found_by_the_name_it_is_traced_with() {
        for (isa, table) in [(Isa::Svm, SVM), (Isa::Vmx, VMX)] {
            for (code, name) in table {
                assert_eq!(find(name), Some((isa, *code)));
            }
        }
        assert_eq!(find("msr"), Some((Isa::Svm, SVM_MSR)));
        assert_eq!(find("0x3ff"), None);
    }

    #[test]
    fn an_msr_without_a_name_is_its_index() {
        assert_eq!(msr_name(0x6e0), "TSC_DEADLINE");
        assert_eq!(msr_name(0xc001_0015), "MSR 0xc0010015");
    }

    #[test]
    fn no_code_and_no_name_stands_twice() {
        for table in [SVM, VMX, MSRS] {
            let codes: BTreeSet<_> = table.iter().map(|(code, _)| code).collect();
            let names: BTreeSet<_> = table.iter().map(|(_, name)| name).collect();
            assert_eq!((codes.len(), names.len()), (table.len(), table.len()));
        }
    }
}
