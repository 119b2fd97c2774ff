// SPDX-License-Identifier: GPL-2.0-only
//! The first root file system of the lab's hosts and guests: an archive in memory.

use crate::cache;
use anyhow::{Context, Result};
use cpio::newc::{trailer, Builder};
use std::{
    collections::BTreeMap,
    io::{self, Seek, SeekFrom, Write},
    os::unix::fs::{symlink, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
};

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_000;

/// Lies beside an image that needs modules.
pub const MODULES: &str = "modules";

/// Files by their paths in the archive, each with its place on this machine.
pub type Files = BTreeMap<PathBuf, PathBuf>;

/// The archive in which the agent is the first process, and all there is; made unless the cache
/// has it.
pub fn of_agent(agent: &Path) -> Result<PathBuf> {
    let found = fs_err::metadata(agent)?;
    let what = format!("{}\n{}\n{}", found.len(), found.mtime(), found.mtime_nsec());
    let name = agent.as_os_str().as_encoded_bytes();
    kept(&cache::key([name, what.as_bytes()]), |home, archive| {
        let small = stripped(agent, home)?;
        create(&Files::from([("/init".into(), small.path().to_path_buf())]), archive)
    })
}

/// The archive of modules that this image needs, where it is a stock kernel's.
pub fn modules_of(bzimage: &Path) -> Option<PathBuf> {
    Some(bzimage.with_file_name(MODULES)).filter(|modules| modules.is_file())
}

/// The archive that this kernel boots with: `first`, and behind it the kernel's modules, where it
/// is a stock kernel that needs some.
pub fn of_kernel(first: &Path, bzimage: &Path) -> Result<PathBuf> {
    let Some(modules) = modules_of(bzimage) else { return Ok(first.to_path_buf()) };
    let found = fs_err::metadata(&modules)?;
    let what = format!("{}\n{}\n{}", found.len(), found.mtime(), found.mtime_nsec());
    let names = [first, &modules].map(|file| file.as_os_str().as_encoded_bytes());
    kept(&cache::key(names.into_iter().chain([what.as_bytes()])), |_, archive| {
        let mut to = begun_with(first, archive)?;
        io::copy(&mut fs_err::File::open(&modules)?, &mut to).map(drop).map_err(Into::into)
    })
}

/// An archive of the cache, which `make` writes if there is none under this key.
fn kept(key: &str, make: impl FnOnce(&Path, &Path) -> Result<()>) -> Result<PathBuf> {
    let home = cache::dir()?.join("initramfs");
    let known = home.join(key);
    if !known.is_file() {
        fs_err::create_dir_all(&home)?;
        let new = tempfile::NamedTempFile::new_in(&home)?;
        make(&home, new.path())?;
        fs_err::set_permissions(new.path(), PermissionsExt::from_mode(0o644))?;
        // Named by its content: the same agent, built again, makes no other host.
        let to = home.join(&cache::sha256(new.path())?[..16]);
        new.persist(&to).context("keeping the archive")?;
        let link = tempfile::Builder::new().make_in(&home, |link| symlink(&to, link))?;
        link.persist(&known).context("keeping the archive's name")?;
    }
    Ok(fs_err::canonicalize(known)?)
}

/// What debuggers want of a program is most of it; as it is, where there is no strip(1).
fn stripped(program: &Path, folder: &Path) -> Result<tempfile::NamedTempFile> {
    let small = tempfile::NamedTempFile::new_in(folder)?;
    let said = Command::new("strip").arg("-o").arg(small.path()).arg(program).output();
    if !said.is_ok_and(|said| said.status.success()) {
        fs_err::copy(program, small.path())?;
    }
    fs_err::set_permissions(small.path(), PermissionsExt::from_mode(0o755))?;
    Ok(small)
}

/// Writes the archive `first`, and behind it one of these files with the folders that they are in:
/// for the kernel they are one.
pub fn extend(first: &Path, files: &Files, to: &Path) -> Result<()> {
    let archive = begun_with(first, to)?;
    write(files, archive.file()).with_context(|| format!("writing {}", to.display()))
}

/// An archive of these files alone, with the folders that they are in.
pub fn create(files: &Files, to: &Path) -> Result<()> {
    let archive = fs_err::File::create(to)?;
    write(files, archive.file()).with_context(|| format!("writing {}", to.display()))
}

/// A new file with the archive `first`, at the place where the next begins.
fn begun_with(first: &Path, to: &Path) -> Result<fs_err::File> {
    let mut archive = fs_err::File::create(to)?;
    io::copy(&mut fs_err::File::open(first)?, &mut archive)?;
    let length = archive.metadata()?.len();
    archive.set_len(length.next_multiple_of(4))?;
    archive.seek(SeekFrom::End(0))?;
    Ok(archive)
}

fn write(files: &Files, to: &std::fs::File) -> Result<()> {
    let mut to = io::BufWriter::new(to);
    let mut number = 0;
    let mut entry = |name: &Path, mode: u32, size: u32| {
        number += 1;
        let name = name.strip_prefix("/").unwrap_or(name).display().to_string();
        (Builder::new(&name).ino(number).mode(mode).nlink(1), size)
    };
    // The kernel makes no folder that is not in the archive, before what is in it.
    let folders: std::collections::BTreeSet<&Path> = files
        .keys()
        .flat_map(|file| file.ancestors().skip(1))
        .filter(|folder| folder.parent().is_some())
        .collect();
    for folder in folders {
        let (builder, size) = entry(folder, FOLDER, 0);
        builder.write(&mut to, size).finish()?;
    }
    for (name, place) in files {
        let mut from = fs_err::File::open(place)?;
        let found = from.metadata()?;
        let size = u32::try_from(found.len()).context("a file is too large for the archive")?;
        let (builder, size) = entry(name, FILE | (found.mode() & 0o777), size);
        let mut writer = builder.write(&mut to, size);
        io::copy(&mut from, &mut writer)?;
        writer.finish()?;
    }
    trailer(&mut to)?;
    to.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_files_after_their_folders() {
        let folder = tempfile::tempdir().unwrap();
        let [program, archive] = ["program", "archive"].map(|name| folder.path().join(name));
        fs_err::write(&program, "text").unwrap();
        fs_err::set_permissions(&program, PermissionsExt::from_mode(0o750)).unwrap();
        let files = Files::from([("/init".into(), program.clone()), ("/a/b/c".into(), program)]);
        write(&files, &std::fs::File::create(&archive).unwrap()).unwrap();
        let mut from = fs_err::File::open(&archive).unwrap();
        let mut seen = Vec::new();
        loop {
            let entry = cpio::newc::Reader::new(from).unwrap();
            if entry.entry().is_trailer() {
                break;
            }
            let (name, mode) = (entry.entry().name().to_string(), entry.entry().mode());
            seen.push((name, mode));
            from = entry.finish().unwrap();
        }
        let expected =
            [("a", FOLDER), ("a/b", FOLDER), ("a/b/c", FILE | 0o750), ("init", FILE | 0o750)];
        assert_eq!(seen, expected.map(|(name, mode)| (name.to_string(), mode)));
    }
}
