// SPDX-License-Identifier: GPL-2.0-only
//! The guest: an initramfs of one program, and what that says.

use std::{fs, path::Path, process::Command};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/vmm/init.c");

/// Compiles the program, and packs it.
pub fn initramfs(folder: &Path) {
    let program = folder.join("init");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-Wall", "-static", "-s", "-o"]).arg(&program).arg(PROGRAM);
    assert!(gcc.status().expect("gcc").success());
    pack_init(&program, &folder.join("initramfs"));
}

/// An initramfs of this program alone, and a folder for devices.
pub fn pack_init(program: &Path, initramfs: &Path) {
    let mut archive = Vec::new();
    pack(&mut archive, "dev", 0o040_755, &[]);
    pack(&mut archive, "init", 0o100_755, &fs::read(program).unwrap());
    pack(&mut archive, "TRAILER!!!", 0, &[]);
    fs::write(initramfs, archive).unwrap();
}

/// As Documentation/driver-api/early-userspace/buffer-format.rst of Linux has it.
fn pack(archive: &mut Vec<u8>, name: &str, mode: usize, contents: &[u8]) {
    let [uid, gid, links, time, device] = [0, 0, 1, 0, 0];
    let fields = [1, mode, uid, gid, links, time, contents.len()];
    let more = [device, device, device, device, name.len() + 1, 0];
    archive.extend(b"070701");
    for field in fields.into_iter().chain(more) {
        archive.extend(format!("{field:08x}").bytes());
    }
    archive.extend(name.bytes().chain([0]));
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend(contents);
    archive.resize(archive.len().next_multiple_of(4), 0);
}

/// One line of the guest's; counts of the busy CPU since boot, sleeps since the last line.
#[derive(Clone, Copy, Debug)]
pub struct Beat {
    pub ms: u64,
    pub virtual_ticks: u64,
    pub local_timer: u64,
    pub slept: u64,
    pub late_us: u64,
}

impl Beat {
    fn parse(line: &str) -> Option<Beat> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let after = |name: &str| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1)?.parse().ok()
        };
        after("beat")?;
        Some(Beat {
            ms: after("ms")?,
            virtual_ticks: after("ticks")?,
            local_timer: after("timer")?,
            slept: after("slept")?,
            late_us: after("late_us")?,
        })
    }

    /// The host's and its own.
    pub fn all_ticks(&self) -> u64 {
        self.virtual_ticks + self.local_timer
    }
}

/// What the guest said after a mark and before the next one.  Where its time went back, it was
/// loaded or reset: what it had said before that comes late.
pub fn in_section(said: &str, mark: &str) -> Vec<Beat> {
    let (_, after) = said.split_once(&format!("\n== {mark}\n")).expect("a mark");
    let section = after.split("\n== ").next().unwrap_or_default();
    let mut beats: Vec<Beat> = section.lines().filter_map(Beat::parse).collect();
    let back = beats.windows(2).rposition(|pair| pair[1].ms < pair[0].ms);
    beats.split_off(back.map_or(0, |last| last + 1))
}
