// SPDX-License-Identifier: GPL-2.0-only
//! The micro guest's code: 64-bit, at privilege 0, with interrupts but without an operating system.
//! It works wherever it lies.
//!
//! r15 has the vCPU's [`Command`], r14 its samples.  An entry gets the number of samples in rdi and
//! their place in rsi.  Interrupts may change rax, rcx and rdx, and leave r9 with what they saw.

use std::arch::global_asm;

/// Physical addresses that both sides know.
pub const SHARED: u64 = 0x6000;
/// EOIs written in spite of PV EOI are counted here.
pub const EOIS: u64 = 0x140;
pub const COMMANDS: u64 = 0x7000;
/// The second series of samples is so far behind the first.
pub const SERIES: usize = 1 << 20;
/// OUT to it ends a session.
pub const DONE: u16 = 0x81;
/// Another port that KVM does not know.
pub const NOBODY_S: u16 = 0x80;

/// Vectors, in the order of [`Entry`]'s last ones.
pub const FIRST_VECTOR: usize = 0x40;

/// What a vCPU does next.
#[repr(C)]
pub struct Command {
    pub entry: u64,
    pub samples: u64,
    /// Cycles.
    pub delay: u64,
}

/// Where the code can be entered; the table at its begin is in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    Main,
    Prepare,
    PreparePvEoi,
    Empty,
    Cpuid,
    PioKernel,
    PioUser,
    TscDeadline,
    HltTimer,
    HltIpi,
    Waker,
    Ipi,
    Receiver,
    Eoi,
    PvEoi,
    OnWake,
    OnIpi,
    OnEoi,
    OnPvEoi,
}

/// Interrupt handlers: the first has the first vector.
pub const HANDLERS: [Entry; 4] = [Entry::OnWake, Entry::OnIpi, Entry::OnEoi, Entry::OnPvEoi];

/// The code, to be copied.
pub fn code() -> &'static [u8] {
    // SAFETY: both are labels in read-only data, the first before the second.
    unsafe {
        let begin = &raw const paratick_micro_begin;
        let length = (&raw const paratick_micro_end).offset_from(begin) as usize;
        std::slice::from_raw_parts(begin, length)
    }
}

/// Where in the code an entry is.
pub fn offset(entry: Entry) -> u64 {
    let place = entry as usize * 4;
    u64::from(u32::from_le_bytes(code()[place..place + 4].try_into().expect("four bytes")))
}

extern "C" {
    static paratick_micro_begin: u8;
    static paratick_micro_end: u8;
}

