#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# On a host with Debian, systemd and libvirt: VMs that libvirt started are looked at with the
# package, which is installed, and purged in the end.  A line `= NAME` comes before what is said
# for the test.  Everything it needs is in /packages.
set -eu
export DEBIAN_FRONTEND=noninteractive HOME=/root

note() {
	echo "= $1"
}

# What packages and people made, without what apt, dpkg, timers and libvirt note for themselves.
files() {
	find / \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /run \
		-o -path /packages -o -path /var/cache -o -path /var/log \
		-o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/backups \
		-o -path /var/lib/systemd/timers -o -path /var/lib/logrotate \
		-o -path /var/lib/libvirt -o -path /etc/apparmor.d/libvirt \
		\) -prune -o -print | LC_ALL=C sort
}

# archive FOLDER: a guest's first root: busybox, and what drives a network card of virtio's
archive() {
	mkdir -p "$1/bin" "$1/modules" "$1/dev" "$1/proc"
	cp /bin/busybox "$1/bin/busybox"
	install -m 755 /packages/init "$1/init"
	number=10
	modprobe --show-depends virtio_pci >/tmp/needed
	modprobe --show-depends virtio_net >>/tmp/needed
	sed -n 's/^insmod //p' /tmp/needed | awk '!seen[$1]++ { print $1 }' | while read -r file; do
		name=$1/modules/$number-$(basename "$file")
		cp "$file" "$name"
		case $name in *.xz) xz -d "$name" ;; esac
		number=$((number + 1))
	done
	(cd "$1" && find . | busybox cpio -o -H newc 2>/dev/null) >"$1.cpio"
}

# domain NAME UUID KERNEL HPET MORE DEVICES: libvirt's description of a VM
domain() {
	cat <<-END
	<domain type='kvm'>
	  <name>$1</name>
	  <uuid>$2</uuid>
	  <memory unit='MiB'>192</memory>
	  <vcpu>1</vcpu>
	  <os><type arch='x86_64' machine='q35'>hvm</type><kernel>$3</kernel>$5</os>
	  <features><acpi/><apic/></features>
	  <cpu mode='host-passthrough'><feature policy='disable' name='xsave'/></cpu>
	  <on_reboot>destroy</on_reboot>
	  <clock offset='utc'><timer name='hpet' present='$4'/></clock>
	  <devices>
	    <emulator>/usr/bin/qemu-system-x86_64</emulator>
	    <controller type='usb' model='none'/>
	    <memballoon model='none'/>
	    <serial type='file'><source path='/var/log/libvirt/qemu/$1.console'/></serial>
	    $6
	  </devices>
	</domain>
	END
}

# up NAME UUID KERNEL HPET MORE DEVICES: libvirt starts it, and it says that it is up
up() {
	domain "$@" >"/tmp/$1.xml"
	virsh --quiet create "/tmp/$1.xml" >&2
	until grep -q 'guest is up' "/var/log/libvirt/qemu/$1.console"; do
		sleep 1
		virsh --quiet domstate "$1" 2>/dev/null | grep -q running || {
			tail -n 20 "/var/log/libvirt/qemu/$1".* >&2
			exit 1
		}
	done
}

. /packages/libvirt.sh
archive /tmp/web
cp /tmp/web.cpio "/boot/vmlinuz-$(uname -r)" /packages/hpet /var/lib/libvirt/images
cd /var/lib/libvirt/images
up web-1 5b8e4c2e-6f43-4ac0-9d9e-3f9d5d1a7c11 "$PWD/vmlinuz-$(uname -r)" no \
	"<initrd>$PWD/web.cpio</initrd><cmdline>console=ttyS0 quiet panic=-1</cmdline>" \
	"<interface type='ethernet'><target dev='tap-web'/><model type='virtio'/>
	<driver name='vhost'/></interface>"
ip address add 192.0.2.1/24 dev tap-web
ip link set tap-web up
cd /
files >/tmp/before

apt-get install -qq -y --no-install-recommends /packages/paratick_*.deb >&2
note release
sed -n 's/^VERSION_CODENAME=//p' /etc/os-release
uname -r
systemctl is-system-running || systemctl --failed --plain --no-legend
note vhost
modinfo -F vermagic vhost_net
P=$(sed -n "s/.*<domstatus .*pid='\([0-9]*\)'.*/\1/p" /run/libvirt/qemu/web-1.xml)
echo "$P"
head -qn 1 /proc/[0-9]*/comm "/proc/$P"/task/*/comm 2>/dev/null | grep '^vhost-'
note all
paratick exits --for 2s --format json
note by-name
paratick exits --for 2s --vm web-1 --format json
note by-uuid
paratick exits --for 2s --vm 5b8e4c2e-6f43-4ac0-9d9e-3f9d5d1a7c11 --format json
note text
paratick exits --for 2s --vm web-1
ping -q -i 0.01 192.0.2.2 >/dev/null &
note doctor
paratick doctor --vm web-1 --for 2s --format json
note doctor-text
paratick doctor --vm web-1 --for 2s
kill $!

systemctl start paratick.socket
for scrape in first second; do
	note "$scrape-scrape"
	curl -sS --fail http://127.0.0.1:10186/metrics
	sleep 2
done
note service
systemctl show -P ActiveState -P User -P NRestarts paratick.service
systemctl stop paratick.socket paratick.service

cd /var/lib/libvirt/images
for hpet in yes no; do
	up "hpet-$hpet" "$(cat /proc/sys/kernel/random/uuid)" "$PWD/hpet" "$hpet" '' ''
	note "hpet-$hpet"
	paratick doctor --vm "hpet-$hpet" --for 2s --format json
	virsh --quiet destroy "hpet-$hpet" >&2
done
cd /

apt-get purge -qq -y paratick >&2
files >/tmp/after
diff /tmp/before /tmp/after >&2
if getent passwd paratick >&2 || ls -d /etc/systemd/system/*/paratick.* 2>/dev/null >&2; then
	exit 1
fi
note done
