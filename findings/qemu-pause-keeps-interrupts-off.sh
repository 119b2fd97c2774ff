#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's qemu-system-x86 1:7.2+dfsg-7+deb12u18+b3, as of Debian 12, with its TCG.
#
# Guessed: STI keeps interrupts off for one instruction, whichever that is, so a CPU that executes
# STI, an instruction and CLI in a loop takes the timer's interrupts between the last two.
# Seen: with NOP it does, and with HLT.  With PAUSE it never takes one: in TCG, interrupts stay off
# for the instruction after PAUSE, too.
# Needs binutils, and the libraries of that QEMU.
set -eu
cd "$(mktemp -d)"
trap 'rm -r "$PWD"' EXIT
apt-get download -qq qemu-system-x86=1:7.2+dfsg-7+deb12u18+b3 \
	qemu-system-common=1:7.2+dfsg-7+deb12u18+b3 qemu-system-data=1:7.2+dfsg-7+deb12u18 \
	seabios=1.16.2-1 2>/dev/null
for package in *.deb; do
	dpkg-deb -x "$package" .
done
# boots INSTRUCTION ROUNDS: whether interrupts of the timer, 18 a second, come meanwhile
boots() {
	cat >boot.s <<-END
	.code16
	.globl _start
	_start:
		cli
		xor %ax, %ax
		mov %ax, %ds
		mov %ax, %ss
		mov \$0x7000, %sp
		movw \$tick, 0x20
		movw %ax, 0x22
		mov \$$2, %ebp
	round:
		sti
		$1
		cli
		dec %ebp
		jnz round
		mov \$'.', %al
		out %al, \$0xe9
		mov \$0, %al
		out %al, \$0xf4
		hlt
	tick:
		push %ax
		mov \$'T', %al
		out %al, \$0xe9
		mov \$0x20, %al
		out %al, \$0x20
		pop %ax
		iret
		.org 510
		.word 0xaa55
	END
	as --32 -o boot.o boot.s
	ld -m elf_i386 -Ttext 0x7c00 --oformat binary -o boot.img boot.o
	QEMU_MODULE_DIR=$PWD/usr/lib/x86_64-linux-gnu/qemu \
	timeout 120 usr/bin/qemu-system-x86_64 -accel tcg -nodefaults -display none -no-reboot \
		-L usr/share/qemu -L usr/share/seabios -device isa-debug-exit,iobase=0xf4,iosize=1 \
		-chardev file,id=said,path=said -device isa-debugcon,iobase=0xe9,chardev=said \
		-drive file=boot.img,format=raw,if=ide >/dev/null 2>&1 || :
	grep -q '\.$' said
	ticks=$(tr -cd T <said | wc -c)
	echo "$1: $([ "$ticks" -gt 0 ] && echo interrupts || echo none)"
}
found=$(boots nop 30000000; boots hlt 30; boots pause 3000000)
echo "$found"
[ "$found" = "nop: interrupts
hlt: interrupts
pause: none" ]