global_asm!(
    r#"
    .macro micro_now to
        lfence
        rdtsc
        lfence
        shl rdx, 32
        or rax, rdx
        mov \to, rax
    .endm
    .macro micro_wrmsr msr, low, high=0
        mov ecx, \msr
        mov eax, \low
        mov edx, \high
        wrmsr
    .endm
    .macro micro_wrmsr_r10 msr
        mov ecx, \msr
        mov eax, r10d
        mov rdx, r10
        shr rdx, 32
        wrmsr
    .endm
    .macro micro_later to       # now and the command's delay
        rdtsc
        shl rdx, 32
        or rax, rdx
        add rax, [r15 + 16]
        mov \to, rax
    .endm
    .macro micro_keep           # a sample, from r8 to r9
        sub r9, r8
        mov [rsi], r9
        add rsi, 8
    .endm

    .section .rodata.paratick_micro, "a"
    .globl paratick_micro_begin, paratick_micro_end
    .balign 16
paratick_micro_begin:
    .macro micro_table names:vararg
        .irp name, \names
        .long .Lmicro_\name - paratick_micro_begin
        .endr
    .endm
    micro_table main, prepare, prepare_pv_eoi, empty, cpuid, pio_kernel, pio_user
    micro_table tsc_deadline, hlt_timer, hlt_ipi, waker, ipi, receiver, eoi, pv_eoi
    micro_table on_wake, on_ipi, on_eoi, on_pv_eoi

.Lmicro_main:
    mov rax, [r15]
    mov rdi, [r15 + 8]
    mov rsi, r14
    call rax
    out {DONE}, al
    jmp .Lmicro_main

.Lmicro_prepare_pv_eoi:
    micro_wrmsr {KVM_PV_EOI_EN}, {PV_EOI_ENABLED}
.Lmicro_prepare:
    micro_wrmsr {X2APIC_SPIV}, 0x1ff
    micro_wrmsr {X2APIC_LVTT}, 0x40040        # TSC-deadline mode, vector 0x40
    ret

.Lmicro_empty:
    micro_now r8
    micro_now r9
    micro_keep
    dec rdi
    jnz .Lmicro_empty
    ret

.Lmicro_cpuid:
    micro_now r8
    xor eax, eax
    xor ecx, ecx
    cpuid
    micro_now r9
    micro_keep
    dec rdi
    jnz .Lmicro_cpuid
    ret

.Lmicro_pio_kernel:
    micro_now r8
    in al, 0x21                             # the PIC's mask
    micro_now r9
    micro_keep
    dec rdi
    jnz .Lmicro_pio_kernel
    ret

.Lmicro_pio_user:
    micro_now r8
    out {NOBODY_S}, al
    micro_now r9
    micro_keep
    dec rdi
    jnz .Lmicro_pio_user
    ret

.Lmicro_tsc_deadline:
    micro_later r10
    micro_now r8
    micro_wrmsr_r10 {TSC_DEADLINE}
    micro_now r9
    micro_keep
    dec rdi
    jnz .Lmicro_tsc_deadline
    micro_wrmsr {TSC_DEADLINE}, 0
    ret

.Lmicro_hlt_timer:
    cli
    xor r9d, r9d
    micro_later r10
    mov r8, r10
    micro_wrmsr_r10 {TSC_DEADLINE}
2:  sti
    hlt
    cli
    test r9, r9
    jz 2b
    micro_keep
    dec rdi
    jnz .Lmicro_hlt_timer
    ret

.Lmicro_hlt_ipi:
    xor r11d, r11d
2:  cli
    xor r9d, r9d
    inc r11
    mov [{TURN}], r11
3:  sti
    hlt
    cli
    test r9, r9
    jz 3b
    mov r8, [{STAMP}]
    micro_keep
    dec rdi
    jnz 2b
    ret

.Lmicro_waker:
    xor r11d, r11d
2:  inc r11
3:  cmp [{TURN}], r11
    jne 3b
    micro_later r10                         # until the other has halted
4:  micro_now r8
    cmp r8, r10
    jb 4b
    mov [{STAMP}], r8
    micro_wrmsr {X2APIC_ICR}, 0x4040
    dec rdi
    jnz 2b
    ret

.Lmicro_ipi:
    cmp qword ptr [{READY}], 1
    jne .Lmicro_ipi
    xor r11d, r11d
2:  inc r11
    micro_now r8
    micro_wrmsr {X2APIC_ICR}, 0x4041, 1
    micro_now r9
    mov r10, r8
3:  cmp [{TURN}], r11
    jne 3b
    mov rax, [{STAMP}]
    sub rax, r10
    mov [rsi + {SERIES}], rax
    micro_keep
    dec rdi
    jnz 2b
    ret

.Lmicro_receiver:
    xor r11d, r11d
    sti
    mov qword ptr [{READY}], 1
2:  cmp r11, rdi
    jb 2b
    cli
    ret

.Lmicro_eoi:
    sti
2:  xor r9d, r9d
    micro_wrmsr {X2APIC_SELF_IPI}, 0x42
3:  test r9, r9
    jz 3b
    mov [rsi], r9
    add rsi, 8
    dec rdi
    jnz 2b
    cli
    ret

.Lmicro_pv_eoi:
    sti
2:  xor r9d, r9d
    micro_wrmsr {X2APIC_SELF_IPI}, 0x43
3:  test r9, r9
    jz 3b
    mov [rsi], r9
    add rsi, 8
    dec rdi
    jnz 2b
    cli
    ret

.Lmicro_on_wake:
    micro_now r9
    micro_wrmsr {X2APIC_EOI}, 0
    iretq

.Lmicro_on_ipi:
    micro_now r9
    mov [{STAMP}], r9
    micro_wrmsr {X2APIC_EOI}, 0
    inc r11
    mov [{TURN}], r11
    iretq

.Lmicro_on_eoi:
    micro_now r8
    micro_wrmsr {X2APIC_EOI}, 0
    micro_now r9
    sub r9, r8
    iretq

.Lmicro_on_pv_eoi:
    micro_now r8
    btr dword ptr [{PV_EOI}], 0
    jc 2f
    inc qword ptr [{EOIS}]
    micro_wrmsr {X2APIC_EOI}, 0
2:  micro_now r9
    sub r9, r8
    iretq
paratick_micro_end:

    .purgem micro_now
    .purgem micro_wrmsr
    .purgem micro_wrmsr_r10
    .purgem micro_later
    .purgem micro_keep
    .purgem micro_table
    .text
"#,
    DONE = const DONE,
    NOBODY_S = const NOBODY_S,
    SERIES = const SERIES,
    PV_EOI = const SHARED,
    PV_EOI_ENABLED = const SHARED | 1,
    // A cache line each.
    TURN = const SHARED + 0x80,
    STAMP = const SHARED + 0xc0,
    READY = const SHARED + 0x100,
    EOIS = const SHARED + EOIS,
    TSC_DEADLINE = const 0x6e0,
    X2APIC_EOI = const 0x80b,
    X2APIC_SPIV = const 0x80f,
    X2APIC_ICR = const 0x830,
    X2APIC_LVTT = const 0x832,
    X2APIC_SELF_IPI = const 0x83f,
    KVM_PV_EOI_EN = const 0x4b56_4d04_u32,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_leads_into_the_code() {
        let code = code();
        let table = (Entry::OnPvEoi as u64 + 1) * 4;
        assert_eq!(offset(Entry::Main), table);
        let at = |entry: Entry, bytes: &[u8]| code[offset(entry) as usize..].starts_with(bytes);
        // lfence; rdtsc
        let now = [0x0f, 0xae, 0xe8, 0x0f, 0x31];
        for entry in [Entry::Empty, Entry::Cpuid, Entry::PioUser, Entry::OnWake, Entry::OnPvEoi] {
            assert!(at(entry, &now), "{entry:?}");
        }
        // sti
        assert!(at(Entry::Eoi, &[0xfb]) && at(Entry::PvEoi, &[0xfb]));
        // iretq ends it.
        assert!(code.ends_with(&[0x48, 0xcf]) && code.len() < 0x1000);
    }
}
