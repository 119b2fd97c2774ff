#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's linux-source-6.1 6.1.176-1 and linux-source-6.12 6.12.117-1~deb12u1 (arch/x86/kvm).
#
# Guessed: the tracepoint kvm_exit is met as soon as the guest has been left, with interrupts off,
# by svm_vcpu_run() as by vmx_vcpu_run().
# Seen: so it is for Intel in both, and for AMD in 6.12.  For AMD in 6.1 it is svm_handle_exit()
# that tells, after vcpu_enter_guest() has had interrupts and preemption on: the handler of the
# interrupt that the exit was for comes before the exit in a trace, and so may other tasks.  Who
# takes the first handler after an exit for its cause names none, and who takes the time from exit
# to entry, as perf kvm stat does, leaves out the interrupt and what was stolen.
set -eu
cd "$(mktemp -d)"
trap 'rm -r "$PWD"' EXIT
# in FILE: the function that meets the tracepoint
in_function() {
	awk '/^[a-z].*\(/ && !/;$/ { name = $0 } /trace_kvm_exit\(/ {
		sub(/\(.*/, "", name); sub(/.*[ *]/, "", name); print name }' "$1"
}
found=
for one in 6.1=6.1.176-1 6.12=6.12.117-1~deb12u1; do
	linux=${one%%=*}
	apt-get download -qq "linux-source-$linux=${one#*=}" 2>/dev/null
	dpkg-deb --fsys-tarfile linux-source-"$linux"_*.deb |
		tar -xO "./usr/src/linux-source-$linux.tar.xz" |
		tar -xJ --strip-components=1 "linux-source-$linux/arch/x86/kvm"
	amd=$(in_function arch/x86/kvm/svm/svm.c)
	intel=$(in_function arch/x86/kvm/vmx/vmx.c)
	found="$found$linux: $amd $intel
"
	rm -r arch
done
printf %s "$found"
[ "$found" = "6.1: svm_handle_exit vmx_vcpu_run
6.12: svm_vcpu_run vmx_vcpu_run
" ]
