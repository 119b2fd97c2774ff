// SPDX-License-Identifier: GPL-2.0-only
//! How many exits a vCPU made, by KVM's own statistics (KVM_GET_STATS_FD, Linux 5.14 and newer).

use anyhow::{ensure, Context, Result};
use kvm_bindings::{kvm_stats_desc, kvm_stats_header};
use kvm_ioctls::VcpuFd;
use std::{
    fs::File,
    io,
    os::{
        fd::{AsRawFd, FromRawFd},
        unix::fs::FileExt,
    },
};

/// _IO(KVMIO, 0xce)
const KVM_GET_STATS_FD: libc::Ioctl = 0xaece_u32 as libc::Ioctl;

pub struct Statistics {
    file: File,
    /// Where `exits` and `irq_exits` are.
    exits: u64,
    interrupts: u64,
}

impl Statistics {
    pub fn of(vcpu: &VcpuFd) -> Result<Statistics> {
        // SAFETY: it takes no argument.
        let file = unsafe { libc::ioctl(vcpu.as_raw_fd(), KVM_GET_STATS_FD, 0) };
        ensure!(file >= 0, "KVM has no statistics: {}", io::Error::last_os_error());
        // SAFETY: the file is new, and nobody else's.
        let file = unsafe { File::from_raw_fd(file) };
        let word = |at: usize| -> Result<u32> {
            let mut bytes = [0; 4];
            file.read_exact_at(&mut bytes, at as u64)?;
            Ok(u32::from_ne_bytes(bytes))
        };
        let head = |field: usize| word(field).map(|word| word as usize);
        let name_size = head(std::mem::offset_of!(kvm_stats_header, name_size))?;
        let count = head(std::mem::offset_of!(kvm_stats_header, num_desc))?;
        let first = head(std::mem::offset_of!(kvm_stats_header, desc_offset))?;
        let data = head(std::mem::offset_of!(kvm_stats_header, data_offset))?;
        let find = |wanted: &str| -> Result<u64> {
            for nth in 0..count {
                let place = first + nth * (size_of::<kvm_stats_desc>() + name_size);
                let mut name = vec![0; name_size];
                file.read_exact_at(&mut name, (place + size_of::<kvm_stats_desc>()) as u64)?;
                if name.split(|byte| *byte == 0).next() == Some(wanted.as_bytes()) {
                    let offset = word(place + std::mem::offset_of!(kvm_stats_desc, offset))?;
                    return Ok(data as u64 + u64::from(offset));
                }
            }
            None.with_context(|| format!("KVM's statistics have no {wanted}"))
        };
        let (exits, interrupts) = (find("exits")?, find("irq_exits")?);
        Ok(Statistics { file, exits, interrupts })
    }

    /// Up to now, without those for the host's interrupts.
    pub fn exits(&self) -> Result<u64> {
        let read = |at| -> io::Result<u64> {
            let mut bytes = [0; 8];
            self.file.read_exact_at(&mut bytes, at)?;
            Ok(u64::from_ne_bytes(bytes))
        };
        Ok(read(self.exits)?.saturating_sub(read(self.interrupts)?))
    }
}
