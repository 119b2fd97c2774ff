#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Installs, tries and purges the packages, in a small Debian that has been made for it.  This
# script, the packages and recorded results are in /packages.
set -eu
export DEBIAN_FRONTEND=noninteractive PARATICK_CACHE=/tmp/cache HOME=/root

fail() {
	echo "installed.sh: $*" >&2
	exit 1
}

# What packages and people made, without what apt and dpkg note for themselves.
files() {
	find / \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /run \
		-o -path /packages -o -path /var/cache -o -path /var/log \
		-o -path /var/lib/dpkg -o -path /var/lib/apt \) -prune -o -print | LC_ALL=C sort
}

# says CODE TEXT COMMAND…: it ends with this code, and says this
says() {
	code=$1 text=$2
	shift 2
	found=0
	"$@" >/tmp/said 2>&1 || found=$?
	[ "$found" = "$code" ] || fail "$*: exit code $found: $(cat /tmp/said)"
	grep -qF "$text" /tmp/said || fail "$*: no '$text' in: $(cat /tmp/said)"
}

files >/tmp/before
for program in clang cargo gcc qemu-system-x86_64 git; do
	! command -v "$program" || fail "this system has $program"
done
apt-get install -qq -y /packages/paratick_*.deb

says 0 'paratick 0.' paratick --version
says 69 'there is no /dev/kvm' paratick doctor
says 69 'install the package paratick-lab' paratick bench quick
says 69 'hint: load KVM' paratick exits --for 1s
says 69 'hint: ' paratick halts --for 1s
says 69 'hint: ' paratick noise --for 1s
says 69 'hint: ' paratick idle --for 1s
says 0 'activations' paratick timerlat --for 1s
says 0 'Exits/s' paratick exits --compare /packages/recorded-exits-before.json \
	/packages/recorded-exits-after.json
says 0 'figures changed' paratick compare /packages/recorded.json /packages/recorded.json
says 0 '/tmp/report.html' paratick report /packages/recorded.json --output /tmp/report.html
says 0 'tickless' paratick model --vcpus 4 --load 0.3 --idle-period 200us

for verb in '' -exits -noise -idle -halts -timerlat -doctor -report -compare; do
	says 0 "/paratick$verb.1" man -w "paratick$verb"
done
says 0 'CAP_BPF' man -P cat paratick-exits
says 0 '_paratick' bash -c '. /usr/share/bash-completion/completions/paratick
	complete -p paratick'
for file in zsh/vendor-completions/_paratick fish/vendor_completions.d/paratick.fish; do
	[ -s "/usr/share/$file" ] || fail "no $file"
done
[ -z "$(dpkg --verify paratick)" ] || fail 'dpkg --verify'
! ls /etc/systemd/system/*.wants/paratick* 2>/dev/null || fail 'a unit is enabled'

# What the lab depends on is there to be installed: much, so it is not.
apt-get install -qq -s /packages/*.deb >/dev/null
dpkg --force-depends -i /packages/paratick-lab_*.deb >/dev/null 2>&1
# The marks of a kernel's image, and no kernel.
{
	head -c 510 /dev/zero
	printf '\125\252\000\000HdrS'
} >/tmp/bzImage
says 69 "the lab's emulator is not built" paratick lab run --dry-run --kernel /tmp/bzImage -- true
says 69 'apt-get install --no-install-recommends' paratick doctor
! grep -qE 'cargo|clang|make deps' /tmp/said || fail "doctor: $(cat /tmp/said)"

apt-get purge -qq -y paratick-lab paratick
files >/tmp/after
diff /tmp/before /tmp/after || fail 'files are left, or missing'
echo 'purged; nothing is left'
