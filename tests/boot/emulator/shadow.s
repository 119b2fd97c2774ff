# SPDX-License-Identifier: GPL-2.0-only
# A boot sector.  In each round, interrupts can come only after the instruction that follows STI,
# and before CLI.  Writes a T for each of the timer's to the first serial port, and at the end a
# dot; then it resets the machine.
	.code16
	.globl _start
_start:
	cli
	xor %ax, %ax
	mov %ax, %ds
	mov %ax, %ss
	mov $0x7000, %sp
	movw $tick, 0x20
	movw %ax, 0x22
	mov $6000000, %ebp
round:
	sti
	pause
	cli
	dec %ebp
	jnz round
	mov $'.', %al
	call say
	mov $6, %al
	mov $0xcf9, %dx
	out %al, %dx
	hlt
tick:
	push %ax
	push %dx
	mov $'T', %al
	call say
	mov $0x20, %al
	out %al, $0x20
	pop %dx
	pop %ax
	iret
say:
	mov $0x3f8, %dx
	out %al, %dx
	ret
	.org 510
	.word 0xaa55
