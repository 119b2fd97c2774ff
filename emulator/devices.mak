# SPDX-License-Identifier: GPL-2.0-only
# The devices that the lab's hosts and guests have; QEMU's x86-64 has hundreds.
CONFIG_Q35=y
CONFIG_MICROVM=y
CONFIG_HPET=y
# No bus of Hyper-V's, but its synthetic interrupts and timers.
CONFIG_HYPERV=y
CONFIG_VMBUS=n
CONFIG_VIRTIO_PCI=y
CONFIG_VIRTIO_9P=y
CONFIG_VIRTIO_BLK=y
CONFIG_VIRTIO_NET=y
CONFIG_VIRTIO_RNG=y
CONFIG_VIRTIO_SERIAL=y
# For guests whose disk is no virtio device.
CONFIG_NVME_PCI=y
