// SPDX-License-Identifier: GPL-2.0-only
//! How large guests are.

use super::number;
use clap::Args;
use paratick_core::{catalogue::sets::VCPUS, size::Size};

#[derive(Args, Clone, Copy)]
pub struct Vcpus {
    /// CPUs of each guest; the host has one more
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = number(VCPUS))]
    pub vcpus: u32,
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
}

const LEAST_MEMORY: Size = Size::mib(128);

fn memory(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error| format!("{error}"))?;
    match size < LEAST_MEMORY {
        true => Err(format!("too little to boot\nhint: give at least {LEAST_MEMORY}")),
        false => Ok(size),
    }
}
