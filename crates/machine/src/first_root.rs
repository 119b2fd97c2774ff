// SPDX-License-Identifier: GPL-2.0-only
//! The first root of a host that starts guests before it has the machine's, or without it.

use anyhow::{Context, Result};
use paratick_build::{initramfs::Files, tools::Tools};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Of all firmware, what QEMU starts a guest's kernel with: on q35 and on microvm.
const FIRMWARE: [&str; 5] =
    ["bios-256k.bin", "bios-microvm.bin", "kvmvapic.bin", "linuxboot_dma.bin", "efi-virtio.rom"];

/// What the agent starts guests of this kernel with, by its paths on the machine.
pub fn for_guests(tools: &Tools, kernel: &Path) -> Result<Files> {
    let mut files = Files::new();
    let firmware = tools.firmware.iter().flat_map(|folder| FIRMWARE.map(|name| folder.join(name)));
    let needed = firmware.filter(|file| file.exists());
    for file in needed.chain([kernel.into(), tools.initramfs_of(kernel)?]) {
        files.insert(file.clone(), file);
    }
    add_program(&mut files, &tools.qemu)?;
    Ok(files)
}

pub fn add_program(files: &mut Files, program: &Path) -> Result<()> {
    for file in libraries(program)?.into_iter().chain([program.into()]) {
        files.insert(file.clone(), file);
    }
    Ok(())
}

/// The libraries of a program, with its loader; none of a static one.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let said = Command::new("ldd").arg(program).output().context("running ldd")?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    Ok(said.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect())
}
