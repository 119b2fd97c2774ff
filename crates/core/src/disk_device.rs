// SPDX-License-Identifier: GPL-2.0-only
//! What a guest's disk is to the guest.

use serde::{Deserialize, Serialize};

/// The device that a guest's disk is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(strum::Display, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum DiskDevice {
    /// A paravirtual one: the guest knows that it is in a VM.
    #[default]
    VirtioBlk,
    /// An NVMe controller, which QEMU emulates.
    Nvme,
}

impl DiskDevice {
    pub const ALL: [DiskDevice; 2] = [DiskDevice::VirtioBlk, DiskDevice::Nvme];

    /// Where a guest finds it.
    pub fn path(self) -> &'static str {
        match self {
            DiskDevice::VirtioBlk => "/dev/vda",
            DiskDevice::Nvme => "/dev/nvme0n1",
        }
    }

    pub fn is_default(&self) -> bool {
        *self == DiskDevice::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_written_as_it_is_read() {
        for device in DiskDevice::ALL {
            assert_eq!(device.to_string().parse(), Ok(device));
            assert_eq!(serde_json::to_value(device).unwrap(), device.to_string());
        }
        assert_eq!(DiskDevice::default().to_string(), "virtio-blk");
    }
}
