// SPDX-License-Identifier: GPL-2.0-only
//! The virtio-serial port to the machine, found by its name.

use anyhow::{Context, Result};
use paratick_core::wire::{GUEST_PORT, HOST_PORT};
use std::{fs::File, io::Read, path::PathBuf, thread, time::Duration};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Host,
    Guest,
}

/// Waits for the port; which one there is says what this system is.
pub fn open() -> Result<(Kind, File)> {
    loop {
        if let Some((kind, device)) = find() {
            let file = File::options().read(true).write(true).open(&device);
            let file = file.with_context(|| format!("opening {}", device.display()))?;
            return Ok((kind, file));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn find() -> Option<(Kind, PathBuf)> {
    for entry in std::fs::read_dir("/sys/class/virtio-ports").ok()? {
        let entry = entry.ok()?;
        let name = std::fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        let kind = match name.trim() {
            HOST_PORT => Kind::Host,
            GUEST_PORT => Kind::Guest,
            _ => continue,
        };
        let device = PathBuf::from("/dev").join(entry.file_name());
        if device.exists() {
            return Some((kind, device));
        }
    }
    None
}

/// A port reads as ended while nobody is connected to its other side: wait for somebody.
pub struct Patient {
    pub port: File,
    pub heard: bool,
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let length = self.port.read(buffer)?;
            if length > 0 || self.heard || buffer.is_empty() {
                self.heard = true;
                return Ok(length);
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}
