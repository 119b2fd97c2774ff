// SPDX-License-Identifier: GPL-2.0-only
//! A lock that is a file, which is there only while somebody has it.

use anyhow::{Context, Result};
use paratick_service::lock;
use rustix::{
    fs::{flock, FlockOperation},
    io::Errno,
};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Mutex,
};

/// Files to remove should a signal end us.
static HELD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// None while somebody else has it.  Who crashes has it no longer, though the file stays.
    pub fn take(path: &Path) -> Result<Option<Lock>> {
        loop {
            let file =
                File::create(path).with_context(|| format!("creating {}", path.display()))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => {
                    return Err(error).with_context(|| format!("locking {}", path.display()))
                }
            }
            // Who had it may have removed the file after it was opened here: then somebody else
            // has another one by now, or will.
            if is_at(&file, path) {
                lock(&HELD).insert(path.into());
                return Ok(Some(Lock { path: path.into(), _file: file }));
            }
        }
    }
}

impl Drop for Lock {
    /// While it is locked: so nobody else has the file that is removed.
    fn drop(&mut self) {
        let mut held = lock(&HELD);
        // Else a signal has removed it, and another may be there.
        if held.remove(&self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes the file of each lock of this program's, for a signal that ends it.
pub fn clean_up() {
    for path in std::mem::take(&mut *lock(&HELD)) {
        let _ = fs::remove_file(path);
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let place = |of: fs::Metadata| (of.dev(), of.ino());
    let (its, there) = (file.metadata().map(place), fs::metadata(path).map(place));
    matches!((its, there), (Ok(its), Ok(there)) if its == there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicU32, Ordering},
        thread,
    };

    #[test]
    fn its_file_is_gone_with_it_and_another_one_s_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = Lock::take(&path).unwrap().unwrap();
        assert!(Lock::take(&path).unwrap().is_none() && path.exists());
        drop(first);
        assert!(!path.exists());
        // What a crash left.
        File::create(&path).unwrap();
        drop(Lock::take(&path).unwrap().unwrap());
        assert!(!path.exists());
    }

    /// Each removes the file that others have opened meanwhile, and have not locked yet.
    #[test]
    fn no_two_have_it_at_once_while_its_file_comes_and_goes() {
        const EACH: u32 = 400;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let (holders, refused) = (AtomicU32::new(0), AtomicU32::new(0));
        let hold = || {
            let mut taken = 0;
            while taken < EACH {
                let Some(lock) = Lock::take(&path).unwrap() else {
                    refused.fetch_add(1, Ordering::SeqCst);
                    thread::yield_now();
                    continue;
                };
                taken += 1;
                assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two have it");
                thread::yield_now();
                holders.fetch_sub(1, Ordering::SeqCst);
                drop(lock);
            }
        };
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(hold))));
        assert!(refused.into_inner() > 0, "nobody was in another one's way");
        assert!(!path.exists());
    }
}
