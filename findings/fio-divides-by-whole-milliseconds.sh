#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's fio 3.33-3, as of Debian 12.
#
# Guessed: fio times each request in ns, so its bandwidth and IOPS are of that time.
# Seen: both are by a run time in whole ms, and by one where the job took less: a page that is read
# in a part of a ms is 4 096 000 bytes a second, and 1000 IOPS.  So jobs that differ by less
# than a ms look the same, or twice as fast.
# Needs the libraries of that fio.
set -eu
cd "$(mktemp -d)"
here=$PWD
trap 'rm -r "$here"' EXIT
apt-get download -qq fio=3.33-3 2>/dev/null
dpkg-deb -x fio_*.deb .
usr/bin/fio --name=page --filename="$here/page" --rw=read --bs=4k --size=4k --ioengine=psync \
	--invalidate=0 --output-format=json --output=said
# value NAME: of the reads
value() {
	sed -n "/\"read\" : {/,/^ *},/s/^ *\"$1\" : \([0-9.]*\),*$/\1/p" said | head -n 1
}
# The time from begin to end of the only request.
took=$(sed -n '/"read" : {/,/"write" : {/p' said | sed -n '/"clat_ns" : {/,/}/p' |
	sed -n 's/^ *"max" : \([0-9]*\),.*/\1/p')
seen="$(value io_bytes) bytes in $(value runtime) ms: $(value bw_bytes) a second"
echo "$seen; the request took $took ns"
[ "$seen, $(value iops) IOPS" = "4096 bytes in 1 ms: 4096000 a second, 1000.000000 IOPS" ]
[ "$took" -lt 1000000 ]
