#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's kernel linux-image-6.12.117+deb12-cloud-amd64, in Debian 12's QEMU
# 1:7.2+dfsg-7+deb12u18+b3 with TCG.
#
# Guessed: a guest with idle=poll has fewer VM exits: those of HLT are gone, and the timer's are as
# before, as NO_HZ stops the tick of an idle CPU.
# Seen: a CPU that polls keeps its tick, so an idle CPU takes all 250 timer interrupts of a second,
# each of them two VM exits without hardware's help.  With nohz_full, too: there a CPU ticks while
# it is idle and stops while a thread keeps it busy.  Who counts exits or noise of an idle guest
# with idle=poll counts ticks that its work does not have.
# Output here, of a CPU with nohz_full: 0 a second idle and 1 to 12 busy; with idle=poll 255 and 7.
# Needs cpio.
set -eu
cd "$(mktemp -d)"
trap 'rm -r "$PWD"' EXIT
apt-get download -qq busybox-static=1:1.35.0-4+deb12u1+b1 \
	linux-image-6.12.117+deb12-cloud-amd64=6.12.117-1~deb12u1 \
	qemu-system-x86=1:7.2+dfsg-7+deb12u18+b3 qemu-system-common=1:7.2+dfsg-7+deb12u18+b3 \
	qemu-system-data=1:7.2+dfsg-7+deb12u18 seabios=1.16.2-1 2>/dev/null
for package in *.deb; do
	dpkg-deb -x "$package" .
done
mkdir -p root/bin
cp bin/busybox root/bin
cat >root/init <<'END'
#!/bin/busybox sh
busybox mkdir -p /dev /proc
busybox mount -t devtmpfs none /dev
busybox mount -t proc none /proc
interrupts() { busybox awk '/LOC/ { print $3 }' /proc/interrupts; }
count() {
	before=$(interrupts)
	busybox sleep 4
	echo "timer interrupts of CPU 1, $1: $((($(interrupts) - before) / 4)) a second"
}
busybox sleep 2
count idle
busybox taskset 2 busybox sh -c 'while :; do :; done' &
busybox sleep 2
count busy
busybox poweroff -f
END
chmod +x root/init
(cd root && find . | cpio -o -H newc --quiet) >initrd
# with PARAMETER
with() {
	QEMU_MODULE_DIR=$PWD/usr/lib/x86_64-linux-gnu/qemu \
	timeout 500 usr/bin/qemu-system-x86_64 \
		-accel tcg -icount shift=5,sleep=off -smp 2 -m 512 -nodefaults -display none \
		-no-reboot -serial stdio -L usr/share/qemu -L usr/share/seabios \
		-kernel boot/vmlinuz-6.12.* -initrd initrd -append "console=ttyS0 quiet \
		cryptomgr.notests tsc=reliable isolcpus=1 nohz_full=1 $1" | tr -d '\r' |
		sed -n "s/.*\(timer interrupts\)/${1:-without}: \1/p"
}
{
	with ''
	with idle=poll
} | tee said
awk '{ n[NR] = $(NF - 2) } END {
	exit !(NR == 4 && n[1] < 30 && n[2] < 30 && n[3] > 230 && n[4] < 30) }' said
