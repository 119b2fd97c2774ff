#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's qemu-utils 1:7.2+dfsg-7+deb12u18+b3, as of Debian 12.
#
# Guessed: with `latency-ns=10000` each request of a null-co device takes 10 µs, and what is around
# it, as the option is in nanoseconds and QEMU's poll has a timeout in them.
# Seen: 10 µs, 100 µs and 1 ms all take 1 ms, and 1.1 ms takes 2 ms: the main loop waits for timers
# of its AioContext by GLib, whose timeout is in milliseconds, rounded up.  In a
# guest a device with an iothread took as long as it was told (not shown here).
# Output here, of 200 requests one at a time: 0.001 s without latency, 0.216, 0.217 and 0.216 s,
# and 0.427 s.
# Needs the libraries of that qemu-img.
set -eu
cd "$(mktemp -d)"
trap 'rm -r "$PWD"' EXIT
apt-get download -qq qemu-utils=1:7.2+dfsg-7+deb12u18+b3 2>/dev/null
dpkg-deb -x qemu-utils*.deb .
# took NS: how long 200 requests take, in ms
took() {
	usr/bin/qemu-img bench -c 200 -d 1 \
		--image-opts "driver=null-co,size=1073741824,latency-ns=$1" |
		sed -n 's/Run completed in \(.*\) seconds\./\1/p' |
		awk '{ printf "%d\n", $1 * 1000 }'
}
none=$(took 0)
echo "0 ns: $none ms"
[ "$none" -lt 100 ]
for ns in 10000 100000 1000000; do
	ms=$(took $ns)
	echo "$ns ns: $ms ms"
	[ "$ms" -ge 200 ]
done
ms=$(took 1100000)
echo "1100000 ns: $ms ms"
[ "$ms" -ge 400 ]
