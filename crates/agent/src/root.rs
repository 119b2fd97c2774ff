// SPDX-License-Identifier: GPL-2.0-only
//! A root file system in memory with just what a program needs.
//!
//! A guest's own root file system is the machine's, over 9p: even where all data is cached, every
//! file that a program opens costs some requests, and each of these some exits that have nothing to
//! do with the program.  So the program is run once under strace(1), and what it opened is copied.

use anyhow::{Context, Result};
use rustix::mount::mount_bind_recursive;
use std::{
    collections::VecDeque,
    ffi::OsString,
    os::unix::fs::{lchown, symlink, MetadataExt},
    path::{Component, Path, PathBuf},
};

/// The guest's own: the new root has them as they are.
const SHARED: [&str; 4] = ["/dev", "/proc", "/sys", "/tmp"];
/// In memory already, or nothing that a program is made of.
const LEFT_OUT: [&str; 2] = ["/run", "/var/tmp"];
/// Opened by the kernel, so that strace does not see it.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// Copies every file that strace's output `trace` names to `root`, which is made.
pub fn make(root: &Path, trace: &Path) -> Result<()> {
    fs_err::create_dir_all(root)?;
    let trace = String::from_utf8_lossy(&fs_err::read(trace)?).into_owned();
    for path in [LOADER].into_iter().chain(paths(&trace)) {
        copy(root, Path::new(path)).with_context(|| format!("copying {path}"))?;
    }
    for folder in SHARED {
        let at = root.join(&folder[1..]);
        if !at.exists() {
            fs_err::create_dir_all(&at)?;
            mount_bind_recursive(folder, &at).with_context(|| format!("binding {folder}"))?;
        }
    }
    Ok(())
}

/// Copies what of the folder `from` is to be `taken` to the folder `to`, which is made, with modes
/// and owners: here, because cp(1) and what it needs would have to come over 9p first.
pub fn copy_tree(from: &Path, to: &Path, taken: &dyn Fn(&Path) -> bool) -> Result<()> {
    fs_err::create_dir_all(to)?;
    let found = fs_err::metadata(from)?;
    fs_err::set_permissions(to, found.permissions())?;
    lchown(to, Some(found.uid()), Some(found.gid()))?;
    for entry in fs_err::read_dir(from)? {
        let (entry, at) = entry.map(|entry| (entry.path(), to.join(entry.file_name())))?;
        if !taken(&entry) {
            continue;
        }
        let found = fs_err::symlink_metadata(&entry)?;
        let kind = found.file_type();
        if kind.is_dir() {
            copy_tree(&entry, &at, taken)?;
        } else if kind.is_symlink() {
            symlink(fs_err::read_link(&entry)?, at)?;
        } else if kind.is_file() {
            fs_err::copy(&entry, &at)?;
            lchown(&at, Some(found.uid()), Some(found.gid()))?;
        }
    }
    Ok(())
}

/// The absolute paths in strace's lines, but for calls that found nothing.
fn paths(trace: &str) -> impl Iterator<Item = &str> {
    trace
        .lines()
        .filter(|line| !line.contains("ENOENT"))
        .flat_map(|line| line.split('"').skip(1).step_by(2))
        .filter(|path| path.starts_with('/'))
        .filter(|path| {
            let under = |folder: &&&str| Path::new(path).starts_with(folder);
            !SHARED.iter().chain(&LEFT_OUT).any(|folder| under(&folder))
        })
}

/// Copies one file, or makes one folder, and every link on the way to it.
fn copy(root: &Path, path: &Path) -> Result<()> {
    let mut left: VecDeque<OsString> = names(path).collect();
    let mut at = PathBuf::from("/");
    while let Some(name) = left.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        let from = at.join(&name);
        let Ok(found) = from.symlink_metadata() else { return Ok(()) };
        let to = root.join(from.strip_prefix("/")?);
        if found.is_symlink() {
            let target = fs_err::read_link(&from)?;
            if to.symlink_metadata().is_err() {
                symlink(&target, &to)?;
            }
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            names(&target).rev().for_each(|name| left.push_front(name));
            continue;
        }
        if found.is_dir() {
            fs_err::create_dir_all(&to)?;
        } else if found.is_file() && !to.exists() {
            fs_err::copy(&from, &to)?;
        }
        at = from;
    }
    Ok(())
}

fn names(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_copied_and_what_was_not_is_not() {
        let trace = r#"7 execve("/usr/bin/sort", ["sort", "/tmp/x"], 0x7ffe /* 5 vars */) = 0
7 access("/etc/ld.so.preload", R_OK) = -1 ENOENT (No such file or directory)
8 openat(AT_FDCWD, "/lib/x/libc.so.6", O_RDONLY) = 3
8 openat(AT_FDCWD, "/proc/self/maps", O_RDONLY) = 3
8 openat(AT_FDCWD, "words", O_RDONLY) = 3"#;
        let found: Vec<_> = paths(trace).collect();
        assert_eq!(found, ["/usr/bin/sort", "/lib/x/libc.so.6"]);
    }

    #[test]
    fn a_tree_is_copied_whole() {
        let base = std::env::temp_dir().join(format!("paratick-tree-{}", std::process::id()));
        let (from, to) = (base.join("from"), base.join("to/folder"));
        std::fs::create_dir_all(from.join("in")).unwrap();
        std::fs::write(from.join("in/file"), "text").unwrap();
        symlink("in/file", from.join("link")).unwrap();
        copy_tree(&from, &to, &|_| true).unwrap();
        assert_eq!(std::fs::read_to_string(to.join("link")).unwrap(), "text");
        assert!(to.join("link").is_symlink());
        assert!(copy_tree(&base.join("none"), &to, &|_| true).is_err());
        std::fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn links_are_copied_with_what_they_lead_to() {
        let base = std::env::temp_dir().join(format!("paratick-root-{}", std::process::id()));
        let (from, root) = (base.join("from"), base.join("root"));
        std::fs::create_dir_all(from.join("real")).unwrap();
        std::fs::create_dir_all(&root).unwrap();
        std::fs::write(from.join("real/file.1"), "text").unwrap();
        symlink("real", from.join("folder")).unwrap();
        symlink("../real/file.1", from.join("real/file")).unwrap();
        let path = from.join("folder/file");
        copy(&root, &path).unwrap();
        let copied = root.join(path.strip_prefix("/").unwrap());
        assert_eq!(std::fs::read_to_string(copied).unwrap(), "text");
        copy(&root, &path).unwrap();
        copy(&root, Path::new("/no/such/file")).unwrap();
        std::fs::remove_dir_all(base).unwrap();
    }
}
