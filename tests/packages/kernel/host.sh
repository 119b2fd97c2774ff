#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# On a host with Debian, systemd and libvirt, whose kernel is the package's: a VM with the same
# kernel is started. At the second boot the package is purged. A line `= NAME` comes before what
# is said for the test.
set -eu
export HOME=/root
release=$(uname -r)
images=/var/lib/libvirt/images

. /packages/libvirt.sh
mkdir -p /tmp/first/bin /tmp/first/dev /tmp/first/proc /tmp/first/sys
cp /bin/busybox /tmp/first/bin
install -m 755 /packages/init /tmp/first
(cd /tmp/first && find . | busybox cpio -o -H newc 2>/dev/null) >$images/first
cp "/boot/vmlinuz-$release" $images/kernel
# The ticks' feature bits have no names in Debian's QEMU.
cat >/tmp/guest.xml <<END
<domain type='kvm'>
  <name>guest</name>
  <memory unit='MiB'>256</memory>
  <vcpu>1</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>$images/kernel</kernel>
    <initrd>$images/first</initrd>
    <cmdline>console=ttyS0 quiet panic=-1 mitigations=off</cmdline>
  </os>
  <features><acpi/><apic/></features>
  <cpu mode='host-passthrough' migratable='off'><feature policy='disable' name='xsave'/></cpu>
  <on_reboot>destroy</on_reboot>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
    <serial type='file'><source path='/var/log/libvirt/qemu/guest.console'/></serial>
  </devices>
</domain>
END
rm -f /var/log/libvirt/qemu/guest.console
virsh --quiet create /tmp/guest.xml >&2
until grep -q 'guest is done' /var/log/libvirt/qemu/guest.console; do
	sleep 1
	virsh --quiet domstate guest 2>/dev/null | grep -q running || break
done
echo "= release"
uname -r
systemctl is-system-running || systemctl --failed --plain --no-legend
echo "= parameters"
cat /sys/module/kvm/parameters/pv_tick /sys/module/kvm/parameters/halt_until
echo "= guest"
cat /var/log/libvirt/qemu/guest.console
if [ -e /var/was-booted ]; then
	dpkg --purge "linux-image-$release" >&2
	echo "= left"
	find /boot /lib/modules /usr/lib/modules /usr/src -name "*$release*" | wc -l
fi
touch /var/was-booted
echo "= done"
echo
