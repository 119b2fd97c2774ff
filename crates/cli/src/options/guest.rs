// SPDX-License-Identifier: GPL-2.0-only
//! How large guests are.

use super::{named, number};
use crate::errors::usage;
use anyhow::Result;
use clap::Args;
use paratick_core::{
    catalogue::sets::VCPUS, disk_device::DiskDevice, size::Size, wire::MachineType,
};

#[derive(Args, Clone, Copy)]
pub struct Vcpus {
    /// CPUs of each guest; the host has one more
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = number(VCPUS))]
    pub vcpus: u32,
}

#[derive(Args, Clone, Copy)]
pub struct Sockets {
    /// Packages that a guest's CPUs are divided among, each with a cache of its own [default: 1]
    #[arg(long, value_name = "N", value_parser = number(1..=*VCPUS.end()))]
    sockets: Option<u32>,
}

impl Sockets {
    /// So many for guests of so many CPUs; none: all are in one.
    pub fn of(self, vcpus: u32) -> Result<Option<u32>> {
        let Some(sockets) = self.sockets.filter(|sockets| *sockets > 1) else { return Ok(None) };
        if vcpus % sockets != 0 {
            let fits: Vec<_> = (1..=vcpus).filter(|n| vcpus % n == 0).collect();
            let fits: Vec<_> = fits.iter().map(u32::to_string).collect();
            return Err(usage(format!(
                "--sockets {sockets} does not divide the {vcpus} CPUs of a guest\n\
                 hint: give one of {}",
                fits.join(", ")
            )));
        }
        Ok(Some(sockets))
    }
}

#[derive(Args, Clone, Copy)]
pub struct Memory {
    /// Memory of each guest; the host has 1G more
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub memory: Option<Size>,
}

#[derive(Args, Clone, Copy)]
pub struct Disk {
    /// Size of each guest's disk, /dev/vda, which is empty
    #[arg(long, value_name = "SIZE")]
    pub disk: Option<Size>,
    /// What each guest's disk is: paravirtual, or an NVMe controller, which QEMU emulates: the disk
    /// is /dev/nvme0n1 then, and a kernel that the lab builds gets the driver
    #[arg(long, value_name = "DEVICE", default_value_t, value_parser = named::<DiskDevice>())]
    pub disk_device: DiskDevice,
}

impl Disk {
    /// For a guest that has a disk only where one is asked for.
    pub fn check(&self, machine: MachineType) -> Result<()> {
        let device = self.disk_device;
        if device == DiskDevice::VirtioBlk {
            return Ok(());
        }
        if self.disk.is_none() {
            return Err(usage(format!(
                "--disk-device {device} is for a guest with a disk\n\
                 hint: give it one: --disk 64M"
            )));
        }
        if machine == MachineType::Microvm {
            return Err(usage(format!(
                "--disk-device {device} is not for --machine {machine}, which has no PCI\n\
                 hint: give --machine {}",
                MachineType::Q35
            )));
        }
        Ok(())
    }
}

const LEAST_MEMORY: Size = Size::mib(128);
/// What the longest physical addresses reach.
const MOST_MEMORY: Size = Size::mib(1 << 32);

fn memory(text: &str) -> std::result::Result<Size, String> {
    let size: Size = text.parse().map_err(|error| format!("{error}"))?;
    if size < LEAST_MEMORY {
        return Err(format!("too little to boot\nhint: give at least {LEAST_MEMORY}"));
    }
    if size > MOST_MEMORY {
        return Err(format!("more than a CPU can address\nhint: give at most {MOST_MEMORY}"));
    }
    Ok(size)
}
