# SPDX-License-Identifier: GPL-2.0-only
# Waits until libvirt can start VMs with KVM.

# libvirt may have asked QEMU before udev had loaded KVM; then it asks anew.
for second in $(seq 60); do
	virsh domcapabilities --virttype kvm --machine q35 >/tmp/capabilities 2>&1 && break
	sleep 1
done
