#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's linux-binary-7.3.4+deb13-amd64 7.3.4-1~bpo13+1, of trixie-backports.
#
# Guessed: on a CPU that has AVX but no XSAVE, with which AVX is enabled, Linux uses no AVX.
# Seen: polyval_mul_pclmul_avx() of its GHASH does.  A self test of the crypto code ends in an oops
# (invalid opcode) at boot.  Without both, it boots up to the root that it has not.
# Needs qemu-system-x86, and this machine's lists of packages.
set -eu
cd "$(mktemp -d)"
trap 'rm -r "$PWD"' EXIT
mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' |
	awk '$2 !~ /-/ { print $1; exit }')
key=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$key] $mirror trixie-backports main" >sources.list
mkdir -p lists/partial cache/archives/partial
apt() {
	apt-get -qq -o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::State::lists="$PWD/lists" -o Dir::Cache="$PWD/cache" \
		-o APT::Sandbox::User=root "$@" 2>/dev/null
}
apt update
apt download linux-binary-7.3.4+deb13-amd64=7.3.4-1~bpo13+1
dpkg-deb -x linux-binary-*.deb .
# boots FEATURES: what it says of invalid opcodes, and why it panics
boots() {
	echo "-cpu max,$1:"
	timeout 120 qemu-system-x86_64 -accel tcg -M q35 -cpu "max,$1" -m 512 -net none \
		-display none -serial stdio -no-reboot -kernel usr/lib/modules/*/vmlinuz \
		-append 'console=ttyS0 panic=-1' </dev/null 2>/dev/null |
		grep -Eao 'invalid opcode|RIP: .*avx|Kernel panic.*' | uniq
}
boots -xsave
boots -xsave,-avx
