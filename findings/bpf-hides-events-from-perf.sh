#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's linux-source-6.12 6.12.117-1~deb12u1, as of Debian 12.
#
# Guessed: a BPF program at a tracepoint only looks: what it returns decides at most about the perf
# event that it was attached by, so `perf record` of others sees every event.
# Seen: the programs are the tracepoint's, and if one returns 0 the kernel records the event for
# nobody.  Beside a sensor at kvm_exit `perf kvm stat record` recorded all entries and no exit.
set -eu
cd "$(mktemp -d)"
here=$PWD
trap 'rm -r "$here"' EXIT
apt-get download -qq linux-source-6.12=6.12.117-1~deb12u1 2>/dev/null
dpkg-deb -x linux-source-6.12_*.deb .
tar -xf usr/src/linux-source-6.12.tar.xz linux-source-6.12/kernel/events/core.c \
	linux-source-6.12/kernel/trace/bpf_trace.c
cd linux-source-6.12/kernel
# Where the programs' result skips the event, and that all of a tracepoint's programs are asked.
skips=$(grep -c 'if (!trace_call_bpf(.*hlist_empty(' events/core.c)
asked=$(sed -n '/^unsigned int trace_call_bpf/,/^}/p' trace/bpf_trace.c | grep -c 'prog_run_array')
echo "skips $skips, asks all $asked"
[ "$skips $asked" = "1 1" ]
