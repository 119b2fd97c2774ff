#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's linux-source-6.12 6.12.117-1~deb12u1, as of Debian 12.
#
# Guessed: with KBUILD_BUILD_TIMESTAMP and SOURCE_DATE_EPOCH set, `make bindeb-pkg` makes the same
# packages each time.
# Seen: its mkdebian writes the time of the build into the changelog, which is in every package.
set -eu
cd "$(mktemp -d)"
here=$PWD
trap 'rm -r "$here"' EXIT
apt-get download -qq linux-source-6.12=6.12.117-1~deb12u1 2>/dev/null
dpkg-deb -x linux-source-6.12_*.deb .
tar -xf usr/src/linux-source-6.12.tar.xz linux-source-6.12/scripts/package
mkdir -p include/config
echo CONFIG_64BIT=y >include/config/auto.conf
SOURCE_DATE_EPOCH=0 KBUILD_BUILD_TIMESTAMP='Thu Jan  1 00:00:00 UTC 1970' \
	KERNELRELEASE=6.12 KDEB_PKGVERSION=1 KDEB_CHANGELOG_DIST=unstable \
	ARCH=x86 SRCARCH=x86 UTS_MACHINE=x86_64 srctree=linux-source-6.12 \
	sh linux-source-6.12/scripts/package/mkdebian
year=$(sed -n 's/^ -- .*> .*\(20[0-9][0-9]\) .*/\1/p' debian/changelog)
echo "the changelog is of $year, not of 1970"
[ "$year" -ge 2026 ]
