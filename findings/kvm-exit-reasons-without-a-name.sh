#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's linux-libc-dev 6.1.176-1 (Linux 6.1, arch/x86/include/uapi/asm).
#
# Guessed: each SVM_EXIT_… that svm.h defines is in the table SVM_EXIT_REASONS of the same header,
# of which the tracepoint kvm_exit takes its names, as each EXIT_REASON_… of vmx.h is in its table.
# Seen: of vmx.h's 61 all are; of svm.h's 78 RDPRU (0x8e) and MWAIT_COND (0x8c) are not, beside
# LAST_EXCP, which is the end of a range.  A trace shows their exits as numbers, and who groups
# exits by KVM's names loses two instructions, one of which waits as HLT does.
set -eu
cd "$(mktemp -d)"
trap 'rm -r "$PWD"' EXIT
apt-get download -qq linux-libc-dev=6.1.176-1 2>/dev/null
dpkg-deb -x linux-libc-dev_*.deb .
# without HEADER PREFIX: how many are defined, and those without a name
without() {
	file=usr/include/x86_64-linux-gnu/asm/$1
	grep -oE "^#define +$2_[A-Z0-9_]+ +(0x)?[0-9a-f]+" "$file" |
		awk '{ print $2 }' | sort -u >defined
	sed -n '/_EXIT_REASONS/,$p' "$file" | grep -oE "\{ *$2_[A-Z0-9_]+" |
		grep -oE "$2_[A-Z0-9_]+" | sort -u >named
	missing=$(comm -23 defined named | sed 's/^/ /' | tr -d '\n')
	echo "$1: $(wc -l <defined) defined, without a name:$missing"
}
found=$(without svm.h SVM_EXIT; without vmx.h EXIT_REASON)
echo "$found"
svm=' SVM_EXIT_LAST_EXCP SVM_EXIT_MWAIT_COND SVM_EXIT_RDPRU'
[ "$found" = "svm.h: 78 defined, without a name:$svm
vmx.h: 61 defined, without a name:" ]
