// SPDX-License-Identifier: GPL-2.0-only
//! Sources in the cache: the base as it was unpacked, and trees that follow a series.
//!
//! A followed tree is a farm of hard links to the unpacked base in which only files that differ are
//! rewritten.  Their new time stamps make `make` rebuild exactly what a change of the series asks
//! for.

use crate::{
    cache,
    kernel::{base::Source, run, series::Patch},
    progress::{Events, Step},
};
use anyhow::{Context, Result};
use rustix::fs::{flock, FlockOperation};
use std::{
    collections::BTreeSet,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

/// Held while a folder of the cache is worked on; released when dropped, also by a crash.
pub struct Lock(#[allow(dead_code)] File);

pub fn lock(name: &str, events: Events) -> Result<Lock> {
    let dir = cache::dir()?.join("work");
    fs_err::create_dir_all(&dir)?;
    let path = dir.join(format!("{name}.lock"));
    let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        events(Step::WaitingForLock { name }.into());
        flock(&file, FlockOperation::LockExclusive)
            .with_context(|| format!("cannot lock {}", path.display()))?;
    }
    Ok(Lock(file))
}

/// Unpacks a tarball, without its top folder, into a folder that must not exist yet.
pub fn unpack(source: &Source, to: &Path) -> Result<()> {
    fs_err::create_dir_all(to)?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(&source.base.tarball).arg("-C").arg(to);
    tar.args(["--strip-components=1", "--no-same-owner"]);
    run::output(&mut tar).map(drop)
}

/// The unpacked base; nobody may write in it.
pub fn pristine(source: &Source, events: Events) -> Result<PathBuf> {
    let name = format!("source-{}", source.key());
    let dir = cache::dir()?.join("source").join(source.key());
    let _lock = lock(&name, events)?;
    if !dir.is_dir() {
        let tarball = &source.base.tarball;
        events(Step::UnpackingKernel { tarball }.into());
        build_into(&dir, |part| unpack(source, part))?;
    }
    Ok(dir)
}

/// Makes a folder or a file under a temporary name and renames it when it is whole.
pub fn build_into(to: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let mut part = to.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    if part.exists() {
        // Left by an interrupted run; the caller's lock says that nobody is in it.
        remove(&part)?;
    }
    if let Err(error) = make(&part) {
        let _ = remove(&part);
        return Err(error);
    }
    fs_err::rename(&part, to)?;
    Ok(())
}

fn remove(part: &Path) -> std::io::Result<()> {
    match part.is_dir() {
        true => fs_err::remove_dir_all(part),
        false => fs_err::remove_file(part),
    }
}

/// A tree that follows a series, and the folder its objects are kept in.
pub struct Followed {
    pub src: PathBuf,
    pub out: PathBuf,
    pub log: PathBuf,
    dir: PathBuf,
    pristine: PathBuf,
    _lock: Lock,
}

impl Followed {
    /// The tree for one purpose (`patched`, `check`, …); two purposes never disturb each other.
    pub fn open(source: &Source, purpose: &str, events: Events) -> Result<Self> {
        let pristine = pristine(source, events)?;
        let name = format!("{}-{purpose}-{}", source.base.name, source.key());
        let dir = cache::dir()?.join("work").join(&name);
        let lock = lock(&name, events)?;
        if !dir.is_dir() {
            build_into(&dir, |part| {
                fs_err::create_dir_all(part.join("out"))?;
                let to = part.join("src");
                run::output(Command::new("cp").arg("-al").arg(&pristine).arg(to)).map(drop)
            })?;
        }
        Ok(Followed {
            src: dir.join("src"),
            out: dir.join("out"),
            log: dir.join("build.log"),
            dir,
            pristine,
            _lock: lock,
        })
    }

    /// Makes the tree what the base is with `patches` applied; fails, and changes nothing, when one
    /// does not apply.
    pub fn follow<'a>(&self, patches: impl IntoIterator<Item = &'a Patch>) -> Result<()> {
        let stage = tempfile::tempdir_in(&self.dir)?;
        let current = self.dir.join("current.patch");
        let mut touched = BTreeSet::new();
        for patch in patches {
            for file in patch.touched() {
                if touched.insert(file.clone()) {
                    copy_if_there(&self.pristine.join(&file), &stage.path().join(&file))?;
                }
            }
            // As it was read: the file may have been edited since.
            fs_err::write(&current, &patch.text)?;
            apply(stage.path(), &current).with_context(|| format!("{patch} does not apply"))?;
        }
        let record = self.dir.join("touched");
        let before = fs_err::read_to_string(&record).unwrap_or_default();
        let every: BTreeSet<String> =
            before.lines().map(str::to_owned).chain(touched.iter().cloned()).collect();
        fs_err::write(&record, lines(&every))?;
        for file in &every {
            let from = if touched.contains(file) { stage.path() } else { &self.pristine };
            rewrite(&from.join(file), &self.src.join(file))?;
        }
        fs_err::write(&record, lines(&touched))?;
        Ok(())
    }
}

fn apply(dir: &Path, patch: &Path) -> Result<()> {
    let mut git = Command::new("git");
    git.current_dir(dir)
        .args(["apply", "--whitespace=nowarn"])
        .arg(patch)
        // The cache may be inside a repository; git apply would then skip every file.
        .env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap_or(dir));
    for inherited in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        git.env_remove(inherited);
    }
    run::output(&mut git).map(drop)
}

fn lines(files: &BTreeSet<String>) -> String {
    files.iter().map(|file| format!("{file}\n")).collect()
}

/// Copies a file that may not exist, with the folders it needs.
pub fn copy_if_there(from: &Path, to: &Path) -> Result<()> {
    if from.exists() {
        fs_err::create_dir_all(to.parent().expect("a file has a folder"))?;
        fs_err::copy(from, to)?;
    }
    Ok(())
}

/// Makes `to` say what `from` says; where it already does, its time stamp stays.
fn rewrite(from: &Path, to: &Path) -> Result<()> {
    let wanted = fs_err::read(from).ok();
    let found = fs_err::read(to).ok();
    if wanted == found {
        return Ok(());
    }
    if found.is_some() {
        // The link, not the base's file behind it.
        fs_err::remove_file(to)?;
    }
    copy_if_there(from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rewritten_file_leaves_the_base_alone_and_an_equal_one_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let [base, link, new] = ["base", "link", "new"].map(|name| dir.path().join(name));
        std::fs::write(&base, "old").unwrap();
        std::fs::hard_link(&base, &link).unwrap();
        std::fs::write(&new, "new").unwrap();
        rewrite(&new, &link).unwrap();
        assert_eq!(std::fs::read_to_string(&base).unwrap(), "old");
        assert_eq!(std::fs::read_to_string(&link).unwrap(), "new");
        let time = std::fs::metadata(&link).unwrap().modified().unwrap();
        rewrite(&new, &link).unwrap();
        assert_eq!(std::fs::metadata(&link).unwrap().modified().unwrap(), time);
        rewrite(&dir.path().join("none"), &link).unwrap();
        assert!(!link.exists());
    }
}
