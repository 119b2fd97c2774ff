#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's kernels linux-image-6.12.117+deb12-cloud-amd64 and 7.3.4+deb13-cloud-amd64
# (trixie-backports), in Debian 12's QEMU 1:7.2+dfsg-7+deb12u18+b3 with TCG.
#
# Guessed: two busy threads on a CPU cost its timer what one costs, the 250 ticks of a second, as
# slices end at ticks.  HRTICK, which arms a timer for the end of each slice, is off by default.
# Seen: in 7.3 it is on.  A CPU with two busy threads takes some 550 timer interrupts a second; each
# more is two VM exits of a vCPU.  NO_HRTICK in sched/features of debugfs ends it.
# Needs cpio.
set -eu
cd "$(mktemp -d)"
trap 'rm -r "$PWD"' EXIT
apt-get download -qq busybox-static=1:1.35.0-4+deb12u1+b1 \
	linux-image-6.12.117+deb12-cloud-amd64=6.12.117-1~deb12u1 \
	qemu-system-x86=1:7.2+dfsg-7+deb12u18+b3 qemu-system-common=1:7.2+dfsg-7+deb12u18+b3 \
	qemu-system-data=1:7.2+dfsg-7+deb12u18 seabios=1.16.2-1 2>/dev/null
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
keys=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keys] $mirror trixie-backports main" >sources.list
mkdir -p lists/partial cache/archives/partial root/bin
ours() {
	apt-get -qq -o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=- \
		-o Dir::State::lists="$PWD/lists" -o Dir::Cache="$PWD/cache" "$@" 2>/dev/null
}
ours update
ours download linux-binary-7.3.4+deb13-cloud-amd64
for package in *.deb; do
	dpkg-deb -x "$package" .
done
cp bin/busybox root/bin
cat >root/init <<'END'
#!/bin/busybox sh
busybox mkdir -p /dev /proc /sys
busybox mount -t devtmpfs none /dev
busybox mount -t proc none /proc
busybox mount -t sysfs none /sys
busybox mount -t debugfs none /sys/kernel/debug
interrupts() { busybox awk '/LOC/ { print $2 }' /proc/interrupts; }
busy() { (while :; do :; done) & }
count() {
	before=$(interrupts)
	busybox sleep 4
	echo "timer interrupts, $1: $((($(interrupts) - before) / 4)) a second"
}
busy
count "one thread"
busy
count "two threads"
echo NO_HRTICK >/sys/kernel/debug/sched/features
count "two threads and NO_HRTICK"
busybox poweroff -f
END
chmod +x root/init
(cd root && find . | cpio -o -H newc --quiet) >initrd
# of VERSION KERNEL
of() {
	QEMU_MODULE_DIR=$PWD/usr/lib/x86_64-linux-gnu/qemu \
	timeout 300 usr/bin/qemu-system-x86_64 \
		-accel tcg -icount shift=0 -m 512 -nodefaults -display none -no-reboot \
		-serial stdio \
		-L usr/share/qemu -L usr/share/seabios -kernel "$2" -initrd initrd \
		-append 'console=ttyS0 quiet cryptomgr.notests' | tr -d '\r' |
		sed -n "s/.*\(timer interrupts\)/$1: \1/p"
}
{
	of 6.12 boot/vmlinuz-6.12.*
	of 7.3 usr/lib/modules/7.3.4*/vmlinuz
} | tee said
awk '{ n[NR] = $(NF - 2) } END {
	near = n[1] < 300 && n[2] < 300 && n[3] < 300 && n[4] < 400 && n[6] < 400
	exit !(NR == 6 && near && n[5] > 1.7 * n[2]) }' said
