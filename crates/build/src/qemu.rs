// SPDX-License-Identifier: GPL-2.0-only
//! A QEMU that is not of the lab's making.

use anyhow::{bail, Result};
use paratick_service::find_program;
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

const QEMU: &str = "qemu-system-x86_64";

/// An emulator named by the user (`$PARATICK_QEMU`), if any.
pub fn named_qemu() -> Result<Option<PathBuf>> {
    let Some(name) = env::var_os("PARATICK_QEMU") else { return Ok(None) };
    let name = name.to_string_lossy();
    let path = env::var("PATH").unwrap_or_default();
    match find_program(&name, &path) {
        Some(file) => Ok(Some(fs_err::canonicalize(file)?)),
        None => bail!(
            "PARATICK_QEMU is {name}, which is not a program\n\
             hint: unset it to use the lab's own emulator"
        ),
    }
}

/// Whether this QEMU counts world switches: it tells which options it has.
pub fn counts(qemu: &Path) -> bool {
    let options = Command::new(qemu).args(["-icount", "shift=0,help"]).output();
    options.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).contains("counts="))
}

pub fn system_qemu() -> Result<PathBuf> {
    let path = env::var("PATH").unwrap_or_default();
    match find_program(QEMU, &path) {
        Some(file) => Ok(fs_err::canonicalize(file)?),
        None => bail!("no {QEMU} on this machine\nhint: apt install qemu-system-x86"),
    }
}
