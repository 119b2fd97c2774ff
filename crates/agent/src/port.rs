// SPDX-License-Identifier: GPL-2.0-only
//! The port to the machine: virtio-serial, found by its name, or a serial line.

use anyhow::{Context, Result};
use paratick_core::wire::{GUEST_PORT, HOST_LINE, HOST_PORT};
use rustix::termios::{tcgetattr, tcsetattr, OptionalActions};
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// As fast as a serial line can be.
const BAUD: u32 = 115_200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Host,
    Guest,
}

/// Waits for the port; which one there is says what this system is.
pub fn open() -> Result<(Kind, File)> {
    if let Some(line) = std::env::var_os(HOST_LINE) {
        return Ok((Kind::Host, open_line(line.as_ref())?));
    }
    loop {
        if let Some((kind, device)) = find() {
            return Ok((kind, open_device(&device)?));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn open_device(device: &Path) -> Result<File> {
    let file = File::options().read(true).write(true).open(device);
    file.with_context(|| format!("opening {}", device.display()))
}

/// A terminal that changes nothing on the way.
fn open_line(device: &Path) -> Result<File> {
    let file = open_device(device)?;
    let mut settings = tcgetattr(&file).context("asking for the serial line's settings")?;
    settings.make_raw();
    settings.set_speed(BAUD)?;
    tcsetattr(&file, OptionalActions::Now, &settings).context("setting up the serial line")?;
    Ok(file)
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
