#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's linux-config-6.12 6.12.117-1~deb12u1, as of Debian 12.
#
# Guessed: it is the configuration that Debian's kernels were built with, as /boot/config-… has it:
# with paths of Debian's keys, which a build elsewhere has to clear.
# Seen: the file says that modules can be signed, and nothing of keys or of whether to sign.
# olddefconfig takes Linux's defaults, by which each build signs all modules with a key that it
# makes itself.
set -eu
cd "$(mktemp -d)"
here=$PWD
trap 'rm -r "$here"' EXIT
apt-get download -qq linux-config-6.12=6.12.117-1~deb12u1 2>/dev/null
dpkg-deb -x linux-config-6.12_*.deb .
for flavour in amd64 cloud-amd64; do
	xz -dc "usr/src/linux-config-6.12/config.amd64_none_$flavour.xz" >config
	signs=$(grep -c '^CONFIG_MODULE_SIG=y' config)
	keys=$(grep -cE 'MODULE_SIG_(ALL|KEY)\b|SYSTEM_TRUSTED_KEYS\b' config || :)
	echo "$flavour: signs $signs, lines of keys $keys"
	[ "$signs $keys" = "1 0" ]
done
