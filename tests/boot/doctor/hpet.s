# SPDX-License-Identifier: GPL-2.0-only
# A guest without an operating system (Multiboot), idle, whose HPET goes on ticking 1000 times a
# second in the PIT's place, while the PICs and the IO-APIC mask the line.
	.code32
	.long 0x1badb002, 0, -0x1badb002
	.globl _start
_start:
	cli
	movb $0xff, %al		# all lines of both PICs
	outb %al, $0x21
	outb %al, $0xa1
	movl $0x14, 0xfec00000	# the IO-APIC's entry of pin 2: masked
	movl $0x10000, 0xfec00010
	cmpl $0, 0xfed00000	# is there an HPET?
	je up
	cmpl $-1, 0xfed00000
	je up
	movl $0, 0xfed00010	# stop it
	movl $0, 0xfed000f0	# its counter, in steps of 10 ns
	movl $0, 0xfed000f4
	movl $0x4c, 0xfed00100	# timer 0: interrupts, periodic, sets its period
	movl $100000, 0xfed00108
	movl $0, 0xfed0010c
	movl $3, 0xfed00010	# go, in the PIT's place
up:	movl $said, %esi
	movw $0x3f8, %dx
1:	lodsb
	testb %al, %al
	jz 2f
	outb %al, %dx
	jmp 1b
2:	hlt
	jmp 2b
said:	.asciz "guest is up\n"
