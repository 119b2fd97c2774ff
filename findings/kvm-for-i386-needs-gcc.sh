#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's linux-source-6.12 6.12.117-1~deb12u1 and clang 14.0.6, as of Debian 12.
#
# Guessed: with ARCH=i386 and CONFIG_KVM=y, which Kconfig offers for clang from 13.0.1 on, clang
# compiles what gcc does.
# Seen: gcc compiles arch/x86/kvm/x86.c; clang has two errors at the line that reads a guest's steal
# time, a 64-bit number, by unsafe_get_user().
# Needs clang and what builds a kernel; some 3 GB for a while.
set -eu
cd "$(mktemp -d)"
trap 'rm -r "$PWD"' EXIT
clang --version | grep -q 'clang version 14\.0\.6'
apt-get download -qq linux-source-6.12=6.12.117-1~deb12u1 2>/dev/null
dpkg-deb -x linux-source-6.12_*.deb .
tar -xf usr/src/linux-source-6.12.tar.xz
# with COMPILER: the errors in that file
with() {
	set -- -s -C linux-source-6.12 ARCH=i386 "CC=$1" "O=$PWD/$1"
	make "$@" tinyconfig >/dev/null
	linux-source-6.12/scripts/config --file "${6#O=}/.config" -e SMP -e PCI -e ACPI -e NET \
		-e PRINTK -e HIGH_RES_TIMERS -e EVENTFD -e HYPERVISOR_GUEST -e VIRTUALIZATION \
		-e KVM -e KVM_INTEL
	make "$@" olddefconfig >/dev/null
	grep -q '^CONFIG_KVM=y' "${6#O=}/.config"
	make "$@" -k arch/x86/kvm/x86.o 2>&1 | grep -oE 'kvm/x86\.c:[0-9]+:[0-9]+: error: .*' || :
}
found=$(echo "gcc: $(with gcc | wc -l)"; with clang)
echo "$found"
error="kvm/x86.c:3332:2: error: invalid output size for constraint '=a'"
[ -f gcc/arch/x86/kvm/x86.o ] && [ ! -f clang/arch/x86/kvm/x86.o ]
[ "$found" = "gcc: 0
$error
$error" ]
