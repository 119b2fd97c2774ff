// SPDX-License-Identifier: GPL-2.0-only
//! Snapshots as they lie in the cache: whole, as they were made, and not too many of them.

use crate::guest::KeptGuest;
use anyhow::{ensure, Context, Result};
use paratick_build::cache;
use paratick_core::{size::Size, wire::Ready};
use rustix::fs::{flock, FlockOperation};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::File,
    io::Read,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

pub const MEMORY: &str = "memory";
pub const STATE: &str = "state";
pub const ABOUT: &str = "about.json";

/// All snapshots together take no more room than this, nor than is left to others; those that were
/// not used for longest go.  The tests' have 180 MB each.
const MOST: Size = Size::mib(16 << 10);
/// Room that is left to others, beyond what one snapshot may take.
const SPARE: Size = Size::mib(256);

pub fn home() -> Result<PathBuf> {
    Ok(cache::dir()?.join("snapshot"))
}

#[derive(Clone, Serialize, Deserialize)]
pub struct About {
    /// What it was made of, each by its name: a hash.
    pub parts: BTreeMap<String, String>,
    pub memory: Fingerprint,
    pub state_sha256: String,
    pub ready: Ready,
    pub guest: Option<KeptGuest>,
}

/// Tells whether a file was written to, without reading it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    pub bytes: u64,
    pub modified_ns: i128,
}

impl Fingerprint {
    pub fn of(file: &Path) -> Result<Fingerprint> {
        let found = fs_err::metadata(file)?;
        let modified_ns =
            i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        Ok(Fingerprint { bytes: found.len(), modified_ns })
    }
}

/// One of the cache, which stays while this is held.
pub struct Snapshot {
    pub dir: PathBuf,
    pub about: About,
    _used: File,
}

impl Snapshot {
    /// None where there is none; an error where it is not as it was made.
    pub fn open(dir: &Path) -> Result<Option<Snapshot>> {
        let about = dir.join(ABOUT);
        let Ok(mut file) = File::open(&about) else {
            ensure!(!dir.exists(), "it is not whole");
            return Ok(None);
        };
        flock(&file, FlockOperation::LockShared).context("locking it")?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let about: About = serde_json::from_str(&text).context("about.json cannot be read")?;
        let memory = dir.join(MEMORY);
        ensure!(Fingerprint::of(&memory)? == about.memory, "its memory was written to");
        ensure!(cache::sha256(&dir.join(STATE))? == about.state_sha256, "its state has changed");
        // Tells which were not used for long; nothing depends on it.
        let _ = file.set_modified(SystemTime::now());
        Ok(Some(Snapshot { dir: dir.into(), about, _used: file }))
    }
}

/// Gives back what a file has of zeros.
pub fn dig(file: &Path) -> Result<()> {
    const PIECE: usize = 64 << 10;
    let file = fs_err::OpenOptions::new().read(true).write(true).open(file)?;
    let file = file.file();
    let mut bytes = vec![0; PIECE];
    let end = file.metadata()?.len();
    let mut at = 0;
    while let Ok(data) = rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        let hole = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(data)).unwrap_or(end);
        at = data;
        while at < hole {
            let length = PIECE.min((hole - at) as usize);
            file.read_exact_at(&mut bytes[..length], at)?;
            if bytes[..length].iter().all(|byte| *byte == 0) {
                use rustix::fs::{fallocate, FallocateFlags};
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                // Some file systems cannot.
                let _ = fallocate(file, flags, at, length as u64);
            }
            at += length as u64;
        }
    }
    Ok(())
}

/// Removes what was not used for longest until there is room for one more, of this memory.
pub fn make_room(home: &Path, memory: Size) -> Result<()> {
    let mut all: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for entry in fs_err::read_dir(home)?.flatten() {
        let dir = entry.path();
        let Ok(about) = fs_err::metadata(dir.join(ABOUT)) else { continue };
        let used = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        all.push((used, room(&dir.join(MEMORY)), dir));
    }
    all.sort();
    let mut total: u64 = all.iter().map(|(_, bytes, _)| bytes).sum();
    let most = MOST.bytes().min((total + free(home)?) / 2);
    for (_, bytes, dir) in all {
        if total <= most && free(home)? >= memory.bytes() + SPARE.bytes() {
            break;
        }
        if discard(&dir) {
            total = total.saturating_sub(bytes);
        }
    }
    let free = free(home)?;
    ensure!(
        free >= memory.bytes() + SPARE.bytes(),
        "{} MiB are free in {}, and its memory has {} MiB",
        free >> 20,
        home.display(),
        memory.in_mib()
    );
    Ok(())
}

/// What a sparse file takes.
fn room(file: &Path) -> u64 {
    fs_err::metadata(file).map_or(0, |found| found.blocks() * 512)
}

fn free(folder: &Path) -> Result<u64> {
    let free = rustix::fs::statvfs(folder).context("asking for free disk space")?;
    Ok(free.f_bavail.saturating_mul(free.f_frsize))
}

/// Removes a snapshot; not while another run begins from it.
pub fn discard(dir: &Path) -> bool {
    let used = File::open(dir.join(ABOUT))
        .is_ok_and(|about| flock(&about, FlockOperation::NonBlockingLockExclusive).is_err());
    !used && fs_err::remove_dir_all(dir).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{thread, time::Duration};

    #[test]
    fn zeros_take_no_room_and_the_rest_stays() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut bytes = vec![0_u8; 1 << 20];
        bytes[300_000] = 7;
        fs_err::write(file.path(), &bytes).unwrap();
        let before = room(file.path());
        dig(file.path()).unwrap();
        assert!(room(file.path()) <= before);
        assert_eq!(fs_err::read(file.path()).unwrap(), bytes);
    }

    #[test]
    fn what_is_damaged_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("one");
        assert!(Snapshot::open(&dir).unwrap().is_none());
        fs_err::create_dir(&dir).unwrap();
        assert!(Snapshot::open(&dir).is_err());
        for name in [MEMORY, STATE] {
            fs_err::write(dir.join(name), name).unwrap();
        }
        let about = About {
            parts: BTreeMap::new(),
            memory: Fingerprint::of(&dir.join(MEMORY)).unwrap(),
            state_sha256: cache::sha256(&dir.join(STATE)).unwrap(),
            ready: Ready::default(),
            guest: None,
        };
        fs_err::write(dir.join(ABOUT), serde_json::to_string(&about).unwrap()).unwrap();
        let open = Snapshot::open(&dir).unwrap().unwrap();
        assert!(!discard(&dir), "it is in use");
        drop(open);
        fs_err::write(dir.join(STATE), "x").unwrap();
        assert!(Snapshot::open(&dir).err().unwrap().to_string().contains("state"));
        fs_err::write(dir.join(STATE), STATE).unwrap();
        assert!(Snapshot::open(&dir).unwrap().is_some());
        thread::sleep(Duration::from_millis(10));
        fs_err::write(dir.join(MEMORY), "MEMORY").unwrap();
        assert!(Snapshot::open(&dir).err().unwrap().to_string().contains("memory"));
        assert!(discard(&dir) && !dir.exists());
    }
}
