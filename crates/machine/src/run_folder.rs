// SPDX-License-Identifier: GPL-2.0-only
//! A folder for one run: sockets, consoles, scratch disks.  Nothing of it stays behind.

use anyhow::{Context, Result};
use paratick_build::cache;
use paratick_service::{lock, process};
use rustix::fs::{flock, FlockOperation};
use std::{
    collections::BTreeSet,
    fs::File,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicU32, Ordering},
        Mutex,
    },
    time::{SystemTime, UNIX_EPOCH},
};

/// Folders to remove should a signal end us.
static LIVE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
static COUNT: AtomicU32 = AtomicU32::new(0);

/// The socket name of a run; the longest thing below the folder.
const LONGEST: usize = "/guest9999/monitor".len();
/// What the kernel allows for a socket's path, less its final zero.
const SOCKET_PATH: usize = 107;

pub struct RunFolder {
    path: PathBuf,
    keep: bool,
    _lock: File,
}

impl RunFolder {
    pub fn create(keep: bool) -> Result<RunFolder> {
        let mut base = cache::dir()?.join("run");
        if base.as_os_str().len() + 24 + LONGEST > SOCKET_PATH {
            base = std::env::temp_dir().join("paratick-run");
        }
        RunFolder::create_in(&base, keep)
    }

    /// In the folder `base`, which is made.
    pub fn create_in(base: &Path, keep: bool) -> Result<RunFolder> {
        fs_err::create_dir_all(base)?;
        sweep(base);
        let path = base.join(name());
        fs_err::create_dir(&path)?;
        lock(&LIVE).insert(path.clone());
        let lock = File::create(path.join("lock")).context("creating the run's lock")?;
        flock(&lock, FlockOperation::LockExclusive).context("locking the run")?;
        Ok(RunFolder { path, keep, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the folder where it is, for somebody to look at.
    pub fn keep(&mut self) {
        self.keep = true;
        // Tells a later run's sweep.
        let _ = File::create(self.path.join("kept"));
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        // Until it is gone: a signal that comes meanwhile waits for it in `clean_up`.
        let mut live = lock(&LIVE);
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.path);
        }
        live.remove(&self.path);
    }
}

/// Where a run's folder would be, for showing command lines without running them.
pub fn example() -> Result<PathBuf> {
    Ok(cache::dir()?.join("run").join("example"))
}

/// Ends every process and removes every folder of this program's: called when a signal ends it.
pub fn clean_up() {
    process::end_all();
    for path in lock(&LIVE).iter() {
        let _ = std::fs::remove_dir_all(path);
    }
}

fn name() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:x}-{}-{count}", now.as_secs(), std::process::id())
}

/// Removes what a killed program left: a folder whose lock nobody holds.
fn sweep(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(lock) = File::open(path.join("lock")) else { continue };
        if path.join("kept").exists() {
            continue;
        }
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}
