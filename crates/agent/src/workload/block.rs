// SPDX-License-Identifier: GPL-2.0-only
//! Reads of 4 KiB past the page cache: each one waits for the device's interrupt.

use super::{
    measure::{measure, pin},
    options::{Options, Pattern},
};
use anyhow::{bail, Context, Result};
use paratick_core::{disk_device::DiskDevice, workload::Report};
use rustix::fs::{open, seek, Mode, OFlags, SeekFrom};
use rustix::{fd::OwnedFd, io::pread};
use std::path::{Path, PathBuf};

const BLOCK: usize = 4096;
const WARM_UP: u64 = 20;

pub fn run(options: &Options) -> Result<Report> {
    let disk = Disk::open(options)?;
    let mut buffer = Box::new(Buffer([0; BLOCK]));
    pin(0)?;
    disk.read(WARM_UP, &mut buffer)?;
    measure(options, || disk.read(options.work, &mut buffer))
}

/// O_DIRECT wants memory that is aligned as the device's blocks are.
#[repr(align(4096))]
struct Buffer([u8; BLOCK]);

struct Disk {
    file: OwnedFd,
    name: String,
    blocks: u64,
    pattern: Pattern,
}

/// Where the guest's disk is; the default device's place where it has none.
fn guest_disk() -> PathBuf {
    let mut places = DiskDevice::ALL.map(DiskDevice::path).into_iter();
    let found = places.find(|place| Path::new(place).exists());
    found.unwrap_or(DiskDevice::default().path()).into()
}

impl Disk {
    fn open(options: &Options) -> Result<Disk> {
        let device = options.device.clone().unwrap_or_else(guest_disk);
        let name = device.display().to_string();
        let file = open(&device, OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty())
            .with_context(|| {
                format!(
                    "cannot open {name} for direct reads\n\
                hint: give the guest a disk (--disk), or name another one with --device"
                )
            })?;
        let size = seek(&file, SeekFrom::End(0)).with_context(|| format!("cannot size {name}"))?;
        let blocks = size / BLOCK as u64;
        if blocks == 0 {
            bail!("{name} has {size} bytes, less than one block of {BLOCK}");
        }
        Ok(Disk { file, name, blocks, pattern: options.pattern })
    }

    fn read(&self, count: u64, buffer: &mut Buffer) -> Result<u64> {
        let mut random: u64 = 1;
        for n in 0..count {
            let block = match self.pattern {
                Pattern::Sequential => n,
                Pattern::Random => {
                    // Knuth's MMIX generator: the same blocks in every run.
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    random >> 20
                }
            } % self.blocks;
            let offset = block * BLOCK as u64;
            let read = pread(&self.file, &mut buffer.0, offset).with_context(|| {
                format!("cannot read {BLOCK} bytes of {} at {offset}", self.name)
            })?;
            if read != BLOCK {
                bail!("{} gave {read} of {BLOCK} bytes at {offset}", self.name);
            }
        }
        Ok(count)
    }
}
