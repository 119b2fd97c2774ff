#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's kernels linux-image-6.12.117+deb12-cloud-amd64 and 7.3.4+deb13-cloud-amd64
# (trixie-backports), in Debian 12's QEMU 1:7.2+dfsg-7+deb12u18+b3 with TCG.
#
# Guessed: whatever a kernel tests of itself is over when its first program runs, so a guest whose
# first program sleeps is idle.
# Seen: tests of ciphers go on in threads of the kernel.  In three seconds in which the first
# program sleeps, 6.12 works for some 750 ms and 7.3 for 1460; with `cryptomgr.notests` both for 10
# or less.  An instruction is a nanosecond here.
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
busybox mkdir -p /dev /proc
busybox mount -t devtmpfs none /dev
busybox mount -t proc none /proc
# In hundredths of a second, of all that is neither idle nor waiting.
worked() { busybox awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 }' /proc/stat; }
threads() { busybox ps -o comm | busybox grep -c '^cryptomgr_test'; }
before=$(worked)
tests=$(threads)
busybox sleep 3
echo "worked for $((($(worked) - before) * 10)) ms of 3 s; $tests threads of tests at first"
busybox poweroff -f
END
chmod +x root/init
(cd root && find . | cpio -o -H newc --quiet) >initrd
# of VERSION KERNEL PARAMETER
of() {
	QEMU_MODULE_DIR=$PWD/usr/lib/x86_64-linux-gnu/qemu \
	timeout 300 usr/bin/qemu-system-x86_64 \
		-accel tcg -icount shift=0 -m 512 -nodefaults -display none -no-reboot \
		-serial stdio \
		-L usr/share/qemu -L usr/share/seabios -kernel "$2" -initrd initrd \
		-append "console=ttyS0 quiet $3" | tr -d '\r' |
		sed -n "s/.*\(worked for\)/$1 ${3:-without}: \1/p"
}
for parameter in '' cryptomgr.notests; do
	of 6.12 boot/vmlinuz-6.12.* "$parameter"
	of 7.3 usr/lib/modules/7.3.4*/vmlinuz "$parameter"
done | tee said
awk -F 'worked for ' '{ ms[NR] = $2 + 0 } END {
	exit !(NR == 4 && ms[1] > 300 && ms[2] > 300 && ms[3] < 100 && ms[4] < 100) }' said
