# SPDX-License-Identifier: GPL-2.0-only
# The micro guest's code; code.rs says what it is given, and fills in what stands in braces.

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

    .macro micro_cpuid
        xor eax, eax
        xor ecx, ecx
        cpuid
    .endm
    .macro micro_around name, instruction:vararg
.Lmicro_\name:
        micro_now r8
        \instruction
        micro_now r9
        micro_keep
        dec rdi
        jnz .Lmicro_\name
        ret
    .endm
    .macro micro_self_ipi name, vector      # the handler leaves the sample in r9
.Lmicro_\name:
        sti
2:      xor r9d, r9d
        micro_wrmsr {X2APIC_SELF_IPI}, \vector
3:      test r9, r9
        jz 3b
        mov [rsi], r9
        add rsi, 8
        dec rdi
        jnz 2b
        cli
        ret
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

    micro_around empty
    micro_around cpuid, micro_cpuid
    micro_around pio_kernel, in al, 0x21    # the PIC's mask
    micro_around pio_user, out {NOBODY_S}, al

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

    micro_self_ipi eoi, 0x42
    micro_self_ipi pv_eoi, 0x43

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
    .purgem micro_cpuid
    .purgem micro_around
    .purgem micro_self_ipi
    .text
