#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's linux-source-6.12 6.12.117-1~deb12u1, as of Debian 12.
#
# Guessed: CAP_PERFMON, which Linux 5.8 introduced for that, lets a process open a tracepoint by
# perf_event_open() on every kernel, as capabilities(7) says.
# Seen: Debian's kernel has one more value of kernel.perf_event_paranoid, 3, as its default, and
# with it asks for CAP_SYS_ADMIN before anything else.
set -eu
cd "$(mktemp -d)"
here=$PWD
trap 'rm -r "$here"' EXIT
apt-get download -qq linux-source-6.12=6.12.117-1~deb12u1 2>/dev/null
dpkg-deb -x linux-source-6.12_*.deb .
tar -xf usr/src/linux-source-6.12.tar.xz linux-source-6.12/kernel/events/core.c \
	linux-source-6.12/include/linux/perf_event.h
cd linux-source-6.12
found=$(grep -h 'event_paranoid > 2\|event_paranoid .*= 3\|paranoid_any() &&' \
	kernel/events/core.c include/linux/perf_event.h)
echo "$found"
[ "$found" = "int sysctl_perf_event_paranoid __read_mostly = 3;
	if (perf_paranoid_any() && !capable(CAP_SYS_ADMIN))
	return sysctl_perf_event_paranoid > 2;" ]
