#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's qemu-system-x86 1:7.2+dfsg-7+deb12u18+b3, as of Debian 12, with its TCG.
#
# Guessed: a plugin that asks to be told of translated blocks, and then asks for no callback in
# them, costs one call for each block that is translated.
# Seen: code that is translated anew each time it runs takes 1.5 times the CPU time, or more.  While
# a block is translated, each of its instructions and memory accesses gets places for callbacks of
# each kind, before the plugin is asked; those that nobody wants are removed again.  A plugin that
# does not ask for blocks costs nothing.
# Needs binutils, gcc, GNU time, and the libraries of that QEMU.
set -eu
cd "$(mktemp -d)"
trap 'rm -r "$PWD"' EXIT
apt-get download -qq qemu-system-x86=1:7.2+dfsg-7+deb12u18+b3 \
	qemu-system-common=1:7.2+dfsg-7+deb12u18+b3 qemu-system-data=1:7.2+dfsg-7+deb12u18 \
	seabios=1.16.2-1 2>/dev/null
for package in *.deb; do
	dpkg-deb -x "$package" .
done
plugin() {
	cat >"$1.c" <<-END
	int qemu_plugin_version = 1;
	void qemu_plugin_register_vcpu_tb_trans_cb(unsigned long, void (*)(unsigned long, void *));
	static void look(unsigned long id, void *block) { }
	int qemu_plugin_install(unsigned long id, const void *info, int argc, char **argv)
	{
		$2
		(void)look;
		return 0;
	}
	END
	gcc -shared -fPIC -o "$1.so" "$1.c"
}
plugin idle ''
plugin looks 'qemu_plugin_register_vcpu_tb_trans_cb(id, look);'
# A block of 40 instructions that read memory, which a write to it has translated each time.
cat >boot.s <<-END
.code16
.globl _start
_start:
	cli
	xor %ax, %ax
	mov %ax, %ds
	mov \$60000, %ebp
again:
	incb block + 1
	jmp block
	.org 128
block:
	mov \$0, %al
	.rept 40
	addw 0x500, %ax
	.endr
	dec %ebp
	jnz again
	mov \$0, %al
	out %al, \$0xf4
	.org 510
	.word 0xaa55
END
as --32 -o boot.o boot.s
ld -m elf_i386 -Ttext 0x7c00 --oformat binary -o boot.img boot.o
# took PLUGIN...: CPU time in ms, the least of five
took() {
	for _ in 1 2 3 4 5; do
		QEMU_MODULE_DIR=$PWD/usr/lib/x86_64-linux-gnu/qemu \
		/usr/bin/time -o time -f %U usr/bin/qemu-system-x86_64 "$@" \
			-accel tcg,thread=single -nodefaults -display none -no-reboot \
			-L usr/share/qemu -L usr/share/seabios \
			-device isa-debug-exit,iobase=0xf4,iosize=1 \
			-drive file=boot.img,format=raw,if=ide >/dev/null 2>&1 || :
		tail -1 time
	done | sort -n | head -1 | awk '{ print int($1 * 1000) }'
}
none=$(took) idle=$(took -plugin "$PWD/idle.so") looks=$(took -plugin "$PWD/looks.so")
echo "CPU time: $none ms, with a plugin $idle ms, with one that looks at blocks $looks ms"
[ $((idle * 10)) -lt $((none * 12)) ] && [ $((looks * 10)) -gt $((none * 13)) ]
